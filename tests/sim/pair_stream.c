/* The link of a pair: runs of the WAL from the ring of any node of the primary, applied by the
 * secondary's leader in the transaction of cluster/dr/follow/stream.c. The link loses runs, sends
 * some of them again, and some too early. */
#include "pair.h"
#include "sim_mem.h"

#include "cluster/dr/records.h"
#include "raft/txn/rlog_wal.h"

#include <inttypes.h>
#include <stdlib.h>

enum { TOO_OLD_MAX = 3, RUN_BYTES_MAX = 16 * 1024 };

struct pair_link {
    struct event tick, arrival;
    struct pair_call call;
    struct state_more more;
    struct pair *pair;
    uint64_t away_until_ns;
    unsigned too_old; /* nodes in a row that had no record */
    bool flying;      /* a run is on its way */
    struct pair_view to;
    uint8_t *run;
    size_t run_bytes;
    bool repeats, skips; /* the run begins behind or ahead of the secondary's version */
    uint64_t epoch;      /* that the primary told */
};

static bool same_role(const struct dr_role *a, const struct dr_role *b)
{
    return a->mode == b->mode && a->phase == b->phase && a->epoch == b->epoch &&
           memcmp(a->set, b->set, sizeof a->set) == 0;
}

static bool is_follower(const struct dr_role *role)
{
    return role->mode == DR_MODE_SECONDARY &&
           (role->phase == DR_PHASE_STREAMING || role->phase == DR_PHASE_SYNCING);
}

/* What the secondary does. */

static void add_wal(const struct state_more *more, struct rlog_txn_builder *b)
{
    const struct pair_link *l = CONTAINER_OF(more, struct pair_link, more);
    rlog_txn_wal(b, bytes_of(l->run, l->run_bytes));
}

static enum status stage_run(struct pair_call *call, struct state_txn *txn, int64_t now_ms)
{
    struct pair_link *l = CONTAINER_OF(call, struct pair_link, call);
    struct bytes run = bytes_of(l->run, l->run_bytes);
    struct rlog_wal_record record = {.time_ms = 0};
    struct rlog_wal_span span;
    struct dr_role now;
    (void)now_ms;
    TRY(dr_role_read(txn, &now));
    if (!same_role(&now, &l->to.role))
        return ST_DENIED;
    if (rlog_wal_check(run, &span) != ST_OK)
        core_fail(l->pair->core, "%s gets a run of the WAL that is malformed", call->node->name);
    while (rlog_wal_next(&run, &record) == ST_OK)
        continue;
    const struct dr_applied applied = {span.last, record.time_ms};
    TRY(dr_applied_put(txn, &applied));
    l->more.add = add_wal;
    state_stage_more(txn, &l->more);
    return ST_OK;
}

static void on_run(struct pair_call *call, enum status st)
{
    struct pair_link *l = CONTAINER_OF(call, struct pair_link, call);
    struct cluster *site = call->node->cluster;
    l->flying = false;
    if (st == ST_OK) {
        uint64_t *confirmed = &l->pair->confirmed[site->site];
        *confirmed = MAX(*confirmed, call->version);
        site->tally.reached[REACH_PAIR_STREAMED]++;
        site->tally.reached[REACH_PAIR_REPEATED] += l->repeats;
    }
    site->tally.reached[REACH_PAIR_GAP] += st == ST_CONFLICT && l->skips;
}

static void on_arrival(struct event *event)
{
    struct pair_link *l = CONTAINER_OF(event, struct pair_link, arrival);
    struct pair_view now;
    if (!pair_look(l->to.leader->cluster, &now) || l->call.process != 0) {
        l->flying = false;
        return;
    }
    l->call = (struct pair_call){.stage = stage_run, .done = on_run};
    pair_call_begin(l->pair, &l->call, now.leader);
}

static enum status stage_resync(struct pair_call *call, struct state_txn *txn, int64_t now_ms)
{
    struct pair_link *l = CONTAINER_OF(call, struct pair_link, call);
    struct reason why = {{0}};
    struct dr_role now;
    (void)now_ms;
    TRY(dr_role_read(txn, &now));
    if (!same_role(&now, &l->to.role))
        return ST_DENIED;
    struct dr_primary primary = {.epoch = now.epoch, .id = "sim", .address = ""};
    memcpy(primary.set, now.set, sizeof primary.set);
    return dr_role_resync(txn, &primary, &why);
}

static enum status stage_learn(struct pair_call *call, struct state_txn *txn, int64_t now_ms)
{
    struct pair_link *l = CONTAINER_OF(call, struct pair_link, call);
    struct reason why = {{0}};
    struct dr_role now;
    (void)now_ms;
    TRY(dr_role_read(txn, &now));
    return same_role(&now, &l->to.role) ? dr_role_learn(txn, l->epoch, &why) : ST_DENIED;
}

static void on_changed(struct pair_call *call, enum status st)
{
    struct pair_link *l = CONTAINER_OF(call, struct pair_link, call);
    if (call->stage == stage_resync && st == ST_OK)
        call->node->cluster->tally.reached[REACH_PAIR_OVERRUN]++;
    l->too_old = 0;
}

static void change(struct pair_link *l,
                   enum status (*stage)(struct pair_call *, struct state_txn *, int64_t))
{
    l->call = (struct pair_call){.stage = stage, .done = on_changed};
    pair_call_begin(l->pair, &l->call, l->to.leader);
}

/* What a node of the primary does. */

/* Whether it serves this secondary, as cluster/dr/serve judges. */
static bool judge(struct pair_link *l, struct node *from)
{
    const struct dr_role *ours = &l->to.role;
    struct dr_role theirs;
    uint64_t version;
    if (!pair_role(from, &theirs, &version) || theirs.mode == DR_MODE_DISABLED ||
        memcmp(theirs.set, ours->set, sizeof ours->set) != 0)
        return false;
    bool primary = theirs.mode == DR_MODE_PRIMARY && theirs.phase == DR_PHASE_RUNNING;
    if (primary && theirs.epoch > ours->epoch) {
        l->epoch = theirs.epoch;
        change(l, stage_learn);
        return false;
    }
    return theirs.epoch == ours->epoch && (primary || dr_was_demoted(&theirs));
}

static void take_run(struct pair_link *l, const struct buf *run)
{
    free(l->run);
    l->run = sim_alloc(run->len);
    memcpy(l->run, run->data, run->len);
    l->run_bytes = run->len;
}

/* From where: mostly the next record. */
static uint64_t choose_after(struct pair_link *l)
{
    struct pair *p = l->pair;
    uint64_t at = l->to.version, by_chance = p->calm ? 1000 : rng_below(&p->rng, 1000);
    l->repeats = by_chance < 150;
    l->skips = by_chance >= 150 && by_chance < 230;
    uint64_t by = rng_between(&p->rng, 1, l->repeats ? 20 : 4);
    if (l->repeats)
        return at - MIN(at, by);
    return l->skips ? at + by : at;
}

static void stream(struct pair_link *l, struct node *from)
{
    struct pair *p = l->pair;
    struct buf run = {0};
    uint64_t after = choose_after(l), last = 0;
    size_t bytes = rng_between(&p->rng, 100, RUN_BYTES_MAX);
    unsigned owner = sim_mem_owner(0);
    enum status st = rlog_wal_read(rlog_wal(from->rlog), after, bytes, &run, &last);
    if (st == ST_OK)
        take_run(l, &run);
    buf_done(&run);
    sim_mem_owner(owner);
    if (st == ST_OK) {
        l->too_old = 0;
        l->flying = true;
        core_after(p->core, &l->arrival, rng_between(&p->rng, 200, 20000) * SIM_US);
    } else if (st == ST_CONFLICT && after == l->to.version && ++l->too_old >= TOO_OLD_MAX) {
        change(l, stage_resync);
    }
}

static void step(struct pair_link *l)
{
    struct pair *p = l->pair;
    for (unsigned i = 0; i < SITES; i++) {
        struct node *from = pair_any_node(&p->sites[1 - i]);
        struct pair_view to;
        if (!pair_look(&p->sites[i], &to) || !is_follower(&to.role) || from == NULL || l->flying ||
            l->call.process != 0)
            continue;
        l->to = to;
        if (!judge(l, from))
            continue;
        if (l->to.role.phase == DR_PHASE_STREAMING)
            stream(l, from);
        else
            pair_sync_step(p->sync, &l->to);
    }
}

static void on_tick(struct event *event)
{
    struct pair_link *l = CONTAINER_OF(event, struct pair_link, tick);
    struct pair *p = l->pair;
    core_after(p->core, event, rng_between(&p->rng, 2, 40) * SIM_MS);
    if (p->core->now_ns >= l->away_until_ns || p->calm)
        step(l);
}

void pair_link_away(struct pair *p, uint64_t ns)
{
    p->link->away_until_ns = p->core->now_ns + ns;
    core_say(p->core, "the link between the sites is cut");
}

void pair_link_start(struct pair *p)
{
    struct pair_link *l = sim_alloc(sizeof *l);
    p->link = l;
    l->pair = p;
    l->tick.fire = on_tick;
    l->arrival.fire = on_arrival;
    core_after(p->core, &l->tick, 500 * SIM_MS);
}
