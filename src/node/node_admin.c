/* What an operator asks of the cluster: called on any thread but the raft thread, and waited for.
 */
#include "node/node_parts.h"

#include <stdio.h>

enum { ADMIN_PATIENCE_MS = 30000 };

/* On the caller's stack; the raft thread's last touch is `finished`, under the lock. */
struct order {
    struct env_task task;
    struct rlog_admin admin;
    struct node *node;
    char name[MESH_NAME_MAX];
    struct rlog_propose propose;
    struct buf txn; /* of it */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool finished;
    enum status st;
};

static void finish(struct order *o, enum status st)
{
    pthread_mutex_lock(&o->lock);
    o->st = st;
    o->finished = true;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

static void on_done(struct rlog_admin *admin, enum status st)
{
    finish(CONTAINER_OF(admin, struct order, admin), st);
}

static void prepare(struct order *o)
{
    o->admin = (struct rlog_admin){.done = on_done,
                                   .deadline_ms = env_mono_ms(o->node->env) + ADMIN_PATIENCE_MS};
}

static void on_noted(struct rlog_propose *p, enum status st)
{
    struct order *o = CONTAINER_OF(p, struct order, propose);
    buf_done(&o->txn);
    if (st != ST_OK || o->node->rlog_closed)
        finish(o, st != ST_OK ? st : ST_CLOSED);
    else
        rlog_member_remove(o->node->rlog, &o->admin);
}

/* The name's record comes before the change of members: whatever happens in between, a node that
 * is out does not get in again by itself. */
static void note_and_remove(struct order *o)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    char key[sizeof NODE_REMOVED_KEY + MESH_NAME_MAX];
    (void)snprintf(key, sizeof key, NODE_REMOVED_KEY "%s", o->name); /* fits */
    rlog_txn_put(&txn, bytes_str(key), BYTES("removed"));
    enum status st = rlog_txn_encode(&txn, &o->txn);
    if (st != ST_OK) {
        finish(o, st);
        return;
    }
    o->propose = (struct rlog_propose){.txn = buf_bytes(&o->txn), .upkeep = true, .done = on_noted};
    rlog_propose(o->node->rlog, &o->propose);
}

static void run_remove(struct env_task *task)
{
    struct order *o = CONTAINER_OF(task, struct order, task);
    struct node *n = o->node;
    prepare(o);
    for (unsigned i = 0; i < n->n_members; i++)
        if (strcmp(n->members[i].name, o->name) == 0)
            o->admin.member = n->members[i];
    if (n->stopping)
        finish(o, ST_CLOSED);
    else if (o->admin.member.id == 0)
        finish(o, ST_NOT_FOUND);
    else if (o->admin.member.id == n->id)
        rlog_member_remove(n->rlog, &o->admin); /* gives leadership away: the next leader goes on */
    else
        note_and_remove(o);
}

static void run_step_down(struct env_task *task)
{
    struct order *o = CONTAINER_OF(task, struct order, task);
    prepare(o);
    if (o->node->stopping) {
        finish(o, ST_CLOSED);
        return;
    }
    o->admin.member.id = node_handover_target(o->node);
    rlog_transfer(o->node->rlog, &o->admin);
}

static enum status give(struct order *o, struct reason *reason)
{
    if (pthread_mutex_init(&o->lock, NULL) != 0 || pthread_cond_init(&o->changed, NULL) != 0)
        return ST_NOMEM;
    env_post(o->node->env, &o->task);
    pthread_mutex_lock(&o->lock);
    while (!o->finished)
        pthread_cond_wait(&o->changed, &o->lock);
    pthread_mutex_unlock(&o->lock);
    (void)pthread_cond_destroy(&o->changed); /* nobody waits */
    (void)pthread_mutex_destroy(&o->lock);   /* nobody holds it */
    if (reason != NULL && o->st != ST_OK)
        *reason = o->admin.reason;
    return o->st;
}

enum status node_remove_member(struct node *node, const char *name, struct reason *reason)
{
    struct order o = {.task = {.run = run_remove}, .node = node};
    if (strlen(name) >= sizeof o.name)
        return ST_NOT_FOUND;
    (void)snprintf(o.name, sizeof o.name, "%s", name); /* fits */
    return give(&o, reason);
}

enum status node_step_down(struct node *node, struct reason *reason)
{
    struct order o = {.task = {.run = run_step_down}, .node = node};
    return give(&o, reason);
}
