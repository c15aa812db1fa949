/* Membership and leadership, one request at a time, leader only.
 *
 *   add       ADD_SPARE -> CATCH_UP -> ADD_STANDBY -> ADD_ROLE -> (REMOVE of `replaces`) -> done
 *   remove    (MATCH -> MOVE, when it is this node) or REMOVE -> done
 *   demote    the same with DEMOTE
 *   address   ADDRESS -> done
 *   transfer  MATCH -> MOVE -> done
 *
 * Each CHANGE entry changes one member, and is submitted only after the CHANGE before it is
 * committed. While a CHANGE is uncommitted, the phase waits for its index. A step that the core
 * cannot take now is tried again on the next pump. An add that only waits for its server gives way
 * to any other request, and ends when the server is silent: a dead server delays no other change.
 * Every step reads the present configuration, so a request that is repeated after a failure goes on
 * where the failed request stopped. */
#include "base/trace.h"
#include "raft/replica/rlog_internal.h"

#include <stdio.h>

enum {
    DEADLINE_MS = 60000,
    TRANSFER_MS = 10000,
    POLL_MS = 50,
    SILENT_MS = 5000, /* a server that is silent for this time is no longer added */
    FAST_PART = 20,   /* divides the election timeout while there is no leader to wait for */
};

#define NO_LEADER_YET UINT64_MAX /* in the place of the leader that is gone */

static void on_timer(struct env_timer *timer);

void rlog_members_init(struct rlog *r)
{
    r->members.timer.fire = on_timer;
}

static void admin_finish(struct rlog *r, enum status st)
{
    struct rlog_members *ms = &r->members;
    struct rlog_admin *a = ms->admin;
    ASSERT(a != NULL);
    ms->admin = NULL;
    ms->phase = MEMBERS_IDLE;
    env_timer_stop(r->env, &ms->timer);
    a->status = st;
    list_push(&r->done_admins, &a->link);
}

static void admin_refuse(struct rlog *r, struct rlog_admin *a, enum status st, const char *why)
{
    reason_set(&a->reason, "%s", why);
    a->status = st;
    list_push(&r->done_admins, &a->link);
}

/* Whether an add waits for its server, and has no uncommitted change of its own. */
static bool only_waits(const struct rlog *r)
{
    const struct rlog_members *ms = &r->members;
    return ms->phase == MEMBERS_CATCH_UP && ms->change_index <= r->core.committed.index;
}

/* A later request goes first: the caller that wanted the server added asks again. */
static void give_way(struct rlog *r)
{
    if (r->members.admin == NULL || !only_waits(r) || !rlog_core_leads(&r->core))
        return;
    reason_set(&r->members.admin->reason, "gave way to another change");
    admin_finish(r, ST_BUSY);
}

static bool admin_begin(struct rlog *r, struct rlog_admin *a, uint64_t default_ms)
{
    ASSERT(a->done != NULL);
    list_init(&a->link);
    a->reason.text[0] = '\0';
    if (r->failed || r->closing)
        admin_refuse(r, a, ST_CLOSED, "shutting down");
    else if (!rlog_core_leads(&r->core))
        admin_refuse(r, a, ST_NOT_LEADER, "not the leader");
    else if (r->members.admin != NULL)
        admin_refuse(r, a, ST_BUSY, "another change is under way");
    else
        r->members.admin = a;
    if (r->members.admin != a)
        return false;
    if (a->deadline_ms == 0)
        a->deadline_ms = rlog_now(r) + default_ms;
    r->members.term = r->core.term;
    r->members.change_index = 0;
    r->members.remove_id = 0;
    r->members.heard_ms = rlog_now(r);
    return true;
}

/* Whether the member can be added under that name and address. */
static const char *add_refused(const struct rlog_conf *conf, const struct rlog_admin *a)
{
    struct rlog_conf probe = {.members = {a->member}, .n = 1};
    struct rlog_conf_bytes encoded;
    ASSERT(conf->n <= RLOG_MEMBERS_MAX);
    probe.members[0].role = RLOG_VOTER;
    if (a->member.id == 0 || rlog_conf_encode(&probe, &encoded) != ST_OK)
        return "id, name or address is not valid";
    for (unsigned i = 0; i < conf->n; i++) {
        const struct rlog_member *m = &conf->members[i];
        if (m->id != a->member.id && m->id != a->replaces &&
            strncmp(m->name, a->member.name, sizeof m->name) == 0)
            return "a member has that name";
    }
    return NULL;
}

void rlog_member_add(struct rlog *r, struct rlog_admin *a)
{
    rlog_enter(r);
    if (admin_begin(r, a, DEADLINE_MS)) {
        const char *why = add_refused(&r->core.conf, a);
        r->members.phase = MEMBERS_ADD_SPARE;
        if (why != NULL) {
            reason_set(&a->reason, "%s", why);
            admin_finish(r, ST_INVALID);
        }
    }
    rlog_leave_start(r);
}

static void take_from(struct rlog *r, struct rlog_admin *a, enum rlog_members_phase phase)
{
    rlog_enter(r);
    give_way(r);
    if (admin_begin(r, a, DEADLINE_MS)) {
        r->members.phase = phase;
        r->members.remove_id = a->member.id;
    }
    rlog_leave_start(r);
}

void rlog_member_remove(struct rlog *r, struct rlog_admin *a)
{
    take_from(r, a, MEMBERS_REMOVE);
}

void rlog_member_demote(struct rlog *r, struct rlog_admin *a)
{
    take_from(r, a, MEMBERS_DEMOTE);
}

void rlog_member_address(struct rlog *r, struct rlog_admin *a)
{
    rlog_enter(r);
    give_way(r);
    if (admin_begin(r, a, DEADLINE_MS))
        r->members.phase = MEMBERS_ADDRESS;
    rlog_leave_start(r);
}

void rlog_transfer(struct rlog *r, struct rlog_admin *a)
{
    rlog_enter(r);
    give_way(r);
    if (admin_begin(r, a, TRANSFER_MS)) {
        r->members.phase = MEMBERS_MATCH;
        r->members.target = a->member.id;
        r->members.held_ms = rlog_now(r);
    }
    rlog_leave_start(r);
}

/* Nothing new is proposed while the chosen server gets the last entries. */
bool rlog_members_holding(const struct rlog *r)
{
    return r->members.phase == MEMBERS_MATCH || r->members.phase == MEMBERS_MOVE;
}

/* Submit `next`; the phase becomes `then` when it is committed. */
static void change_submit(struct rlog *r, const struct rlog_conf *next,
                          enum rlog_members_phase then)
{
    struct rlog_members *ms = &r->members;
    ASSERT(rlog_core_leads(&r->core));
    ASSERT(ms->change_index <= r->core.committed.index); /* only one change is made at a time */
    enum status st = rlog_core_change(&r->core, next, rlog_now(r), &ms->change_index);
    if (st == ST_OK) {
        ms->phase = then;
    } else if (st != ST_BUSY && st != ST_NOMEM) {
        reason_set(&ms->admin->reason, "%s",
                   st == ST_INVALID ? "the change is not allowed in this configuration"
                                    : status_text(st));
        admin_finish(r, st);
    }
}

static void set_role(struct rlog *r, enum rlog_role role, enum rlog_members_phase then)
{
    const struct rlog_member *wanted = &r->members.admin->member;
    struct rlog_conf next = r->core.conf;
    for (unsigned i = 0; i < next.n; i++)
        if (next.members[i].id == wanted->id)
            next.members[i].role = role;
    change_submit(r, &next, then);
}

static void step_add_spare(struct rlog *r)
{
    struct rlog_members *ms = &r->members;
    const struct rlog_member *have = rlog_conf_find(&r->core.conf, ms->admin->member.id);
    struct rlog_conf next = r->core.conf;
    ASSERT(ms->phase == MEMBERS_ADD_SPARE);
    if (have != NULL) {
        ms->phase = MEMBERS_CATCH_UP;
        return;
    }
    if (next.n == RLOG_MEMBERS_MAX) {
        reason_set(&ms->admin->reason, "the cluster has %u members, the most there may be", next.n);
        admin_finish(r, ST_INVALID);
        return;
    }
    struct rlog_member *m = &next.members[next.n++];
    m->id = ms->admin->member.id;
    (void)snprintf(m->name, sizeof m->name, "%s", ms->admin->member.name);
    (void)snprintf(m->address, sizeof m->address, "%s", ms->admin->member.address);
    m->role = RLOG_SPARE;
    change_submit(r, &next, MEMBERS_CATCH_UP);
}

static void step_address(struct rlog *r)
{
    const struct rlog_member *wanted = &r->members.admin->member;
    struct rlog_conf next = r->core.conf;
    struct rlog_member *m = NULL;
    ASSERT(r->members.phase == MEMBERS_ADDRESS);
    for (unsigned i = 0; i < next.n; i++)
        if (next.members[i].id == wanted->id)
            m = &next.members[i];
    if (m == NULL) {
        reason_set(&r->members.admin->reason, "there is no such member");
        admin_finish(r, ST_INVALID);
    } else if (strncmp(m->address, wanted->address, sizeof m->address) == 0) {
        r->members.phase = MEMBERS_DONE;
    } else {
        memset(m->address, 0, sizeof m->address); /* clear all bytes: members are compared whole */
        /* cannot be cut: both arrays have the same size */
        (void)snprintf(m->address, sizeof m->address, "%s", wanted->address);
        change_submit(r, &next, MEMBERS_DONE);
    }
}

/* Promote a member from SPARE one role at a time, each time only when the member has the log and
 * the committed configuration (F10). */
static void step_catch_up(struct rlog *r)
{
    struct rlog_members *ms = &r->members;
    const struct rlog_member *m = rlog_conf_find(&r->core.conf, ms->admin->member.id);
    ASSERT(ms->phase == MEMBERS_CATCH_UP);
    if (m == NULL) {
        ms->phase = MEMBERS_ADD_SPARE; /* the change that added it was rolled back */
        return;
    }
    if (m->role >= ms->admin->member.role) {
        ms->phase = ms->admin->replaces != 0 ? MEMBERS_REMOVE : MEMBERS_DONE;
        ms->remove_id = ms->admin->replaces;
        return;
    }
    if (rlog_now(r) - ms->heard_ms > SILENT_MS) {
        reason_set(&ms->admin->reason, "the server does not answer");
        admin_finish(r, ST_TIMEOUT);
        return;
    }
    switch (rlog_core_progress(&r->core, m->id)) {
    case RLOG_CORE_RUNNING: return;
    case RLOG_CORE_BEHIND:
        if (m->role == RLOG_SPARE) {
            enum status st = rlog_core_catch_up(&r->core, m->id, rlog_now(r));
            (void)st; /* the next turn tries again */
        }
        return;
    case RLOG_CORE_CAUGHT_UP:
        set_role(r, m->role == RLOG_SPARE ? RLOG_STANDBY : RLOG_VOTER, MEMBERS_CATCH_UP);
        return;
    }
}

/* This node is to be removed or to lose its vote: the next leader makes that change. */
static void leave_first(struct rlog *r)
{
    struct rlog_members *ms = &r->members;
    ms->phase = MEMBERS_MATCH;
    ms->target = 0;
    ms->held_ms = rlog_now(r);
}

static void step_demote(struct rlog *r)
{
    struct rlog_members *ms = &r->members;
    const struct rlog_member *m = rlog_conf_find(&r->core.conf, ms->remove_id);
    ASSERT(ms->phase == MEMBERS_DEMOTE);
    if (m == NULL) {
        reason_set(&ms->admin->reason, "there is no such member");
        admin_finish(r, ST_INVALID);
    } else if (m->role != RLOG_VOTER) {
        ms->phase = MEMBERS_DONE;
    } else if (m->id == r->identity.id) {
        leave_first(r);
    } else {
        set_role(r, RLOG_STANDBY, MEMBERS_DONE);
    }
}

static void step_remove(struct rlog *r)
{
    struct rlog_members *ms = &r->members;
    struct rlog_conf next = r->core.conf;
    const struct rlog_member *m = rlog_conf_find(&r->core.conf, ms->remove_id);
    ASSERT(ms->phase == MEMBERS_REMOVE);
    if (m == NULL) {
        ms->phase = MEMBERS_DONE;
        return;
    }
    if (ms->remove_id == r->identity.id) {
        leave_first(r);
        return;
    }
    size_t at = (size_t)(m - r->core.conf.members);
    ASSERT(at < r->core.conf.n);
    next.n--;
    memmove(&next.members[at], &next.members[at + 1], (next.n - at) * sizeof *m);
    memset(&next.members[next.n], 0, sizeof *m);
    change_submit(r, &next, MEMBERS_DONE);
}

/* The voter that has the most entries. */
static uint64_t best_target(const struct rlog *r)
{
    uint64_t best = 0, best_match = 0;
    for (unsigned i = 0; i < r->core.conf.n; i++) {
        const struct rlog_member *m = &r->core.conf.members[i];
        uint64_t match = rlog_core_match(&r->core, m->id);
        if (m->role != RLOG_VOTER || m->id == r->identity.id || (best != 0 && match <= best_match))
            continue;
        best = m->id;
        best_match = match;
    }
    ASSERT(best != r->identity.id);
    return best;
}

static void transfer_fail(struct rlog *r, enum status st, const char *why)
{
    reason_set(&r->members.admin->reason, "%s", why);
    admin_finish(r, st);
}

static void step_match(struct rlog *r)
{
    struct rlog_members *ms = &r->members;
    uint64_t target = ms->target != 0 ? ms->target : best_target(r);
    const struct rlog_member *m = rlog_conf_find(&r->core.conf, target);
    ASSERT(ms->phase == MEMBERS_MATCH);
    if (target == r->identity.id && ms->target != 0) {
        ms->phase = MEMBERS_DONE;
        return;
    }
    if (m == NULL || m->role != RLOG_VOTER) {
        transfer_fail(r, ST_INVALID, "there is no such other voter");
        return;
    }
    if (rlog_now(r) - ms->held_ms > r->core.election_ms) {
        transfer_fail(r, ST_TIMEOUT, "the server did not catch up in time");
        return;
    }
    if (rlog_core_transfer(&r->core, target, rlog_now(r)) == ST_OK) {
        ms->target = target;
        ms->phase = MEMBERS_MOVE;
    }
}

/* This node still leads: the transfer failed, or is still under way. */
static void step_move(struct rlog *r)
{
    if (!rlog_core_transferring(&r->core))
        transfer_fail(r, ST_TIMEOUT, "the server did not take over");
}

/* This node no longer leads. */
static void step_lost(struct rlog *r)
{
    struct rlog_members *ms = &r->members;
    uint64_t leader = rlog_core_leader(&r->core);
    ASSERT(ms->phase != MEMBERS_IDLE);
    if (ms->phase == MEMBERS_MOVE && leader == 0)
        return; /* the election is still running */
    bool moved = ms->phase == MEMBERS_MOVE && leader == ms->target;
    bool asked = ms->remove_id != r->identity.id;
    if (moved && asked) {
        admin_finish(r, ST_OK);
        return;
    }
    reason_set(&ms->admin->reason,
               moved ? "leadership was moved: ask the new leader" : "leadership was lost");
    admin_finish(r,
                 ms->change_index > r->core.committed.index ? ST_UNKNOWN_OUTCOME : ST_NOT_LEADER);
}

static void members_step(struct rlog *r)
{
    struct rlog_members *ms = &r->members;
    ASSERT(ms->phase != MEMBERS_IDLE);
    if (!rlog_core_leads(&r->core) || ms->term != r->core.term) {
        step_lost(r);
        return;
    }
    if (ms->change_index > r->core.committed.index)
        return; /* wait until the last change is committed */
    switch (ms->phase) {
    case MEMBERS_IDLE: return;
    case MEMBERS_ADD_SPARE: step_add_spare(r); return;
    case MEMBERS_CATCH_UP: step_catch_up(r); return;
    case MEMBERS_REMOVE: step_remove(r); return;
    case MEMBERS_DEMOTE: step_demote(r); return;
    case MEMBERS_ADDRESS: step_address(r); return;
    case MEMBERS_MATCH: step_match(r); return;
    case MEMBERS_MOVE: step_move(r); return;
    case MEMBERS_DONE: admin_finish(r, ST_OK); return;
    }
}

static void fast_failover(struct rlog *r);

void rlog_members_pump(struct rlog *r)
{
    struct rlog_members *ms = &r->members;
    enum rlog_members_phase before;
    ASSERT(r->depth == 1);
    fast_failover(r);
    if (ms->admin == NULL)
        return;
    do {
        before = ms->phase;
        members_step(r);
    } while (ms->admin != NULL && ms->phase != before && !r->failed);
    if (ms->admin == NULL)
        return;
    if (rlog_now(r) >= ms->admin->deadline_ms) {
        reason_set(&ms->admin->reason, "not done in time");
        admin_finish(r,
                     ms->change_index > r->core.committed.index ? ST_UNKNOWN_OUTCOME : ST_TIMEOUT);
        return;
    }
    if (ms->timer.slot == 0)
        env_timer_set(r->env, &ms->timer, rlog_now(r) + POLL_MS);
}

static void on_timer(struct env_timer *timer)
{
    struct rlog *r = CONTAINER_OF(timer, struct rlog, members.timer);
    rlog_enter(r);
    rlog_leave(r);
}

void rlog_members_heard(struct rlog *r, uint64_t from)
{
    struct rlog_members *ms = &r->members;
    if (ms->admin != NULL && ms->admin->member.id == from)
        ms->heard_ms = rlog_now(r);
}

void rlog_members_close(struct rlog *r)
{
    struct rlog_members *ms = &r->members;
    env_timer_stop(r->env, &ms->timer);
    if (ms->admin != NULL)
        admin_finish(r,
                     ms->change_index > r->core.committed.index ? ST_UNKNOWN_OUTCOME : ST_CLOSED);
}

void rlog_members_fire(struct rlog *r)
{
    struct list *link;
    while ((link = list_pop(&r->done_admins)) != NULL) {
        struct rlog_admin *a = CONTAINER_OF(link, struct rlog_admin, link);
        a->done(a, a->status); /* the last touch of *a */
    }
}

/* Fast election: the leader's process is gone, or there was no leader ever, so there is no point in
 * waiting a second for it. */
static void elect_fast(struct rlog *r, uint64_t gone_id)
{
    ASSERT(gone_id != 0);
    r->members.gone_id = gone_id;
    r->members.gone_ms = rlog_now(r);
    rlog_core_set_election(&r->core, MAX(r->core.election_ms / FAST_PART, 1u), r->members.gone_ms);
}

void rlog_members_first(struct rlog *r)
{
    elect_fast(r, NO_LEADER_YET);
}

void rlog_peer_gone(struct rlog *r, uint64_t id)
{
    if (r->failed || r->closing || id == 0 || rlog_core_leads(&r->core) ||
        rlog_core_leader(&r->core) != id)
        return;
    rlog_enter(r);
    elect_fast(r, id);
    rlog_leave(r);
}

/* Restore the election timeout when there is a new leader, when the old leader is heard again, or
 * after two election timeouts. */
static void fast_failover(struct rlog *r)
{
    struct rlog_members *ms = &r->members;
    uint64_t leader = rlog_core_leader(&r->core), now = rlog_now(r);
    if (ms->gone_id == 0)
        return;
    bool heard = r->core.heard_ms > ms->gone_ms;
    if ((leader == 0 || leader == ms->gone_id) && !heard &&
        now - ms->gone_ms < 2 * (uint64_t)r->core.election_ms)
        return;
    ms->gone_id = 0;
    rlog_core_set_election(&r->core, r->core.election_ms, now);
}

/* Open the disk only to read which replica it belongs to: nothing is written. */
static void on_nothing_written(void *ctx, uint64_t seq)
{
    (void)ctx;
    (void)seq;
}

static void on_disk_failed(void *ctx, enum status why, const struct reason *reason)
{
    (void)why;
    *(struct reason *)ctx = *reason;
}

enum status rlog_rejoin_prepare(const struct rlog_options *options, struct rlog_identity *ret_old,
                                struct rlog_identity *ret_new, struct reason *reason)
{
    struct rlog_disk *disk = NULL;
    struct rlog_identity old = {0}, fresh = options->identity;
    struct rlog_disk_options disk_options = {
        .env = options->env,
        .dir = options->dir,
        .ops = {on_nothing_written, on_disk_failed, reason},
    };
    struct rlog_loaded loaded = {0};

    enum status st =
        rlog_disk_open(&disk_options, &options->identity, &disk, &old, &loaded, reason);
    if (st == ST_BUSY || st == ST_INVALID)
        return st; /* the directory is in use, or belongs to another node: do not remove it */
    if (st == ST_OK) {
        rlog_loaded_done(&loaded);
        rlog_disk_close(disk);
    }
    do {
        env_random(options->env, &fresh.id, sizeof fresh.id);
        fresh.id &= INT64_MAX;
    } while (fresh.id == 0 || fresh.id == old.id);
    TRY(rlog_disk_wipe(options->env, options->dir, reason));
    TRY(rlog_disk_create(options->env, options->dir, &fresh, reason));
    *ret_old = old;
    *ret_new = fresh;
    return ST_OK;
}
