/* Changes of the cluster that an operator asks for: called on any thread but the raft thread, and
 * waited for.
 */
#include "node/node_internal.h"

#include "base/mem.h"
#include "base/trace.h"

#include <stdio.h>

enum { ADMIN_PATIENCE_MS = 30000 };

struct order {
    struct env_task task;
    struct rlog_admin admin;
    struct node *node;
    char name[MESH_NAME_MAX];
    void (*change)(struct rlog *rlog, struct rlog_admin *admin);
    bool removes, votes; /* votes: from now on */
    bool alone;          /* no thread waits: the order frees itself */
    struct rlog_propose propose;
    struct buf txn; /* of it */
    struct node_wait wait;
};

void node_wait_end(struct node_wait *w, enum status st)
{
    pthread_mutex_lock(&w->lock);
    w->st = st;
    w->finished = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

enum status node_wait_for(struct node *n, struct env_task *task, struct node_wait *w)
{
    if (pthread_mutex_init(&w->lock, NULL) != 0)
        return ST_NOMEM;
    if (pthread_cond_init(&w->changed, NULL) != 0) {
        (void)pthread_mutex_destroy(&w->lock); /* no thread holds it */
        return ST_NOMEM;
    }
    env_post(n->host.env, task);
    pthread_mutex_lock(&w->lock);
    while (!w->finished)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    (void)pthread_cond_destroy(&w->changed); /* no thread waits */
    (void)pthread_mutex_destroy(&w->lock);   /* no thread holds it */
    return w->st;
}

static void finish(struct order *o, enum status st)
{
    if (!o->alone) {
        node_wait_end(&o->wait, st);
        return;
    }
    o->node->cleaning = false;
    if (st != ST_OK)
        trace(TRACE_WARN, "node", "%s was not removed: %s %s", o->name, status_text(st),
              o->admin.reason.text);
    mem_free(o);
}

static void on_done(struct rlog_admin *admin, enum status st)
{
    finish(CONTAINER_OF(admin, struct order, admin), st);
}

static void prepare(struct order *o)
{
    o->admin = (struct rlog_admin){
        .done = on_done, .deadline_ms = env_mono_ms(o->node->host.env) + ADMIN_PATIENCE_MS};
}

static void on_noted(struct rlog_propose *p, enum status st)
{
    struct order *o = CONTAINER_OF(p, struct order, propose);
    buf_done(&o->txn);
    if (st != ST_OK || o->node->host.replica_closed)
        finish(o, st != ST_OK ? st : ST_CLOSED);
    else
        o->change(o->node->host.rlog, &o->admin);
}

static void put_note(struct rlog_txn_builder *txn, const char *prefix, const char *name, bool is)
{
    char key[sizeof NODE_NONVOTER_KEY + MESH_NAME_MAX];
    int len = snprintf(key, sizeof key, "%s%s", prefix, name);
    ASSERT(len > 0 && (size_t)len < sizeof key);
    if (is)
        rlog_txn_put(txn, bytes_str(key), BYTES("noted"));
    else
        rlog_txn_delete(txn, bytes_str(key));
}

/* The name's records come before the change of members: whatever happens in between, a node that
 * is out does not get in again by itself, and one without a vote does not get one. */
static void note_and_change(struct order *o)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    if (o->removes)
        put_note(&txn, NODE_REMOVED_KEY, o->name, true);
    put_note(&txn, NODE_NONVOTER_KEY, o->name, !o->removes && !o->votes);
    enum status st = rlog_txn_encode(&txn, &o->txn);
    if (st != ST_OK) {
        finish(o, st);
        return;
    }
    o->propose = (struct rlog_propose){.txn = buf_bytes(&o->txn), .upkeep = true, .done = on_noted};
    rlog_propose(o->node->host.rlog, &o->propose);
}

static void run_change(struct env_task *task)
{
    struct order *o = CONTAINER_OF(task, struct order, task);
    struct node *n = o->node;
    prepare(o);
    for (unsigned i = 0; i < n->host.n_members; i++)
        if (strcmp(n->host.members[i].name, o->name) == 0)
            o->admin.member = n->host.members[i];
    o->admin.member.role = RLOG_VOTER;
    if (n->host.stopping)
        finish(o, ST_CLOSED);
    else if (o->admin.member.id == 0)
        finish(o, ST_NOT_FOUND);
    else if (o->admin.member.id == n->host.id && !o->votes)
        o->change(n->host.rlog, &o->admin); /* gives leadership away: the next leader goes on */
    else
        note_and_change(o);
}

static void run_step_down(struct env_task *task)
{
    struct order *o = CONTAINER_OF(task, struct order, task);
    prepare(o);
    if (o->node->host.stopping) {
        finish(o, ST_CLOSED);
        return;
    }
    o->admin.member.id = node_handover_target(o->node);
    rlog_transfer(o->node->host.rlog, &o->admin);
}

static enum status give(struct order *o, struct reason *reason)
{
    enum status st = node_wait_for(o->node, &o->task, &o->wait);
    if (reason != NULL && st != ST_OK)
        *reason = o->admin.reason;
    return st;
}

static enum status give_about(struct order *o, const char *name, struct reason *reason)
{
    if (strlen(name) >= sizeof o->name)
        return ST_NOT_FOUND;
    (void)snprintf(o->name, sizeof o->name, "%s", name); /* fits */
    return give(o, reason);
}

enum status node_remove_member(struct node *node, const char *name, struct reason *reason)
{
    struct order o = {
        .task = {.run = run_change}, .node = node, .change = rlog_member_remove, .removes = true};
    return give_about(&o, name, reason);
}

void node_remove_dead(struct node *n, const char *name)
{
    struct order *o = mem_zalloc(sizeof *o);
    if (o == NULL)
        return; /* the next look tries again */
    ASSERT(!n->cleaning && strlen(name) < sizeof o->name);
    *o = (struct order){.node = n, .change = rlog_member_remove, .removes = true, .alone = true};
    (void)snprintf(o->name, sizeof o->name, "%s", name); /* fits */
    n->cleaning = true;
    run_change(&o->task);
}

enum status node_set_vote(struct node *node, const char *name, bool votes, struct reason *reason)
{
    struct order o = {.task = {.run = run_change},
                      .node = node,
                      .change = votes ? rlog_member_add : rlog_member_demote,
                      .votes = votes};
    return give_about(&o, name, reason);
}

enum status node_step_down(struct node *node, struct reason *reason)
{
    struct order o = {.task = {.run = run_step_down}, .node = node};
    return give(&o, reason);
}
