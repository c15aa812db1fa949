#include "check.h"

#include "cluster.h"
#include "ops.h"
#include "pair.h"
#include "raft/replica/rlog_wire.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    TERM_MAX = 1 << 20,
    CLOCK_SLACK_MS = 65000, /* cluster time beside the median: more than that is not slewed */
    CLOCK_BEHIND_S = 10,    /* so long it may lag: some voters may not have sent their clock yet */
};

static const char *const reach_names[REACHES] = {
    [REACH_TORN_TAIL] = "torn tail",
    [REACH_TRUNCATION_REPLAY] = "truncation replay",
    [REACH_VOTE_FILE_FALLBACK] = "vote file fallback",
    [REACH_SNAPSHOT_INSTALL] = "snapshot install",
    [REACH_SNAPSHOT_FALLBACK] = "snapshot fallback",
    [REACH_INSTALL_COMPLETED] = "install completed at start",
    [REACH_CORRUPTION_REFUSED] = "corruption refused",
    [REACH_STRAY] = "write gone astray",
    [REACH_MEMBERSHIP_ROLLBACK] = "membership rollback",
    [REACH_EXCHANGE] = "exchange of trees",
    [REACH_STATE_FULL] = "full state",
    [REACH_LIE] = "lie",
    [REACH_FUTURE] = "entry of a later format",
    [REACH_TOKEN_REFUSED] = "token refused",
    [REACH_TOKEN_SPENT] = "last use of a token",
    [REACH_TREE_REVOKED] = "tree of tokens revoked",
    [REACH_BATCH_USED] = "batch token used",
    [REACH_BATCH_REFUSED] = "batch token refused",
    [REACH_REGISTRY_READ] = "policy of the registry allows",
    [REACH_REGISTRY_FORBIDS] = "policy of the registry forbids",
    [REACH_UNWRAPPED] = "reply unwrapped",
    [REACH_REWRAPPED] = "reply wrapped again",
    [REACH_UNWRAP_REFUSED] = "wrapping token refused",
    [REACH_TOKENS_SWEPT] = "tokens swept up",
    [REACH_LEASE_USED] = "lease used",
    [REACH_LEASE_ENDED] = "use of an ended lease",
    [REACH_PREFIX_ENDED] = "leases below a prefix ended",
    [REACH_PREFIX_LEFT] = "leases below a prefix left to a mark",
    [REACH_POLICY_FORBIDS] = "policy forbids",
    [REACH_REKEYED] = "new root key",
    [REACH_MIGRATED] = "seal moved",
    [REACH_CAS_DIFFERS] = "version differs",
    [REACH_LEVEL_RAISED] = "level raised",
    [REACH_RECORDED] = "request recorded",
    [REACH_RELAYED] = "recorded by the active node",
    [REACH_UNRECORDED] = "request not recorded",
    [REACH_AUDIT_LATE] = "audit device left out",
    [REACH_ASKED_ONLY] = "record without its change",
    [REACH_MUTE_HANDOVER] = "handover without audit devices",
    [REACH_WATCH_TOLD] = "watcher told of a change",
    [REACH_RECOVERED] = "lost majority recovered",
    [REACH_PAIR_FIRST_SYNC] = "first sync of a secondary",
    [REACH_PAIR_DIFFERENCE] = "sync by difference",
    [REACH_PAIR_STREAMED] = "run of the WAL applied",
    [REACH_PAIR_REPEATED] = "run of the WAL repeated",
    [REACH_PAIR_GAP] = "gap in the WAL refused",
    [REACH_PAIR_OVERRUN] = "ring of the WAL overrun",
    [REACH_PAIR_SWITCHED] = "planned promotion",
    [REACH_PAIR_FAILED_OVER] = "promotion beside a primary",
    [REACH_PAIR_FAILED_BACK] = "failback",
    [REACH_PAIR_SUPERSEDED] = "primary superseded",
    [REACH_PAIR_LOST] = "unconfirmed writes lost",
    [REACH_PAIR_REFUSED] = "change of a role refused",
    [REACH_PAIR_KEYS_RENEWED] = "secondary's keys renewed",
};

const char *reach_name(enum reach r)
{
    return reach_names[r];
}

void check_init(struct cluster *c)
{
    c->check = (struct check){0};
}

void check_done(struct cluster *c)
{
    free(c->check.versions);
    free(c->check.indexes);
    free(c->check.leader_of);
    free(c->check.asked_for);
}

/* Make element `at` of a growing, zeroed table exist. */
static void *table_grow(void *table, size_t *n, size_t at, size_t size)
{
    if (at < *n)
        return table;
    size_t grown = MAX(at + 1, *n * 2 + 256);
    table = sim_grow(table, grown * size);
    memset((uint8_t *)table + *n * size, 0, (grown - *n) * size);
    *n = grown;
    return table;
}

static void check_leader(struct node *n, const struct rlog_status *s)
{
    struct check *k = &n->cluster->check;
    const struct core *core = n->cluster->core;
    if (s->term >= TERM_MAX)
        core_fail(core, "%s reached term %" PRIu64, n->name, s->term);
    k->leader_of = table_grow(k->leader_of, &k->leader_of_n, (size_t)s->term, sizeof(uint64_t));
    if (k->leader_of[s->term] != 0 && k->leader_of[s->term] != n->process)
        core_fail(core, "term %" PRIu64 " has a second leader, %s", s->term, n->name);
    if (k->leader_of[s->term] == 0) {
        core_say(core, "%s leads term %" PRIu64, n->name, s->term);
        if (n->cluster->leader_dies && s->term > k->newest_term)
            nemesis_kill_soon(n->cluster, n);
    }
    k->leader_of[s->term] = n->process;
    k->newest_term = MAX(k->newest_term, s->term);
    bool becomes_ready = s->ready && !n->seen.ready && s->term == k->newest_term;
    if (becomes_ready && s->commit_index < k->acked_index)
        core_fail(core,
                  "%s is ready in term %" PRIu64 " at %" PRIu64 ", but %" PRIu64
                  " was acknowledged",
                  n->name, s->term, s->commit_index, k->acked_index);
}

static void term_asked_for(struct cluster *c, uint64_t term)
{
    struct check *k = &c->check;
    if (term >= TERM_MAX)
        return; /* fails elsewhere */
    k->asked_for = table_grow(k->asked_for, &k->asked_for_n, (size_t)term, 1);
    k->asked_for[term] = 1;
}

void check_sent(struct node *n, struct bytes frame)
{
    struct rlog_frame f;
    if (frame.len < 2 || frame.data[1] != RAFT_REQUEST_VOTE || rlog_wire_decode(frame, &f) != ST_OK)
        return;
    if (!f.core.raft.request_vote.pre_vote)
        term_asked_for(n->cluster, f.core.raft.request_vote.term);
    rlog_frame_done(&f);
}

/* A term begins with a candidate. */
static void check_term(struct node *n, const struct rlog_status *s)
{
    struct check *k = &n->cluster->check;
    unsigned voters = 0;
    bool self = false;
    if (s->term == n->seen.term || s->term <= 1)
        return;
    for (unsigned i = 0; i < s->n_members; i++) {
        voters += s->members[i].role == RLOG_VOTER;
        self = self || (s->members[i].role == RLOG_VOTER && s->members[i].id == s->id);
    }
    if (voters == 1 && self)
        term_asked_for(n->cluster, s->term); /* it votes for itself */
    if (s->term >= k->asked_for_n || k->asked_for[s->term] == 0)
        core_fail(n->cluster->core, "%s is in term %" PRIu64 ", which nobody stood in", n->name,
                  s->term);
}

static void check_growth(struct node *n, const struct rlog_status *s)
{
    struct node_seen *seen = &n->seen;
    bool fell = s->term < seen->term || s->commit_index < seen->commit ||
                s->applied_index < seen->applied || s->version < seen->version ||
                s->time_ms < seen->time_ms;
    if (fell)
        core_fail(n->cluster->core,
                  "%s went back: term %" PRIu64 "->%" PRIu64 " commit %" PRIu64 "->%" PRIu64
                  " applied %" PRIu64 "->%" PRIu64 " version %" PRIu64 "->%" PRIu64,
                  n->name, seen->term, s->term, seen->commit, s->commit_index, seen->applied,
                  s->applied_index, seen->version, s->version);
    if (s->applied_index > s->commit_index)
        core_fail(n->cluster->core, "%s applied %" PRIu64 " of %" PRIu64 " committed", n->name,
                  s->applied_index, s->commit_index);
    struct tally *t = &n->cluster->tally;
    t->elections += s->elections - seen->elections;
    t->snapshots_created += s->snapshots_created - seen->snapshots_created;
    t->reached[REACH_SNAPSHOT_INSTALL] += s->snapshots_installed - seen->installed;
    t->reached[REACH_MEMBERSHIP_ROLLBACK] += s->rollbacks - seen->rollbacks;
    seen->term = s->term;
    seen->commit = s->commit_index;
    seen->applied = s->applied_index;
    seen->version = s->version;
    seen->time_ms = s->time_ms;
    seen->elections = s->elections;
    seen->snapshots_created = s->snapshots_created;
    seen->installed = s->snapshots_installed;
    seen->rollbacks = s->rollbacks;
}

static int time_order(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Where most clocks agree, cluster time agrees with them: never ahead, not even when it begins; and
 * behind for a moment at most, once every voter can tell its clock. */
static void check_time(struct node *n, const struct rlog_status *s)
{
    struct cluster *c = n->cluster;
    int64_t walls[RLOG_MEMBERS_MAX];
    unsigned voters = 0;
    bool all_up = true;
    for (unsigned i = 0; i < s->n_members; i++) {
        const struct node *m = node_by_id(c, s->members[i].id);
        if (s->members[i].role != RLOG_VOTER)
            continue;
        all_up = all_up && m != NULL && m->state == NODE_UP && !m->stopping;
        if (m != NULL)
            walls[voters++] = sim_clock_wall_ms(&m->clock, c->core->now_ns);
    }
    if (voters < 3 && c->check.clock_moved != NULL)
        c->check.clock_rules = true; /* half of the clocks or more were wrong at some time */
    if (!s->ready)
        return;
    int64_t time_ms = rlog_time_ms(n->rlog);
    if (time_ms < n->seen.advertised_ms)
        core_fail(c->core, "%s turns cluster time back by %" PRId64 " ms", n->name,
                  n->seen.advertised_ms - time_ms);
    n->seen.advertised_ms = time_ms;
    if (voters < 3 || c->check.clock_rules)
        return;
    if (!all_up || n->process != c->check.clocks_led_by) {
        c->check.clocks_led_by = n->process;
        c->check.clocks_since_ns = c->core->now_ns;
    }
    qsort(walls, voters, sizeof walls[0], time_order);
    int64_t middle = walls[voters / 2];
    bool late = c->core->now_ns - c->check.clocks_since_ns > CLOCK_BEHIND_S * (uint64_t)SIM_S;
    if ((late && time_ms < middle - CLOCK_SLACK_MS) || time_ms > middle + CLOCK_SLACK_MS)
        core_fail(c->core, "cluster time is %" PRId64 " ms off the clocks", time_ms - middle);
}

void check_ending(struct node *n)
{
    struct rlog_status s;
    n->seen.stored = 0;
    if (n->rlog == NULL)
        return;
    rlog_status(n->rlog, &s);
    n->seen.stored = s.stored_index;
    n->seen.stored_term = rlog_entry_term(n->rlog, s.stored_index);
}

static void check_kept(struct node *n, const struct rlog_status *s)
{
    uint64_t index = n->seen.stored, term = rlog_entry_term(n->rlog, index);
    if (n->damaged || index <= s->snapshot_index)
        return;
    if (s->last_index < index)
        core_fail(n->cluster->core, "%s had stored %" PRIu64 " entries and starts with %" PRIu64,
                  n->name, index, s->last_index);
    if (term != n->seen.stored_term && n->seen.stored_term != 0)
        core_fail(n->cluster->core,
                  "%s had stored entry %" PRIu64 " of term %" PRIu64
                  " and starts with term %" PRIu64,
                  n->name, index, n->seen.stored_term, term);
}

void check_started(struct node *n)
{
    uint64_t *reached = n->cluster->tally.reached;
    struct rlog_status s;
    rlog_status(n->rlog, &s);
    check_kept(n, &s);
    term_asked_for(n->cluster, s.term); /* it may have lost its power before it asked */
    reached[REACH_TORN_TAIL] += s.met.torn;
    reached[REACH_TRUNCATION_REPLAY] += s.met.truncations != 0;
    reached[REACH_VOTE_FILE_FALLBACK] += s.met.vote_file_fell_back;
    reached[REACH_SNAPSHOT_FALLBACK] += s.met.snapshot_fell_back;
    reached[REACH_INSTALL_COMPLETED] += s.met.reset;
}

void check_node(struct node *n)
{
    struct rlog_status s;
    rlog_status(n->rlog, &s);
    check_term(n, &s);
    check_growth(n, &s);
    if (s.is_leader)
        check_leader(n, &s);
    n->seen.ready = s.ready;
    check_time(n, &s);
    level_check(n);
}

static void check_bank(struct node *n, const struct store_pin *pin)
{
    uint64_t total = bank_total(pin);
    if (total != 0 && total != ACCOUNTS * BALANCE)
        core_fail(n->cluster->core, "%s: the bank holds %" PRIu64 " at version %" PRIu64, n->name,
                  total, pin->version);
}

static void check_root(struct node *n, const struct store_pin *pin)
{
    struct check *k = &n->cluster->check;
    size_t at = (size_t)pin->version;
    uint8_t root[32];
    k->versions = table_grow(k->versions, &k->versions_n, at, sizeof *k->versions);
    struct seen_version *v = &k->versions[at];
    store_hash(pin, BYTES(RLOG_REPLICATED), root);
    bool compare = v->known && pin->version != 0; /* before the first transaction: an empty tree */
    if (compare && memcmp(v->root, root, sizeof root) != 0)
        core_fail(n->cluster->core, "%s and %s differ at version %" PRIu64, n->name,
                  n->cluster->nodes[v->slot].name, pin->version);
    memcpy(v->root, root, sizeof root);
    v->known = true;
    v->slot = n->slot;
}

static void check_index(struct node *n, uint64_t index, const struct store_pin *pin)
{
    struct check *k = &n->cluster->check;
    struct rlog_status s;
    uint8_t root[32];
    rlog_status(n->rlog, &s);
    k->indexes = table_grow(k->indexes, &k->indexes_n, (size_t)index, sizeof *k->indexes);
    struct seen_index *v = &k->indexes[index];
    store_hash(pin, BYTES(""), root);
    if (v->known && (v->version != pin->version || v->time_ms != s.time_ms ||
                     memcmp(v->root, root, sizeof root) != 0))
        core_fail(n->cluster->core,
                  "%s and %s differ at index %" PRIu64 ": version %" PRIu64 " and %" PRIu64
                  ", time %" PRId64 " and %" PRId64,
                  n->name, n->cluster->nodes[v->slot].name, index, pin->version, v->version,
                  s.time_ms, v->time_ms);
    *v = (struct seen_index){
        .version = pin->version, .time_ms = s.time_ms, .slot = n->slot, .known = true};
    memcpy(v->root, root, sizeof root);
}

void check_applied(struct node *n, uint64_t index, uint64_t version)
{
    struct cluster *c = n->cluster;
    struct store_pin pin;
    core_note(c->core, hash_mix(index, version));
    c->tally.applied++;
    if (store_pin(rlog_store(n->rlog), "check", 0, &pin) != ST_OK)
        core_fail(c->core, "%s: no pin is free", n->name);
    if (pin.version != version)
        core_fail(c->core, "%s published version %" PRIu64 " and reports %" PRIu64, n->name,
                  pin.version, version);
    check_root(n, &pin);
    check_index(n, index, &pin);
    check_bank(n, &pin);
    if (c->pair != NULL)
        pair_check(n, &pin);
    store_unpin(&pin);
}

void check_acked(struct node *n, uint64_t index, uint64_t version)
{
    struct check *k = &n->cluster->check;
    k->acked_version = MAX(k->acked_version, version);
    k->acked_index = MAX(k->acked_index, index);
}

void check_read(struct node *n, uint64_t acked, uint64_t version)
{
    if (version < acked)
        core_fail(n->cluster->core,
                  "%s answers a read from version %" PRIu64 ", but %" PRIu64
                  " had been acknowledged before",
                  n->name, version, acked);
}

/* Keys and their versions, which decide preconditions, must agree as the content does. */
uint64_t check_versions_hash(const struct store_pin *pin, struct bytes below)
{
    struct store_iter *iter = sim_alloc(sizeof *iter);
    uint64_t h = store_newest(pin, BYTES("s/"));
    store_iter_init(iter, pin, below, (struct bytes){0});
    while (store_iter_next(iter)) {
        h = hash_mix(h, bytes_hash(iter->item.key));
        h = hash_mix(hash_mix(h, iter->item.created), iter->item.modified);
        for (size_t len = 2; len < iter->item.key.len; len++)
            h = hash_mix(h, store_newest(pin, bytes_of(iter->item.key.data, len)));
    }
    free(iter);
    return h;
}

/* The counts of keys, which are not hashed, must agree with a walk. `seen[len]` keys passed so far
 * begin with the first `len` bytes of the key that the walk met last. A prefix is complete when the
 * walk leaves it. */
static void check_counts(struct node *n, const struct store_pin *pin)
{
    struct store_iter *iter = sim_alloc(sizeof *iter);
    uint64_t *seen = sim_alloc((STORE_KEY_MAX + 1) * sizeof *seen);
    uint8_t *last = sim_alloc(STORE_KEY_MAX);
    size_t last_len = 0;
    bool more = true;
    memset(seen, 0, (STORE_KEY_MAX + 1) * sizeof *seen);
    store_iter_init(iter, pin, (struct bytes){0}, (struct bytes){0});
    while (more) {
        more = store_iter_next(iter);
        struct bytes key = more ? iter->item.key : (struct bytes){0};
        struct bytes before = bytes_of(last, last_len);
        size_t left = more ? bytes_common_len(key, before) + 1 : 0;
        for (size_t len = left; len <= last_len; len++) {
            uint64_t count = store_count(pin, bytes_of(last, len));
            if (count != seen[len])
                core_fail(n->cluster->core,
                          "%s counts %" PRIu64 " keys below a prefix of %zu bytes and has %" PRIu64,
                          n->name, count, len, seen[len]);
            seen[len] = 0;
        }
        for (size_t len = 0; more && len <= key.len; len++)
            seen[len]++;
        if (key.len != 0)
            memcpy(last, key.data, key.len);
        last_len = key.len;
    }
    free(last);
    free(seen);
    free(iter);
}

static uint64_t node_versions(struct node *n)
{
    struct store_pin pin;
    if (store_pin(rlog_store(n->rlog), "check", 0, &pin) != ST_OK)
        core_fail(n->cluster->core, "%s: no pin is free", n->name);
    uint64_t h = check_versions_hash(&pin, (struct bytes){0});
    check_counts(n, &pin);
    store_unpin(&pin);
    return h;
}

bool check_converged(struct cluster *c, const char **ret_why)
{
    struct rlog_status s, other;
    struct node *leader = cluster_leader(c);
    *ret_why = "there is no leader";
    if (leader == NULL)
        return false;
    rlog_status(leader->rlog, &s);
    *ret_why = "the leader is not ready, or has not applied everything";
    if (!s.ready || s.applied_index != s.last_index)
        return false;
    uint64_t want = node_versions(leader);
    for (unsigned i = 0; i < s.n_members; i++) {
        struct node *m = node_by_id(c, s.members[i].id);
        if (m == leader || s.members[i].role == RLOG_SPARE)
            continue;
        *ret_why = "a member does not run";
        if (m == NULL || m->state != NODE_UP || m->stopping)
            return false;
        rlog_status(m->rlog, &other);
        *ret_why = "a member lags behind";
        if (other.applied_index != s.applied_index)
            return false;
        if (node_versions(m) != want)
            core_fail(c->core, "%s and %s differ in the versions of keys at index %" PRIu64,
                      m->name, leader->name, s.applied_index);
    }
    return true;
}
