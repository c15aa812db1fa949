/* A sync in a pair: the whole state of the primary at one version, staged on the secondary through
 * its log and swapped in at that version, as cluster/dr/follow/sync.c does. Between the steps time
 * passes: leaders die, the role changes, and the sync begins anew. */
#include "pair_sync.h"

#include "sim_mem.h"

#include "cluster/dr/diff/dr_diff.h"
#include "crypto/box.h"
#include "raft/txn/rlog_content.h"

#include <inttypes.h>
#include <stdlib.h>

enum { TXN_BYTES_MAX = 32 * 1024, PIECE_BYTES_MAX = 5000, DIFF_PERMILLE = 700 };

/* The primary's side. */

enum status pair_sync_piece(void *ctx, struct bytes piece)
{
    struct pair_sync *s = ctx;
    s->content = sim_grow(s->content, s->content_bytes + piece.len);
    memcpy(s->content + s->content_bytes, piece.data, piece.len);
    s->content_bytes += piece.len;
    return ST_OK;
}

void pair_sync_add(struct pair_sync *s, const struct part *head, struct bytes key,
                   struct bytes value)
{
    struct part *part = sim_alloc(sizeof *part + key.len + value.len);
    *part = *head;
    part->key_bytes = key.len;
    part->value_bytes = value.len;
    memcpy(part->bytes, key.data, key.len);
    if (value.len != 0)
        memcpy(part->bytes + key.len, value.data, value.len);
    if (s->n == s->cap) {
        s->cap = s->cap != 0 ? s->cap * 2 : 256;
        s->parts = sim_grow(s->parts, s->cap * sizeof(struct part *));
    }
    s->parts[s->n++] = part;
}

static void on_header(void *ctx, const struct rlog_machine *counters)
{
    struct pair_sync *s = ctx;
    if (counters->version != s->target)
        core_fail(s->pair->core, "the content of a sync is of another version");
}

static void on_key(void *ctx, const struct store_item *item)
{
    struct pair_sync *s = ctx;
    const struct part head = {.created = item->created, .modified = item->modified};
    if (!rlog_txn_stage_valid(item))
        core_fail(s->pair->core, "a key of a sync cannot be staged");
    if (s->diff != NULL && !dr_diff_got(s->diff, item))
        core_fail(s->pair->core, "a key of a difference was not asked for");
    pair_sync_add(s, &head, item->key, item->value);
    if (s->diff == NULL && !bytes_eq(item->key, BYTES(RLOG_REPLICATED)) &&
        state_dr_source_add(&s->source, item->key, item->value) != ST_OK)
        core_fail(s->pair->core, "out of memory");
}

static void on_newest(void *ctx, struct bytes at, uint64_t version)
{
    struct pair_sync *s = ctx;
    const struct part head = {.kind = PART_NEWEST, .modified = version};
    if (at.len >= sizeof RLOG_REPLICATED - 1 && version > s->floor)
        pair_sync_add(s, &head, at, (struct bytes){0});
}

static void drop(struct pair_sync *s)
{
    unsigned owner = sim_mem_owner(0);
    state_dr_source_done(&s->source);
    sim_mem_owner(owner);
    for (size_t i = 0; i < s->n; i++)
        free(s->parts[i]);
    free(s->content);
    s->content = NULL;
    s->n = s->at = s->next = s->content_bytes = 0;
    s->phase = SYNC_REST;
}

/* Content arrives in pieces that are cut anywhere. */
void pair_sync_read(struct pair_sync *s)
{
    const struct rlog_content_visit visit = {on_header, on_key, on_newest, s};
    struct rlog_content *content;
    unsigned owner = sim_mem_owner(0);
    enum status st = rlog_content_begin(&visit, &content);
    ASSERT(st == ST_OK); /* the simulator has memory */
    for (size_t at = 0; at < s->content_bytes && st == ST_OK;) {
        size_t cut = rng_between(&s->pair->rng, 1, PIECE_BYTES_MAX);
        size_t n = MIN(cut, s->content_bytes - at);
        st = rlog_content_piece(content, bytes_of(s->content + at, n));
        at += n;
    }
    enum status ended = rlog_content_end(content);
    sim_mem_owner(owner);
    if (st != ST_OK || ended != ST_OK)
        core_fail(s->pair->core, "the content of a sync is refused: %s", status_name(ended));
}

/* Write the state of a node. False: not now. */
static bool fetch(struct pair_sync *s, struct node *from)
{
    struct rlog_machine_dump dump = {.parts = NULL};
    sim_env_enter(&from->env);
    enum status st = rlog_dump_begin(from->rlog, &dump);
    if (st == ST_OK) {
        dump.replicated_only = true;
        s->target = dump.version;
        s->time_ms = dump.time_ms;
        st = rlog_machine_dump_run(&dump, pair_sync_piece, s);
        rlog_machine_dump_end(&dump);
    }
    (void)sim_env_leave(&from->env); /* it did nothing that ends a process */
    if (st == ST_OK)
        pair_sync_read(s);
    return st == ST_OK;
}

bool pair_sync_root(struct pair *p, struct node *primary)
{
    struct pair_sync *s = p->sync;
    struct box_key key = {.key = NULL};
    struct buf box = {0};
    unsigned owner = sim_mem_owner(0);
    secret_done(&s->root);
    enum status st = box_key_new(&key);
    if (st == ST_OK)
        st = barrier_hand_over(primary->barrier, key.public_key, BYTES("sim"), &box);
    if (st == ST_OK)
        st = box_open(&key, BYTES("sim"), buf_bytes(&box), &s->root);
    s->has_root = st == ST_OK;
    box_key_done(&key);
    buf_done(&box);
    sim_mem_owner(owner);
    return s->has_root;
}

/* The secondary's side: one transaction after the other. */

static enum status stage_aim(struct pair_call *call, struct state_txn *txn, int64_t now_ms)
{
    struct pair_sync *s = CONTAINER_OF(call, struct pair_sync, call);
    struct reason why = {{0}};
    struct dr_role now;
    (void)now_ms;
    TRY(dr_role_read(txn, &now));
    if (now.mode != s->role.mode || now.phase != s->role.phase || now.epoch != s->role.epoch ||
        memcmp(now.set, s->role.set, sizeof now.set) != 0)
        return ST_DENIED;
    return dr_role_aim(txn, s->target, &why);
}

static void stage_parts(struct pair_sync *s, struct rlog_txn_builder *b)
{
    size_t bytes = 0, most = rng_between(&s->pair->rng, 1000, TXN_BYTES_MAX);
    for (s->next = s->at; s->next < s->n && bytes < most; s->next++) {
        const struct part *part = s->parts[s->next];
        struct bytes key = bytes_of(part->bytes, part->key_bytes);
        struct bytes value = bytes_of(part->bytes + part->key_bytes, part->value_bytes);
        if (part->kind == PART_NEWEST)
            rlog_txn_stage_newest(b, key, part->modified);
        else if (part->kind == PART_DELETE)
            rlog_txn_stage_delete(b, key);
        else
            rlog_txn_stage_put(b, key, value, part->created, part->modified);
        bytes += key.len + value.len;
    }
}

static enum status stage_swap(struct pair_sync *s, struct node *n, struct rlog_txn_builder *b)
{
    struct buf record = {0};
    struct reason why = {{0}};
    struct dr_role done = s->role;
    if (s->by_diff && !pair_diff_check(s, n))
        return ST_CONFLICT;
    rlog_txn_stage_swap_floor(b, s->target, s->time_ms, s->floor);
    const struct state_dr_adopt adopt = {
        .store = rlog_store(n->rlog),
        .barrier = n->barrier,
        .env = &n->env.env,
        .source = &s->source,
        .root = s->has_root ? &s->root : NULL,
        .own = &n->cluster->seals[0],
        .version = s->target,
        .now_ms = rlog_time_ms(n->rlog),
    };
    enum status st = s->same_keys ? ST_OK : state_dr_adopt(&adopt, b, &why);
    if (st == ST_INVALID) /* a node behind the root key of the activation has served the state */
        core_say(s->pair->core, "%s cannot take over the primary's keys: %s", n->name, why.text);
    TRY(st);
    done.phase = DR_PHASE_STREAMING;
    done.target = 0;
    done.whole = false;
    st = dr_role_encode(&done, &record);
    if (st == ST_OK)
        rlog_txn_put(b, BYTES(DR_ROLE), buf_bytes(&record));
    buf_done(&record);
    return st;
}

static enum status build(struct pair_call *call, struct rlog_txn_builder *b)
{
    struct pair_sync *s = CONTAINER_OF(call, struct pair_sync, call);
    enum status st = ST_OK;
    if (s->phase == SYNC_BEGIN && s->by_diff)
        rlog_txn_stage_clone(b);
    else if (s->phase == SYNC_BEGIN)
        rlog_txn_stage_begin(b);
    else
        rlog_txn_need_stage(b, s->tree);
    if (s->phase == SYNC_STAGE)
        stage_parts(s, b);
    else if (s->phase == SYNC_SWAP)
        st = stage_swap(s, call->node, b);
    rlog_txn_need_key(b, BYTES(DR_ROLE), s->role_at);
    return st;
}

static void synced(struct pair_sync *s)
{
    struct cluster *site = s->node->cluster;
    core_say(s->pair->core, "%s: synced to version %" PRIu64, s->node->name, s->target);
    site->tally.reached[REACH_PAIR_DIFFERENCE] += s->by_diff;
    s->pair->blurred = s->by_diff;
    s->has_root = false; /* from now on, links lead to a new root key */
    site->tally.reached[REACH_PAIR_FIRST_SYNC] += !s->role.whole;
    s->pair->confirmed[site->site] = MAX(s->pair->confirmed[site->site], s->target);
}

static void on_done(struct pair_call *call, enum status st)
{
    struct pair_sync *s = CONTAINER_OF(call, struct pair_sync, call);
    s->under_way = false;
    if (st != ST_OK) {
        core_say(s->pair->core, "%s: the sync ends: %s", s->node->name, status_name(st));
        s->phase = SYNC_REST;
        return;
    }
    switch (s->phase) {
    case SYNC_AIM: s->phase = SYNC_BEGIN; break;
    case SYNC_BEGIN:
        s->tree = call->tree;
        s->phase = s->n != 0 ? SYNC_STAGE : SYNC_SWAP;
        break;
    case SYNC_STAGE:
        s->at = s->next;
        s->phase = s->at < s->n ? SYNC_STAGE : SYNC_SWAP;
        break;
    default: synced(s); s->phase = SYNC_REST;
    }
}

/* Whether the state that was fetched may replace the secondary's: its version is higher, or the
 * content at that version is the same. */
static bool leads_on(const struct pair_sync *s, const struct pair_view *secondary)
{
    const struct cluster *site = secondary->leader->cluster;
    const struct check *ours = &site->check, *theirs = &pair_other(site)->check;
    if (s->target != secondary->version)
        return s->target > secondary->version;
    return s->target < ours->versions_n && s->target < theirs->versions_n &&
           ours->versions[s->target].known && theirs->versions[s->target].known &&
           memcmp(ours->versions[s->target].root, theirs->versions[s->target].root,
                  sizeof ours->versions[0].root) == 0;
}

static void begin(struct pair_sync *s, const struct pair_view *secondary)
{
    struct node *from = pair_any_node(pair_other(secondary->leader->cluster));
    struct dr_role theirs;
    uint64_t version;
    drop(s);
    if (from == NULL || !pair_role(from, &theirs, &version) || theirs.mode != DR_MODE_PRIMARY ||
        theirs.phase != DR_PHASE_RUNNING || theirs.epoch != secondary->role.epoch ||
        version < secondary->version)
        return;
    s->floor = 0;
    s->by_diff = secondary->role.whole && rng_chance(&s->pair->rng, DIFF_PERMILLE);
    if (!(s->by_diff ? pair_diff_fetch(s, from, secondary->leader) : fetch(s, from)) ||
        !leads_on(s, secondary))
        return;
    s->same_keys = s->target == secondary->version;
    s->node = secondary->leader;
    s->process = s->node->process;
    s->role = secondary->role;
    s->phase = SYNC_AIM;
    core_say(s->pair->core, "%s: syncing with %s to version %" PRIu64 ", %zu parts%s",
             s->node->name, from->name, s->target, s->n, s->by_diff ? ", by difference" : "");
}

static void go_on(struct pair_sync *s, const struct pair_view *secondary)
{
    bool aims = s->phase == SYNC_AIM;
    if (secondary->leader != s->node || s->node->process != s->process) {
        s->phase = SYNC_REST; /* another active node begins anew */
        return;
    }
    if (s->phase == SYNC_BEGIN) {
        if (secondary->role.epoch != s->role.epoch || secondary->role.target != s->target ||
            secondary->role.since_ms != s->role.since_ms) {
            s->phase = SYNC_REST; /* the role changed after the aim, as by a disable and a follow */
            return;
        }
        s->role = secondary->role;
        s->role_at = secondary->role_at;
    }
    s->under_way = true;
    s->call = (struct pair_call){
        .stage = aims ? stage_aim : NULL, .build = aims ? NULL : build, .done = on_done};
    pair_call_begin(s->pair, &s->call, s->node);
}

void pair_sync_step(struct pair_sync *s, const struct pair_view *secondary)
{
    if (s->under_way)
        return;
    if (s->phase == SYNC_REST)
        begin(s, secondary);
    else
        go_on(s, secondary);
}

void pair_sync_start(struct pair *p)
{
    p->sync = sim_alloc(sizeof *p->sync);
    p->sync->pair = p;
}
