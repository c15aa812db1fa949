/* Changes of the cluster that an operator requests. The caller waits, on any thread but the raft
 * thread. */
#include "cluster/membership/members/admin.h"

#include "cluster/membership/local.h"
#include "cluster/membership/wait.h"

#include "base/mem.h"
#include "base/plant.h"
#include "base/trace.h"

#include <stdio.h>

enum { ADMIN_PATIENCE_MS = 30000 };

struct order {
    struct env_task task;
    struct rlog_admin admin;
    struct admin *all;
    char name[MESH_NAME_MAX];
    void (*change)(struct rlog *rlog, struct rlog_admin *admin);
    bool removes, votes; /* the order removes the member; the order gives the member a vote */
    bool alone;          /* no thread waits for the order: it frees itself */
    struct rlog_propose propose;
    struct buf txn; /* the encoded transaction that `propose` proposes */
    struct wait wait;
};

static void order_finish(struct order *o, enum status st)
{
    ASSERT(part_on_thread(o->all->host));
    if (!o->alone) {
        wait_end(&o->wait, st);
        return;
    }
    ASSERT(o->all->cleaning);
    o->all->cleaning = false;
    if (st != ST_OK)
        trace(TRACE_WARN, "node", "%s was not removed: %s %s", o->name, status_text(st),
              o->admin.reason.text);
    mem_free(o);
}

static void on_order_done(struct rlog_admin *admin, enum status st)
{
    order_finish(CONTAINER_OF(admin, struct order, admin), st);
}

static void order_prepare(struct order *o)
{
    o->admin = (struct rlog_admin){
        .done = on_order_done, .deadline_ms = env_mono_ms(o->all->host->env) + ADMIN_PATIENCE_MS};
}

static void on_noted(struct rlog_propose *p, enum status st)
{
    struct order *o = CONTAINER_OF(p, struct order, propose);
    ASSERT(part_on_thread(o->all->host));
    ASSERT(!o->removes || o->change == rlog_member_remove);
    buf_done(&o->txn);
    if (st != ST_OK || o->all->host->replica_closed)
        order_finish(o, st != ST_OK ? st : ST_CLOSED);
    else if (o->removes && planted(PLANT_REMOVED_SERVES))
        order_finish(o, ST_OK);
    else
        o->change(o->all->host->rlog, &o->admin);
}

static void put_note(struct rlog_txn_builder *txn, const char *prefix, const char *name, bool is)
{
    char key[MEMBER_KEY_MAX];
    int len = snprintf(key, sizeof key, "%s%s", prefix, name);
    ASSERT(len > 0 && (size_t)len < sizeof key);
    if (is)
        rlog_txn_put(txn, bytes_str(key), BYTES("noted"));
    else
        rlog_txn_delete(txn, bytes_str(key));
}

/* Write the records of the name before the members change. If this node fails in between, a removed
 * node cannot join again by itself, and a node without a vote gets no vote. */
static void note_and_change(struct order *o)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    ASSERT(o->txn.len == 0 && o->change != NULL);
    if (o->removes)
        put_note(&txn, MEMBER_REMOVED_KEY, o->name, true);
    put_note(&txn, MEMBER_NONVOTER_KEY, o->name, !o->removes && !o->votes);
    enum status st = rlog_txn_encode(&txn, &o->txn);
    if (st != ST_OK) {
        order_finish(o, st);
        return;
    }
    o->propose = (struct rlog_propose){.txn = buf_bytes(&o->txn), .upkeep = true, .done = on_noted};
    rlog_propose(o->all->host->rlog, &o->propose);
}

/* Whether this node, the active one, reaches a majority of the voters that are left without this
 * member. If it did not, the cluster would have no leader until a voter that is away comes back. */
static bool leaves_majority(const struct part_host *host, const struct rlog_member *member,
                            struct reason *reason)
{
    unsigned voters = 0, reached = 0;
    ASSERT(part_on_thread(host) && host->n_members <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < host->n_members; i++) {
        const struct rlog_member *m = &host->members[i];
        if (m->id == member->id || m->role != RLOG_VOTER)
            continue;
        voters++;
        reached += m->id == host->id || mesh_linked(host->mesh, m->id);
    }
    ASSERT(reached <= voters);
    if (voters == 0 || reached > voters / 2)
        return true; /* without any voter, the replica refuses the change */
    reason_set(reason,
               "without the vote of %s, the active node would reach %u of %u voters, which is no "
               "majority: let the others come back, or remove them first",
               member->name, reached, voters);
    return false;
}

static void run_change(struct env_task *task)
{
    struct order *o = CONTAINER_OF(task, struct order, task);
    struct part_host *host = o->all->host;
    ASSERT(part_on_thread(o->all->host));
    order_prepare(o);
    for (unsigned i = 0; i < host->n_members; i++)
        if (strcmp(host->members[i].name, o->name) == 0)
            o->admin.member = host->members[i];
    bool takes = o->admin.member.role == RLOG_VOTER && !o->votes;
    o->admin.member.role = RLOG_VOTER;
    if (host->stopping)
        order_finish(o, ST_CLOSED);
    else if (o->admin.member.id == 0)
        order_finish(o, ST_NOT_FOUND);
    else if (takes && !leaves_majority(host, &o->admin.member, &o->admin.reason))
        order_finish(o, ST_INVALID);
    else if (o->admin.member.id == host->id && !o->votes)
        /* a leader that changes itself transfers leadership; the next leader goes on */
        o->change(host->rlog, &o->admin);
    else
        note_and_change(o);
}

static void run_step_down(struct env_task *task)
{
    struct order *o = CONTAINER_OF(task, struct order, task);
    ASSERT(part_on_thread(o->all->host));
    order_prepare(o);
    if (o->all->host->stopping) {
        order_finish(o, ST_CLOSED);
        return;
    }
    o->admin.member.id = peers_target(o->all->peers);
    rlog_transfer(o->all->host->rlog, &o->admin);
}

static enum status order_give(struct order *o, struct reason *reason)
{
    enum status st = wait_for(&o->wait, o->all->host->env, &o->task);
    if (reason != NULL && st != ST_OK)
        *reason = o->admin.reason;
    return st;
}

static enum status give_about(struct order *o, const char *name, struct reason *reason)
{
    if (strlen(name) >= sizeof o->name)
        return ST_NOT_FOUND;
    /* cannot be cut: the caller bounds the name */
    (void)snprintf(o->name, sizeof o->name, "%s", name);
    return order_give(o, reason);
}

enum status admin_remove(struct admin *a, const char *name, struct reason *reason)
{
    struct order o = {
        .task = {.run = run_change}, .all = a, .change = rlog_member_remove, .removes = true};
    return give_about(&o, name, reason);
}

void admin_remove_dead(struct admin *a, const char *name)
{
    struct order *o = mem_zalloc(sizeof *o);
    if (o == NULL)
        return; /* out of memory: the next look tries again */
    ASSERT(!a->cleaning && strlen(name) < sizeof o->name);
    *o = (struct order){.all = a, .change = rlog_member_remove, .removes = true, .alone = true};
    (void)snprintf(o->name, sizeof o->name, "%s", name); /* cannot be cut: the name is bounded */
    a->cleaning = true;
    run_change(&o->task);
}

enum status admin_set_vote(struct admin *a, const char *name, bool votes, struct reason *reason)
{
    struct order o = {.task = {.run = run_change},
                      .all = a,
                      .change = votes ? rlog_member_add : rlog_member_demote,
                      .votes = votes};
    return give_about(&o, name, reason);
}

enum status admin_step_down(struct admin *a, struct reason *reason)
{
    struct order o = {.task = {.run = run_step_down}, .all = a};
    return order_give(&o, reason);
}

static enum status admin_start(void *self, struct part_host *host)
{
    struct admin *a = self;
    ASSERT(a->host == NULL && !a->cleaning);
    a->host = host;
    return ST_OK;
}

const struct part admin_part = {.name = "admin", .start = admin_start};
