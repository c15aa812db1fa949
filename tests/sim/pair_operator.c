/* The operator of a pair: enables, promotes, demotes, follows and disables at random times, one
 * change at a time, at whichever leader is ready. What an attempt came to is read from the sites
 * again: it may have been applied although its outcome is unknown.
 *
 *   planned     demote the primary, wait until the secondary has all, promote it
 *   unplanned   promote the secondary beside a primary that may go on writing
 *   afterwards  the former primary hears of the epoch or is demoted, then follows
 *
 * Never are both sites promoted to one epoch: that is a conflict which the program reports. */
#include "pair.h"

#include "state/state_core.h"
#include "state/state_dr.h"

#include <inttypes.h>
#include <stdio.h>

enum { WAIT_PLANNED_MS = 4000, FIRST_CHANGE_MS = 4000, CHANGES_MS = 700 };

enum act {
    ACT_NONE,
    ACT_ENABLE,
    ACT_RAISE, /* the primary's version above that of a new secondary */
    ACT_FOLLOW,
    ACT_RESYNC,
    ACT_DEMOTE,
    ACT_PROMOTE,
    ACT_EARLY,   /* promote a site that syncs */
    ACT_MISTAKE, /* follow a primary of a lower epoch */
    ACT_HEAR,
    ACT_FORGET,
    ACT_DISABLE,
    ACT_REKEY,
    ACT_ROTATE,
    ACTS
};

static const char *const names[ACTS] = {
    [ACT_ENABLE] = "enable", [ACT_RAISE] = "raise",     [ACT_FOLLOW] = "follow",
    [ACT_RESYNC] = "resync", [ACT_DEMOTE] = "demote",   [ACT_PROMOTE] = "promote",
    [ACT_EARLY] = "early",   [ACT_MISTAKE] = "mistake", [ACT_HEAR] = "hear",
    [ACT_FORGET] = "forget", [ACT_DISABLE] = "disable", [ACT_REKEY] = "rekey",
    [ACT_ROTATE] = "rotate"};

enum goal { GOAL_NONE, GOAL_PLANNED, GOAL_MISTAKE };

struct pair_operator {
    struct event tick;
    struct pair_call call;
    struct state_more more;
    struct pair *pair;
    enum act act;
    enum goal goal;
    uint64_t goal_ns, changed_ns;
    struct dr_primary primary;       /* of the act */
    uint64_t version;                /* of the act */
    bool moves;                      /* the promotion makes the other site the primary */
    unsigned tried[PAIR_EPOCHS_MAX]; /* by epoch: site that was asked to begin it, and 1 */
};

/* One change, as the program's own handlers stage it. */

static void add_raise(const struct state_more *more, struct rlog_txn_builder *b)
{
    const struct pair_operator *o = CONTAINER_OF(more, struct pair_operator, more);
    rlog_txn_raise(b, o->version);
}

static enum status stage_raise(struct pair_operator *o, struct state_txn *txn)
{
    if (o->version <= state_version(txn))
        return ST_OK;
    o->more.add = add_raise;
    state_stage_more(txn, &o->more);
    return state_put_raw(txn, BYTES("l/pair/raised"), BYTES(""));
}

static enum status stage_enable(struct pair_operator *o, struct state_txn *txn, int64_t now_ms,
                                struct reason *why)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, o->pair->genesis); /* fits */
    TRY(dr_role_enable(txn, o->primary.set, "", now_ms, why));
    return state_put_raw(txn, BYTES(PAIR_GENESIS), bytes_str(text));
}

static enum status stage_rekey(struct cluster *site, struct state_txn *txn, int64_t now_ms)
{
    struct dr_role role;
    struct seal_info info;
    TRY(dr_role_read(txn, &role));
    if (role.mode != DR_MODE_PRIMARY || role.phase != DR_PHASE_RUNNING)
        return ST_INVALID;
    TRY(state_seal_read(txn, &info));
    return state_rekey(txn, seals_of(site, &info), now_ms);
}

static enum status stage(struct pair_call *call, struct state_txn *txn, int64_t now_ms)
{
    struct pair_operator *o = CONTAINER_OF(call, struct pair_operator, call);
    struct reason why = {{0}};
    switch (o->act) {
    case ACT_ENABLE: return stage_enable(o, txn, now_ms, &why);
    case ACT_RAISE: return stage_raise(o, txn);
    case ACT_FOLLOW: return dr_role_follow(txn, &o->primary, now_ms, &why);
    case ACT_RESYNC:
    case ACT_MISTAKE: return dr_role_resync(txn, &o->primary, &why);
    case ACT_DEMOTE: TRY(dr_role_demote(txn, now_ms, &why)); return state_dr_demote(txn);
    case ACT_PROMOTE:
    case ACT_EARLY: return dr_role_promote(txn, "", now_ms, &why);
    case ACT_HEAR: return dr_role_hear(txn, o->primary.epoch, &why);
    case ACT_FORGET: return dr_role_forget(txn, "", &why);
    case ACT_DISABLE: return dr_role_disable(txn, &why);
    case ACT_REKEY: return stage_rekey(call->node->cluster, txn, now_ms);
    case ACT_ROTATE: return state_rotate(txn, now_ms);
    default: return ST_INTERNAL;
    }
}

static void on_done(struct pair_call *call, enum status st)
{
    struct pair_operator *o = CONTAINER_OF(call, struct pair_operator, call);
    struct pair *p = o->pair;
    uint64_t *reached = call->node->cluster->tally.reached;
    core_say(p->core, "operator: %s at %s: %s", names[o->act], call->node->name, status_name(st));
    if (o->act == ACT_MISTAKE)
        o->goal = GOAL_NONE;
    reached[REACH_PAIR_REFUSED] +=
        st == ST_INVALID && (o->act == ACT_MISTAKE || o->act == ACT_EARLY);
    if (st != ST_OK)
        return;
    reached[REACH_REKEYED] += o->act == ACT_REKEY;
    reached[REACH_PAIR_SUPERSEDED] += o->act == ACT_HEAR;
    if (o->act == ACT_PROMOTE && o->moves) {
        bool planned = o->goal == GOAL_PLANNED;
        reached[planned ? REACH_PAIR_SWITCHED : REACH_PAIR_FAILED_OVER]++;
        reached[REACH_PAIR_FAILED_BACK] += call->node->cluster->site == 0;
    }
    if (o->act == ACT_PROMOTE)
        o->goal = GOAL_NONE;
}

static void ask(struct pair_operator *o, enum act act, const struct pair_view *at)
{
    struct pair *p = o->pair;
    o->act = act;
    o->call = (struct pair_call){.stage = stage, .done = on_done};
    core_say(p->core, "operator: %s at %s", names[act], at->leader->name);
    pair_call_begin(p, &o->call, at->leader);
}

/* Decisions. `primary` and `secondary` are NULL while no leader of the site answers. */

/* With a token of the primary: it brings the primary's root key. */
static void follow(struct pair_operator *o, enum act act, const struct pair_view *primary,
                   const struct pair_view *secondary)
{
    if (act != ACT_MISTAKE && !pair_sync_root(o->pair, primary->leader))
        return;
    memcpy(o->primary.set, primary->role.set, sizeof o->primary.set);
    o->primary.epoch = primary->role.epoch;
    o->primary.id = "sim";
    o->primary.address = "";
    ask(o, act, secondary);
}

/* Promote, unless the other site was asked to begin this epoch and may have done so. */
static void promote(struct pair_operator *o, const struct pair_view *at,
                    const struct pair_view *other)
{
    uint64_t epoch = at->role.epoch + 1;
    unsigned site = at->leader->cluster->site;
    bool other_did_not = other != NULL && other->role.epoch < epoch;
    if (epoch >= PAIR_EPOCHS_MAX - 1 || (o->tried[epoch] == 2 - site && !other_did_not))
        return;
    o->tried[epoch] = site + 1;
    o->moves = site != o->pair->newest;
    o->changed_ns = o->pair->core->now_ns;
    ask(o, ACT_PROMOTE, at);
}

static void begin_goal(struct pair_operator *o, enum goal goal, const struct pair_view *primary)
{
    o->goal = goal;
    o->goal_ns = o->pair->core->now_ns;
    o->changed_ns = o->goal_ns;
    ask(o, ACT_DEMOTE, primary);
}

/* The newest primary was demoted. */
static void with_demoted(struct pair_operator *o, const struct pair_view *primary,
                         const struct pair_view *secondary)
{
    const struct pair *p = o->pair;
    bool late = p->core->now_ns - o->goal_ns > WAIT_PLANNED_MS * (uint64_t)SIM_MS;
    if (o->goal == GOAL_PLANNED && secondary != NULL &&
        secondary->role.phase == DR_PHASE_STREAMING &&
        secondary->role.epoch == primary->role.epoch && secondary->version == primary->version)
        promote(o, secondary, primary);
    else if (o->goal == GOAL_MISTAKE && secondary != NULL &&
             secondary->role.mode == DR_MODE_PRIMARY && secondary->role.epoch < primary->role.epoch)
        follow(o, ACT_MISTAKE, secondary, primary);
    else if (o->goal == GOAL_NONE || late) {
        o->goal = GOAL_NONE;
        promote(o, primary, secondary);
    }
}

static bool may_change(const struct pair_operator *o)
{
    uint64_t now_ns = o->pair->core->now_ns;
    return !o->pair->calm && now_ns > FIRST_CHANGE_MS * (uint64_t)SIM_MS &&
           now_ns - o->changed_ns > CHANGES_MS * (uint64_t)SIM_MS;
}

static void with_streaming(struct pair_operator *o, const struct pair_view *primary,
                           const struct pair_view *secondary)
{
    struct pair *p = o->pair;
    uint64_t by_chance = rng_below(&p->rng, 1000);
    if (p->calm)
        return;
    if (by_chance < 120)
        ask(o, ACT_REKEY, primary);
    else if (by_chance < 160)
        ask(o, ACT_ROTATE, primary);
    else if (by_chance < 260)
        pair_link_away(p, rng_between(&p->rng, 100, 3000) * SIM_MS);
    else if (by_chance < 300)
        follow(o, ACT_RESYNC, primary, secondary);
    else if (by_chance < 320)
        ask(o, ACT_FORGET, secondary);
    else if (by_chance < 340)
        ask(o, ACT_DISABLE, secondary);
    else if (by_chance < 440 && may_change(o))
        begin_goal(o, GOAL_PLANNED, primary);
    else if (by_chance < 520 && may_change(o))
        promote(o, secondary, primary);
}

/* The site was the primary before, or is still for all it knows. */
static void with_former(struct pair_operator *o, const struct pair_view *primary,
                        const struct pair_view *former)
{
    struct pair *p = o->pair;
    uint64_t by_chance = rng_below(&p->rng, 1000);
    if (!p->calm && by_chance < 100 && may_change(o)) {
        begin_goal(o, GOAL_MISTAKE, primary);
    } else if (by_chance < 300 && former->role.phase == DR_PHASE_RUNNING) {
        o->primary.epoch = primary->role.epoch;
        ask(o, ACT_HEAR, former);
    } else if (p->calm || by_chance < 450) {
        ask(o, ACT_DEMOTE, former);
    }
}

static void with_disabled(struct pair_operator *o, const struct pair_view *primary,
                          const struct pair_view *site)
{
    if (site->version > primary->version) {
        o->version = site->version;
        ask(o, ACT_RAISE, primary);
    } else {
        follow(o, ACT_FOLLOW, primary, site);
    }
}

static void with_primary(struct pair_operator *o, const struct pair_view *primary,
                         const struct pair_view *secondary)
{
    struct pair *p = o->pair;
    if (secondary->role.mode == DR_MODE_DISABLED) {
        with_disabled(o, primary, secondary);
        return;
    }
    switch (secondary->role.phase) {
    case DR_PHASE_STREAMING: with_streaming(o, primary, secondary); break;
    case DR_PHASE_IDLE: follow(o, ACT_RESYNC, primary, secondary); break;
    case DR_PHASE_SYNCING:
        if (!p->calm && rng_chance(&p->rng, 200))
            ask(o, ACT_EARLY, secondary);
        break;
    case DR_PHASE_RUNNING:
    case DR_PHASE_SUPERSEDED: with_former(o, primary, secondary); break;
    }
}

static void begin(struct pair_operator *o, const struct pair_view *first)
{
    struct pair *p = o->pair;
    struct rlog_status s;
    for (unsigned i = 0; i < SITES; i++)
        if (!clients_initialized(&p->sites[i]))
            return;
    rlog_status(first->leader->rlog, &s);
    if (s.feature < RLOG_FEATURE_DR)
        return;
    le64_put(o->primary.set, rng_u64(&p->rng));
    le64_put(o->primary.set + 8, rng_u64(&p->rng));
    ask(o, ACT_ENABLE, first);
}

static bool feature_reached(const struct pair_view *v)
{
    struct rlog_status s;
    rlog_status(v->leader->rlog, &s);
    return s.feature >= RLOG_FEATURE_DR;
}

static void decide(struct pair_operator *o)
{
    struct pair *p = o->pair;
    struct pair_view views[SITES];
    const struct pair_view *primary = NULL, *secondary = NULL;
    unsigned newest = p->newest;
    if (pair_look(&p->sites[newest], &views[newest]))
        primary = &views[newest];
    if (pair_look(&p->sites[1 - newest], &views[1 - newest]))
        secondary = &views[1 - newest];
    if (p->epoch == 0) {
        if (primary != NULL && primary->role.mode == DR_MODE_DISABLED)
            begin(o, primary);
        return;
    }
    if (secondary != NULL && !feature_reached(secondary))
        return;
    if (primary == NULL) {
        if (secondary != NULL && secondary->role.mode == DR_MODE_SECONDARY &&
            secondary->role.phase == DR_PHASE_STREAMING && may_change(o) &&
            rng_chance(&p->rng, 100))
            promote(o, secondary, NULL);
        return;
    }
    if (primary->role.mode == DR_MODE_SECONDARY && primary->role.phase == DR_PHASE_IDLE)
        with_demoted(o, primary, secondary);
    else if (primary->role.mode == DR_MODE_PRIMARY && secondary != NULL)
        with_primary(o, primary, secondary);
}

static void on_tick(struct event *event)
{
    struct pair_operator *o = CONTAINER_OF(event, struct pair_operator, tick);
    struct pair *p = o->pair;
    core_after(p->core, event, rng_between(&p->rng, 20, 200) * SIM_MS);
    if (o->call.process == 0)
        decide(o);
}

bool pair_operator_rests(const struct pair *p)
{
    return p->operator->call.process == 0;
}

void pair_operator_start(struct pair *p)
{
    struct pair_operator *o = sim_alloc(sizeof *o);
    p->operator= o;
    o->pair = p;
    o->tick.fire = on_tick;
    core_after(p->core, &o->tick, 500 * SIM_MS);
}
