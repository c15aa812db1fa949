/* The node: its thread, start and stop. */
#include "node/node_internal.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"
#include "loop/loop.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static struct node *node_of(struct part_host *host)
{
    return CONTAINER_OF(host, struct node, host);
}

/* Functions that parts may call. */

void node_refuse(struct node *n, const struct reason *reason)
{
    n->options.failed(n->options.ctx, NODE_NOT_STARTED, reason);
}

static void on_refuse(struct part_host *host, const struct reason *reason)
{
    node_refuse(node_of(host), reason);
}

void node_fail(struct node *n, enum status why, const struct reason *reason)
{
    bool disk = why == ST_IO || why == ST_NO_SPACE;
    n->options.failed(n->options.ctx, disk ? NODE_DISK_FAILED : NODE_FAILED, reason);
}

static void on_fail(struct part_host *host, enum status why, const struct reason *reason)
{
    node_fail(node_of(host), why, reason);
}

static void on_publish(struct part_host *host)
{
    ASSERT(part_on_thread(host));
    board_show(&node_of(host)->board, host);
}

static void on_wait(struct part_host *host)
{
    struct node *n = node_of(host);
    ASSERT(host->rlog == NULL && n->options.waits != NULL);
    quorum_await(&n->quorum);
    n->options.waits(n->options.ctx);
}

static void on_seal(struct part_host *host)
{
    unseal_seal(&node_of(host)->unseal);
}

static int64_t on_time_ms(struct part_host *host)
{
    return board_time_ms(&node_of(host)->board);
}

/* A transaction that the node itself proposes. */
struct node_write {
    struct rlog_propose propose;
    struct node *node;
    uint64_t *mark;
    struct buf txn;
};

static void on_written(struct rlog_propose *p, enum status st)
{
    struct node_write *w = CONTAINER_OF(p, struct node_write, propose);
    ASSERT(part_on_thread(&w->node->host));
    if (st != ST_OK && w->mark != NULL)
        *w->mark = 0;
    if (st != ST_OK && st != w->node->write_status)
        trace(TRACE_WARN, "node", "a write of our own failed: %s", status_text(st));
    w->node->write_status = st;
    buf_done(&w->txn);
    mem_free(w);
}

static void on_write(struct part_host *host, struct rlog_txn_builder *txn, uint64_t *mark)
{
    struct node_write *w = mem_zalloc(sizeof *w);
    ASSERT(part_on_thread(host) && !host->replica_closed);
    if (w == NULL || rlog_txn_encode(txn, &w->txn) != ST_OK) {
        if (w != NULL)
            buf_done(&w->txn);
        mem_free(w);
        if (mark != NULL)
            *mark = 0;
        return;
    }
    w->node = node_of(host);
    w->mark = mark;
    w->propose =
        (struct rlog_propose){.txn = buf_bytes(&w->txn), .upkeep = true, .done = on_written};
    rlog_propose(host->rlog, &w->propose);
}

static const struct part_calls part_calls = {
    .send = transport_send,
    .write = on_write,
    .link = transport_link,
    .open_port = transport_open,
    .start_replica = transport_start_replica,
    .restart_replica = transport_restart_replica,
    .publish = on_publish,
    .wait = on_wait,
    .seal = on_seal,
    .time_ms = on_time_ms,
    .refuse = on_refuse,
    .fail = on_fail,
};

void node_changed(struct node *n)
{
    struct rlog_status raft;
    ASSERT(part_on_thread(&n->host));
    if (n->host.rlog == NULL || n->host.replica_closed)
        return;
    rlog_status(n->host.rlog, &raft);
    node_parts_changed(n, &raft);
}

static void on_tick(struct env_timer *timer)
{
    struct node *n = CONTAINER_OF(timer, struct node, tick);
    node_parts_tick(n);
    node_changed(n);
    env_timer_set(n->host.env, &n->tick, env_mono_ms(n->host.env) + PART_TICK_MS);
}

static void on_reload(struct env_task *task)
{
    struct node *n = CONTAINER_OF(task, struct node, reload_task);
    struct reason reason = {{0}};
    ASSERT(part_on_thread(&n->host));
    n->reload_posted = false;
    if (n->host.mesh == NULL || n->host.stopping)
        return;
    enum status st = mesh_reload(n->host.mesh, &reason);
    renew_learn(&n->renew);
    if (st == ST_OK)
        trace(TRACE_INFO, "node", "cluster port: certificate read again");
    else
        trace(TRACE_ERROR, "node", "cluster port: keeps its certificate: %s",
              reason.text[0] != '\0' ? reason.text : status_text(st));
}

void node_reload(struct node *n)
{
    if (atomic_exchange(&n->reload_posted, true))
        return; /* the reload that was posted reads the same files */
    n->reload_task = (struct env_task){.run = on_reload};
    env_post(n->host.env, &n->reload_task);
}

void node_set_mute(struct node *n, bool mute)
{
    atomic_store(&n->host.mute, mute); /* the next tick reads it */
}

/* Stopping: the parts end their work, the replica closes, the parts rest, the port closes, the loop
 * ends. */

static void on_port_closed(void *ctx)
{
    struct node *n = ctx;
    n->host.mesh = NULL;
    loop_stop(n->host.env);
}

static void poll_again(struct node *n)
{
    ASSERT(n->host.stopping);
    env_timer_set(n->host.env, &n->tick, env_mono_ms(n->host.env) + PART_STOP_POLL_MS);
}

/* Proposals have ended with the replica, but their completions may still be posted to this thread.
 */
static void close_port(struct env_timer *timer)
{
    struct node *n = CONTAINER_OF(timer, struct node, tick);
    ASSERT(n->host.replica_closed);
    if (!node_parts_stop(n)) {
        poll_again(n);
        return;
    }
    env_timer_stop(n->host.env, &n->tick);
    if (n->host.mesh == NULL)
        loop_stop(n->host.env);
    else
        mesh_close(n->host.mesh, on_port_closed, n);
}

static void on_replica_closed(void *ctx)
{
    struct node *n = ctx;
    n->host.replica_closed = true;
    n->tick.fire = close_port;
    env_timer_set(n->host.env, &n->tick, env_mono_ms(n->host.env));
}

static void close_replica(struct env_timer *timer)
{
    struct node *n = CONTAINER_OF(timer, struct node, tick);
    ASSERT(n->host.stopping);
    if (!node_parts_stop(n) || n->reopening)
        poll_again(n);
    else if (n->host.rlog == NULL)
        on_replica_closed(n);
    else
        rlog_close(n->host.rlog, on_replica_closed, n);
}

static void on_stop(struct env_task *task)
{
    struct node *n = CONTAINER_OF(task, struct node, stop_task);
    ASSERT(!n->host.stopping);
    node_changed(n);
    n->host.stopping = true;
    n->host.active_term = 0;
    n->tick.fire = close_replica;
    env_timer_set(n->host.env, &n->tick, env_mono_ms(n->host.env));
}

void node_stop(struct node *n)
{
    n->stop_task = (struct env_task){.run = on_stop};
    env_post(n->host.env, &n->stop_task);
    if (pthread_join(n->thread, NULL) != 0)
        abort(); /* the thread was started and is joined once */
}

void node_free(struct node *n)
{
    if (n == NULL)
        return;
    loop_free(n->host.env);
    node_parts_done(n);
    loop_fs_free(n->host.fs);
    barrier_free(n->host.barrier);
    board_done(&n->board);
    mem_free(n);
}

/* Start of the node */

static void *thread_main(void *arg)
{
    struct node *n = arg;
    struct reason reason = {{0}};
    bool enrolls = false;
    n->host.thread = pthread_self();
    n->host.threaded = true;
    enum status st = enroll_open(&n->enroll, &enrolls, &reason);
    if (st == ST_OK && !enrolls)
        st = bootstrap_open(&n->bootstrap, &reason);
    if (st != ST_OK) {
        if (reason.text[0] == '\0')
            reason_set(&reason, "%s", status_text(st));
        node_refuse(n, &reason);
    }
    env_timer_set(n->host.env, &n->tick, env_mono_ms(n->host.env) + PART_TICK_MS);
    loop_run(n->host.env);
    ASSERT(n->host.replica_closed);
    n->host.threaded = false;
    return NULL;
}

static enum status node_open(struct node *n, struct reason *reason)
{
    const struct node_options *o = &n->options;
    ASSERT(o->member.n_initial_members <= INITIAL_MEMBERS_MAX);
    n->tick.fire = on_tick;
    n->host.calls = &part_calls;
    node_parts_wire(n);
    TRY(board_init(&n->board, o->member.name, o->cluster_name));
    TRY(loop_fs_new(o->member.data_dir, &n->host.fs, reason));
    TRY(loop_new(n->host.fs, &n->host.env));
    TRY(barrier_new(&n->host.barrier));
    TRY(node_parts_start(n));
    return pthread_create(&n->thread, NULL, thread_main, n) == 0 ? ST_OK : ST_NOMEM;
}

enum status node_start(const struct node_options *options, struct node **ret_node)
{
    struct reason reason = {{0}};
    struct node *n = mem_zalloc(sizeof *n);
    if (n == NULL)
        return ST_NOMEM;
    n->options = *options;
    enum status st = node_open(n, &reason);
    if (st == ST_OK) {
        *ret_node = n;
        return ST_OK;
    }
    if (reason.text[0] == '\0')
        reason_set(&reason, "%s", status_text(st));
    options->failed(options->ctx, NODE_NOT_STARTED, &reason);
    node_free(n);
    return st;
}

struct rlog *node_rlog(struct node *node)
{
    return node->host.rlog;
}

struct env *node_env(struct node *node)
{
    return node->host.env;
}

struct barrier *node_barrier(struct node *node)
{
    return node->host.barrier;
}

const struct mesh_identity *node_identity(struct node *node)
{
    return &node->host.identity;
}

struct tls_ctx *node_tls(struct node *node)
{
    return mesh_tls_client(node->host.mesh);
}

struct mesh *node_mesh(struct node *node)
{
    ASSERT(node->host.mesh != NULL);
    return node->host.mesh;
}

void node_status_get(struct node *node, struct node_status *ret_status)
{
    board_get(&node->board, ret_status);
}

bool node_reseal_is_due(const struct node *node)
{
    return reseal_is_due(&node->reseal);
}

bool node_is_member(struct node *node, const char *name)
{
    bool member = false;
    pthread_mutex_lock(&node->board.lock);
    const struct rlog_status *raft = &node->board.status.raft;
    for (unsigned i = 0; i < raft->n_members; i++)
        member = member || strcmp(raft->members[i].name, name) == 0;
    pthread_mutex_unlock(&node->board.lock);
    return member;
}

bool node_awaits_members(struct node *node, struct reason *ret_why)
{
    return quorum_awaits(&node->quorum, ret_why);
}

void node_join_give_up(struct node *node)
{
    enroll_give_up(&node->enroll);
}
