/* A node: its machine, and the processes that start and end on the machine. */
#include "auth/acl_cache.h"
#include "auth/token_cache.h"
#include "cluster.h"
#include "front_parts.h"
#include "pair.h"
#include "sim_mem.h"
#include "trail.h"
#include "watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { RESTART_NS_MIN = 5 * SIM_MS };

static const char data_dir[] = "data";
static const char identity_file[] = "data/identity";

static unsigned owner_of(const struct node *n)
{
    return n->cluster->site * SLOTS + n->slot + 1;
}

struct node *node_by_id(struct cluster *c, uint64_t id)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (c->nodes[i].id == id && c->nodes[i].state != NODE_ABSENT)
            return &c->nodes[i];
    return NULL;
}

uint64_t cluster_fresh_id(struct cluster *c)
{
    return rng_u64(&c->rng) >> 1 | 1;
}

struct node *cluster_leader(struct cluster *c)
{
    struct node *best = NULL;
    uint64_t best_term = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        struct node *n = &c->nodes[i];
        struct rlog_status status;
        if (n->state != NODE_UP || n->stopping || n->ghost)
            continue;
        rlog_status(n->rlog, &status);
        if (status.is_leader && status.term > best_term) {
            best = n;
            best_term = status.term;
        }
    }
    return best;
}

/* Nodes whose disk may have lost a write, unnoticed. No voters yet: they may become voters. */
static unsigned unnoticed(struct cluster *c, const struct rlog_status *status)
{
    unsigned bad = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        const struct node *n = &c->nodes[i];
        bool voter = false;
        for (unsigned k = 0; k < status->n_members; k++)
            voter =
                voter || (status->members[k].id == n->id && status->members[k].role == RLOG_VOTER);
        bad += n->strays && !voter && n->state != NODE_GONE;
    }
    return bad;
}

bool node_may_be_damaged(struct node *n)
{
    struct cluster *c = n->cluster;
    struct rlog_status status;
    struct node *leader = cluster_leader(c);
    unsigned voters = 0, bad;
    if (leader == NULL || n->damaged || n->initial || n->replaces != 0)
        return false;
    rlog_status(leader->rlog, &status);
    bad = unnoticed(c, &status);
    for (unsigned i = 0; i < status.n_members; i++) {
        const struct node *m = node_by_id(c, status.members[i].id);
        if (status.members[i].role != RLOG_VOTER)
            continue;
        voters++;
        bad += m == NULL || m->damaged || m->state == NODE_GONE;
    }
    return bad + 1 <= (voters - 1) / 2 && voters >= 3;
}

/* What the replica calls. */

static void on_send(void *ctx, uint64_t to, const struct bytes *parts, unsigned n_parts, bool bulk)
{
    struct node *n = ctx;
    struct node *peer = node_by_id(n->cluster, to);
    struct sim_route route = {.from = n->slot, .from_id = n->id, .bulk = bulk};
    bool linked = false;
    check_sent(n, parts[0]);
    for (unsigned i = 0; i < n->n_peers; i++)
        linked = linked || n->peers[i] == to;
    if (peer == NULL || !linked || n->fs.dead || n->fatal)
        return;
    route.to = peer->slot;
    sim_net_send(&n->cluster->net, &route, parts, n_parts);
}

static void peer_add(struct node *n, uint64_t id)
{
    for (unsigned i = 0; i < n->n_peers; i++)
        if (n->peers[i] == id)
            return;
    if (n->n_peers < ARRAY_LEN(n->peers))
        n->peers[n->n_peers++] = id;
}

static void on_members(void *ctx, const struct rlog_member *members, unsigned n_members)
{
    struct node *n = ctx;
    n->n_peers = 0;
    for (unsigned i = 0; i < n_members; i++)
        if (members[i].id != n->id)
            peer_add(n, members[i].id);
}

static void on_changed(void *ctx)
{
    struct node *n = ctx;
    n->looked_at = false;
}

static void on_fatal(void *ctx, enum status why, const struct reason *reason)
{
    (void)why;
    struct node *n = ctx;
    n->fatal = true;
    n->reason = *reason;
}

static void on_applied(void *ctx, uint64_t index, uint64_t version)
{
    struct node *n = ctx;
    n->looked_at = false;
    if (!n->fs.dead && !n->fatal && !n->ghost)
        check_applied(n, index, version);
    if (!n->ghost)
        watch_service_published(n->watch);
    n->may_unseal = true;
}

/* Frames. */

static uint64_t net_process(void *ctx, unsigned slot)
{
    struct cluster *c = ctx;
    return c->nodes[slot].process;
}

static uint64_t net_deliver(void *ctx, const struct frame *frame)
{
    struct cluster *c = ctx;
    struct node *n = &c->nodes[frame->to];
    if (n->env.stalled_until_ns > c->core->now_ns)
        return n->env.stalled_until_ns;
    if (n->closing)
        return 0;
    core_note(c->core, bytes_hash(bytes_of(frame->data, frame->len)));
    peer_add(n, frame->from_id);
    sim_env_enter(&n->env);
    rlog_receive(n->rlog, frame->from_id, c->nodes[frame->from].name,
                 bytes_of(frame->data, frame->len));
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
    return 0;
}

/* Those who had a connection to a process that ended learn that nobody listens any more. */
struct gone {
    struct event event;
    struct cluster *cluster;
    unsigned to;
    uint64_t id, process;
};

static void on_gone(struct event *event)
{
    struct gone *gone = CONTAINER_OF(event, struct gone, event);
    struct node *n = &gone->cluster->nodes[gone->to];
    if (n->process == gone->process && !sim_env_awake(&n->env, event))
        return;
    if (n->process == gone->process && !n->closing) {
        sim_env_enter(&n->env);
        rlog_peer_gone(n->rlog, gone->id);
        (void)sim_env_leave(&n->env); /* nothing is touched after it */
    }
    free(gone);
}

void node_refused(struct node *n, const struct node *by)
{
    struct cluster *c = n->cluster;
    bool linked = false;
    for (unsigned k = 0; k < n->n_peers; k++)
        linked = linked || n->peers[k] == by->id;
    if (n == by || n->process == 0 || !linked)
        return;
    struct gone *gone = sim_alloc(sizeof *gone);
    *gone = (struct gone){.event = {.fire = on_gone},
                          .cluster = c,
                          .to = n->slot,
                          .id = by->id,
                          .process = n->process};
    core_after(c->core, &gone->event, rng_between(&c->rng, 200 * SIM_US, 20 * SIM_MS));
}

static void tell_peers(const struct node *n)
{
    struct cluster *c = n->cluster;
    for (unsigned i = 0; i < SLOTS; i++)
        if (!c->net.cut[n->slot][i] && !rng_chance(&c->rng, 100))
            node_refused(&c->nodes[i], n);
}

/* The end of a process, in its three ways. */

static void process_end(struct node *n, uint64_t down_ns)
{
    struct cluster *c = n->cluster;
    uint64_t process = n->process;
    check_ending(n);
    trail_devices_drop(n->trail_devices);
    sim_env_done(&n->env);
    sim_mem_drop(owner_of(n));
    n->trail = NULL;
    n->watch = NULL;
    n->rlog = NULL;
    n->service = NULL;
    n->barrier = NULL;
    n->tokens = NULL;
    n->acls = n->registry_acls = NULL;
    n->requests = 0;
    n->exchanging = n->outdated = false;
    n->process = 0;
    n->fatal = n->stopping = n->closing = false;
    n->state = NODE_DOWN;
    admin_forget(c, process);
    pair_forget(c, process);
    tell_peers(n);
    n->n_peers = 0;
    core_after(c->core, &n->restart, MAX(down_ns, (uint64_t)RESTART_NS_MIN));
}

void node_power_off(struct node *n, uint64_t down_ns)
{
    core_say(n->cluster->core, "%s loses power", n->name);
    ASSERT(n->process != 0);
    uint64_t torn = n->fs.torn;
    sim_env_cut(&n->env);
    sim_fs_crash(&n->fs);
    n->cluster->tally.torn_writes += n->fs.torn - torn;
    process_end(n, down_ns);
}

void node_kill(struct node *n, uint64_t down_ns)
{
    core_say(n->cluster->core, "%s is killed", n->name);
    ASSERT(n->process != 0);
    sim_env_cut(&n->env);
    sim_fs_exit(&n->fs);
    process_end(n, down_ns);
}

static void on_closed(void *ctx)
{
    struct node *n = ctx;
    n->rlog = NULL;
}

struct puts {
    bool any;
};

static void put_seen(void *ctx, enum rlog_touch touch, struct bytes key)
{
    struct puts *puts = ctx;
    (void)key;
    puts->any = puts->any || touch == RLOG_TOUCH_PUT || touch == RLOG_TOUCH_ALL;
}

/* A full state takes no puts, and deletions always. */
static void on_propose(struct state_log *log, struct rlog_propose *p)
{
    struct node *n = CONTAINER_OF(log, struct node, log);
    struct cluster *c = n->cluster;
    struct store_stats stats;
    struct puts puts = {0};
    uint64_t limit = c->profile.state_bytes_max;
    store_stats(rlog_store(n->rlog), &stats);
    rlog_txn_touch_ops(p->txn, put_seen, &puts);
    trail_proposed(n, p->txn);
    bool full = limit != 0 && stats.bytes >= limit;
    n->propose(log, p);
    c->tally.reached[REACH_STATE_FULL] += full && puts.any && p->status == ST_STATE_FULL;
    if (full && puts.any && p->counted && !p->upkeep)
        core_fail(c->core, "%s takes a put although its state is full", n->name);
    if (!p->counted && p->status == ST_STATE_FULL && !(full && puts.any))
        core_fail(c->core, "%s takes its state for full, or a deletion for a put", n->name);
}

/* What the process made besides the replica. */
static enum status service_start(struct node *n)
{
    TRY(barrier_new(&n->barrier));
    if (n->cluster->profile.fronts != 0) {
        TRY(token_cache_new(&n->tokens));
        TRY(acl_cache_new(&n->env.env, &acl_secrets, &n->acls));
    }
    if (n->cluster->profile.registry)
        TRY(front_registry_cache(&n->env.env, &n->registry_acls));
    n->log = state_log_of(n->rlog, &n->env.env);
    n->propose = n->log.propose;
    n->log.propose = on_propose;
    TRY(state_new(&n->env.env, &n->log, n->barrier, &n->service));
    if (n->trail_devices != NULL)
        n->trail = trail_service_new(n);
    if (!n->ghost)
        n->watch = watch_service_new(n);
    return ST_OK;
}

static void service_stop(struct node *n)
{
    trail_service_free(n->trail);
    watch_service_free(n->watch);
    n->trail = NULL;
    n->watch = NULL;
    state_free(n->service);
    barrier_free(n->barrier);
    token_cache_free(n->tokens);
    acl_cache_free(n->acls);
    acl_cache_free(n->registry_acls);
    n->tokens = NULL;
    n->acls = n->registry_acls = NULL;
    n->service = NULL;
    n->barrier = NULL;
}

/* New keys are followed; who finds no way to them unseals as after a start (src/node). */
static void service_follow(struct node *n)
{
    if (n->barrier == NULL || (n->tokens == NULL && n->cluster->pair == NULL))
        return;
    enum status st = state_follow(rlog_store(n->rlog), n->barrier);
    if (st == ST_CORRUPT)
        barrier_seal(n->barrier);
    else if (st != ST_OK && st != ST_SEALED && st != ST_BUSY)
        core_fail(n->cluster->core, "%s cannot follow the keys: %s", n->name, status_name(st));
}

/* Unseal as soon as the state has what it takes. */
static void service_unseal(struct node *n)
{
    if (n->barrier != NULL && barrier_is_sealed(n->barrier))
        seals_unseal(n);
}

void node_halt(struct node *n, uint64_t down_ns)
{
    core_say(n->cluster->core, "%s is stopped", n->name);
    ASSERT(n->process != 0 && !n->stopping);
    n->stopping = true;
    n->down_ns = down_ns;
    trail_service_stop(n->trail);
    sim_env_enter(&n->env);
    watch_service_stop(n->watch);
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

/* As the program does: requests are answered first, then the replica closes. */
static bool close_replica(struct node *n)
{
    n->closing = true;
    sim_env_enter(&n->env);
    state_close(n->service);
    rlog_close(n->rlog, on_closed, n);
    return sim_env_leave(&n->env);
}

static void stopped(struct node *n)
{
    struct cluster *c = n->cluster;
    service_stop(n);
    sim_env_done(&n->env);
    if (sim_mem_count(owner_of(n)) != 0)
        core_fail(c->core, "%s: %" PRIu64 " allocations left after a proper stop", n->name,
                  sim_mem_count(owner_of(n)));
    core_say(c->core, "%s has stopped", n->name);
    sim_fs_exit(&n->fs);
    process_end(n, n->down_ns);
}

/* After every call into the program. */
static bool on_left(void *ctx)
{
    struct node *n = ctx;
    struct cluster *c = n->cluster;
    if (n->fs.dead) {
        node_power_off(n, rng_between(&c->rng, 5, c->profile.down_ms_max) * SIM_MS);
        return false;
    }
    if (n->closing && n->rlog == NULL && state_idle(n->service) && watch_service_idle(n->watch)) {
        stopped(n);
        return false;
    }
    if (n->fatal) {
        if (n->fs.injected == n->injected_before && !n->damaged && !n->outdated && !n->late)
            core_fail(c->core, "%s stops by itself: %s", n->name, n->reason.text);
        core_say(c->core, "%s stops: %s", n->name, n->reason.text);
        node_kill(n, rng_between(&c->rng, 100, 1000) * SIM_MS);
        return false;
    }
    if (n->stopping && !n->closing && n->requests == 0 && trail_service_settle(n->trail))
        return close_replica(n);
    if (n->may_unseal && !n->closing) {
        n->may_unseal = false;
        service_follow(n);
        service_unseal(n);
    }
    if (!n->looked_at && !n->closing) {
        n->looked_at = true;
        if (!n->ghost)
            check_node(n);
    }
    return true;
}

/* The beginning of a process. */

static void initial_members_list(struct cluster *c, struct rlog_member *members)
{
    for (unsigned i = 0; i < c->profile.n_initial_members; i++) {
        struct rlog_member *m = &members[i];
        *m = (struct rlog_member){.id = c->nodes[i].id, .role = RLOG_VOTER};
        snprintf(m->name, sizeof m->name, "%s", c->nodes[i].name);
        snprintf(m->address, sizeof m->address, "%s:1", c->nodes[i].name);
    }
}

static void options_fill(struct node *n, struct rlog_options *o,
                         struct rlog_member *initial_members)
{
    const struct profile *p = &n->cluster->profile;
    *o = (struct rlog_options){
        .env = &n->env.env,
        .dir = n->dir,
        .net = {.send = on_send, .members = on_members, .ctx = n},
        .events = {.changed = on_changed, .fatal = on_fatal, .applied = on_applied, .ctx = n},
        .election_ms = p->election_ms,
        .heartbeat_ms = p->heartbeat_ms,
        .snapshot_log_bytes = p->snapshot_log_bytes,
        .snapshot_trailing = p->snapshot_trailing,
        .segment_bytes = p->segment_bytes,
        .reserve_bytes = 4 * p->segment_bytes,
        .state_bytes_max = p->state_bytes_max,
        .wal_bytes_max = n->cluster->pair != NULL ? PAIR_WAL_BYTES : 0,
        .feature_max = n->feature,
        .identity = {.id = !n->started || n->initial ? n->id : 0},
    };
    memcpy(o->identity.cluster, n->cluster->id, sizeof o->identity.cluster);
    snprintf(o->identity.name, sizeof o->identity.name, "%s", n->name);
    if (n->initial) {
        initial_members_list(n->cluster, initial_members);
        o->initial_members = initial_members;
        o->n_initial_members = n->cluster->profile.n_initial_members;
    }
}

static void new_incarnation(struct node *n, uint64_t id)
{
    n->replaces = n->replaces != 0 ? n->replaces : n->id;
    n->id = id;
    n->damaged = n->strays = n->initial = false;
    n->seen = (struct node_seen){0};
    n->cluster->tally.rejoins++;
}

/* A crash while damaged data was being removed leaves a blank directory: the node begins anew. */
static void check_incarnation(struct node *n)
{
    struct rlog_status status;
    rlog_status(n->rlog, &status);
    if (status.id == n->id)
        return;
    if (!n->damaged)
        core_fail(n->cluster->core, "%s lost its identity, which nothing damaged", n->name);
    new_incarnation(n, status.id);
}

/* The program refused its damaged data: it begins anew under another id (PROTOCOL R13). */
static void corrupt(struct node *n)
{
    struct cluster *c = n->cluster;
    struct rlog_options options;
    struct rlog_member initial_members[RLOG_MEMBERS_MAX];
    struct rlog_identity old, fresh;
    if (!n->damaged)
        core_fail(c->core, "%s finds its data corrupt, which nothing damaged: %s", n->name,
                  n->reason.text);
    core_say(c->core, "%s refuses its data: %s", n->name, n->reason.text);
    c->tally.reached[REACH_CORRUPTION_REFUSED]++;
    options_fill(n, &options, initial_members);
    if (rlog_rejoin_prepare(&options, &old, &fresh, &n->reason) != ST_OK || n->fs.dead)
        return; /* a disk that fails too: once more at the next start */
    if (old.id != 0 && old.id != n->id)
        core_fail(c->core, "%s finds the id of another in its damaged data", n->name);
    new_incarnation(n, fresh.id);
}

void node_blank(struct node *n)
{
    ASSERT(n->process == 0);
    sim_fs_wipe(&n->fs);
    n->id = cluster_fresh_id(n->cluster);
    n->state = NODE_DOWN;
    n->replaces = 0;
    n->damaged = n->strays = n->initial = n->started = n->removed = n->ghost = false;
    n->dir = data_dir;
    n->fs.faults = (struct fs_faults){0};
    n->seen = (struct node_seen){0};
}

static void start_failed(struct node *n, enum status st)
{
    struct cluster *c = n->cluster;
    if (st == ST_CORRUPT)
        corrupt(n);
    else if (n->fs.injected == n->injected_before && !n->fs.dead)
        core_fail(c->core, "%s does not start: %s: %s", n->name, status_name(st), n->reason.text);
    core_say(c->core, "%s does not start: %s", n->name, n->reason.text);
    if (n->fs.dead)
        node_power_off(n, rng_between(&c->rng, 50, 500) * SIM_MS);
    else
        node_kill(n, rng_between(&c->rng, 50, 500) * SIM_MS);
}

void node_boot(struct node *n)
{
    struct cluster *c = n->cluster;
    struct rlog_options options;
    struct rlog_member initial_members[RLOG_MEMBERS_MAX];
    ASSERT(n->process == 0 && n->state != NODE_UP);
    core_cancel(c->core, &n->restart);
    n->process = ++c->processes;
    n->state = NODE_UP;
    n->injected_before = n->fs.injected;
    n->seen = (struct node_seen){
        .term = n->seen.term, .stored = n->seen.stored, .stored_term = n->seen.stored_term};
    sim_env_init(
        &n->env, c->core, &n->fs, &n->clock,
        cluster_stream(c, hash_mix(hash_mix(0xE4F, n->slot), n->process))); /* never another's */
    n->env.owner = owner_of(n);
    n->env.left = on_left;
    n->env.ctx = n;
    core_say(c->core, "%s starts", n->name);
    size_t size;
    if (n->started && n->dir == data_dir && sim_fs_data(&n->fs, identity_file, &size) == NULL)
        n->initial = false; /* it was there: the node lost its data and must not found again */
    level_choose(n);
    options_fill(n, &options, initial_members);
    n->looked_at = true;
    sim_env_enter(&n->env);
    enum status st = rlog_start(&options, &n->rlog, &n->reason);
    c->tally.restarts++;
    n->looked_at = false;
    if (st == ST_OK && service_start(n) != ST_OK)
        core_fail(c->core, "%s: out of memory", n->name);
    if (st == ST_OK) {
        n->started = n->may_unseal = true;
        check_incarnation(n);
        check_started(n);
        (void)sim_env_leave(&n->env); /* the power may have gone meanwhile */
        return;
    }
    start_failed(n, st);
    sim_mem_owner(0);
}

static void on_restart(struct event *event)
{
    struct node *n = CONTAINER_OF(event, struct node, restart);
    if (n->state == NODE_DOWN)
        node_boot(n);
}

void node_init(struct cluster *c, unsigned slot)
{
    struct node *n = &c->nodes[slot];
    *n =
        (struct node){.cluster = c, .slot = slot, .dir = data_dir, .restart = {.fire = on_restart}};
    snprintf(n->name, sizeof n->name, "%c%u", c->site == 0 ? 'n' : 'm', slot + 1);
    sim_fs_init(&n->fs, c->core, cluster_stream(c, 0xD15C + slot));
    if (trails_enabled(c))
        n->trail_devices = trail_devices_new(n);
    n->fs.sync_ns_max = c->profile.sync_ns_max;
    n->fs.keep_permille = c->profile.keep_permille;
    unsigned drift = c->profile.drift_ppm_max;
    n->clock.drift_ppm = (int64_t)rng_below(&c->rng, 2 * drift + 1) - drift;
    n->clock.wall_offset_ms = (int64_t)rng_below(&c->rng, 40) - 20;
    n->clock.boot_ns = rng_below(&c->rng, 1000) * SIM_S;
    if (slot == 0) {
        c->net.process = net_process;
        c->net.deliver = net_deliver;
        c->net.ctx = c;
    }
}
