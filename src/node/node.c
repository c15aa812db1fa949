#include "node/enroll.h"
#include "node/removed.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"
#include "loop/loop.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

void node_refuse(struct node *n, const struct reason *reason)
{
    n->options.failed(n->options.ctx, NODE_NOT_STARTED, reason);
}

static void part_send(struct part_host *host, uint64_t to, enum frame_kind kind,
                      struct bytes content)
{
    node_send(CONTAINER_OF(host, struct node, host), to, kind, content);
}

static void part_fail(struct part_host *host, enum status why, const struct reason *reason)
{
    node_fail(CONTAINER_OF(host, struct node, host), why, reason);
}

static const struct part_calls part_calls = {
    .send = part_send, .write = node_write, .fail = part_fail};

void node_fail(struct node *n, enum status why, const struct reason *reason)
{
    bool disk = why == ST_IO || why == ST_NO_SPACE;
    n->options.failed(n->options.ctx, disk ? NODE_DISK_FAILED : NODE_FAILED, reason);
}

void node_send(struct node *n, uint64_t to, enum frame_kind kind, struct bytes content)
{
    uint8_t head = (uint8_t)kind;
    struct bytes parts[] = {bytes_of(&head, 1), content};
    if (n->host.mesh != NULL)
        mesh_send(n->host.mesh, to, parts, ARRAY_LEN(parts), false);
}

static void on_receive(void *ctx, uint64_t from, const char *from_name, struct bytes frame)
{
    struct node *n = ctx;
    struct reader r = reader_of(frame);
    uint8_t kind = reader_u8(&r);
    if (r.failed || n->host.stopping)
        return;
    node_quorum_heard(n, from);
    if (kind == FRAME_REPORT) {
        node_handover_hear(n, from, from_name, bytes_from(frame, 1));
        return;
    }
    if (kind == FRAME_RENEW || kind == FRAME_RENEWED) {
        node_renew_hear(n, from, from_name, kind, bytes_from(frame, 1));
        return;
    }
    if (kind == FRAME_MEMBER || kind == FRAME_STRANGER) {
        node_removed_receive(n, from, from_name, kind, bytes_from(frame, 1));
        return;
    }
    if (kind != FRAME_RAFT) {
        node_join_hear(n, from, from_name, kind, bytes_from(frame, 1));
        return;
    }
    uint64_t to = reader_u64(&r);
    if (r.failed || to != n->host.id || n->host.rlog == NULL)
        return; /* for an earlier incarnation of this node */
    rlog_receive(n->host.rlog, from, from_name, bytes_of(r.at, reader_left(&r)));
}

static void on_gone(void *ctx, uint64_t id)
{
    struct node *n = ctx;
    if (n->host.rlog != NULL && !n->host.stopping)
        rlog_peer_gone(n->host.rlog, id);
}

/* The certificate of a node that was removed is still good; its requests are not. */
static void on_http(void *ctx, struct mesh_http connection)
{
    struct node *n = ctx;
    bool member = false;
    for (unsigned i = 0; i < n->host.n_members; i++)
        member = member || strcmp(n->host.members[i].name, connection.peer_name) == 0;
    if (member && !n->host.stopping)
        n->options.accept_http(n->options.ctx, connection);
    else
        mesh_http_drop(&connection);
}

/* A raft id belongs to the name it has in the configuration; unknown ones may join. */
static bool id_allowed(void *ctx, uint64_t id, const char *name)
{
    struct node *n = ctx;
    for (unsigned i = 0; i < n->host.n_members; i++)
        if (n->host.members[i].id == id)
            return strcmp(n->host.members[i].name, name) == 0;
    return id != n->host.id;
}

static void on_stranger(void *ctx, struct mesh_http connection)
{
    struct node *n = ctx;
    if (n->host.stopping || n->host.removed)
        mesh_http_drop(&connection);
    else
        n->options.accept_stranger(n->options.ctx, connection);
}

static bool on_ask_removed(void *ctx, const char *name)
{
    return node_removed_is(ctx, name, false); /* the word is not said in doubt */
}

static void on_told_removed(void *ctx, const char *name)
{
    node_removed_hear(ctx, name);
}

enum status node_mesh_open(struct node *n, struct reason *reason)
{
    struct mesh_options o = {
        .env = n->host.env,
        .address = n->options.listen_addr,
        .ca_path = n->options.ca_file,
        .cert_path = n->options.cert_file,
        .key_path = n->options.key_file,
        .id = n->host.id,
        .events = {.receive = on_receive,
                   .gone = on_gone,
                   .http = on_http,
                   .stranger = n->options.accept_stranger != NULL ? on_stranger : NULL,
                   .removed = on_ask_removed,
                   .told_removed = on_told_removed,
                   .id_allowed = id_allowed,
                   .ctx = n},
    };
    return mesh_start(&o, &n->host.mesh, reason);
}

static const char *configured_address(const struct node *n, const char *name)
{
    for (unsigned i = 0; i < n->options.n_founders; i++)
        if (strcmp(n->options.founders[i].name, name) == 0)
            return n->options.founders[i].address;
    return "";
}

/* The configuration may know a newer address than the member's record. */
static void add_link(const struct node *n, struct mesh_member *links, unsigned *count, uint64_t id,
                     const char *name, const char *address)
{
    struct mesh_member *m = &links[(*count)++];
    const char *other = configured_address(n, name);
    m->id = id;
    (void)snprintf(m->name, sizeof m->name, "%s", name);          /* bounded when it came in */
    (void)snprintf(m->address, sizeof m->address, "%s", address); /* bounded when it came in */
    if (strcmp(other, address) != 0)
        (void)snprintf(m->other, sizeof m->other, "%s", other); /* bounded when it came in */
}

void node_mesh_link(struct node *n)
{
    static_assert((int)RLOG_MEMBERS_MAX <= (int)MESH_MEMBERS_MAX, "members fit");
    struct mesh_member links[MESH_MEMBERS_MAX] = {0};
    unsigned count = 0;
    if (n->host.mesh == NULL)
        return;
    for (unsigned i = 0; i < n->host.n_members; i++)
        add_link(n, links, &count, n->host.members[i].id, n->host.members[i].name,
                 n->host.members[i].address);
    for (unsigned i = 0; n->host.n_members == 0 && i < n->options.n_founders; i++) {
        if (strcmp(n->options.founders[i].name, n->options.name) == 0)
            continue; /* ourselves, perhaps under another id */
        add_link(n, links, &count, i + 1, n->options.founders[i].name,
                 n->options.founders[i].address);
        links[count - 1].any_id = true; /* the node may have been replaced since */
    }
    mesh_members(n->host.mesh, links, count);
}

static void on_tick(struct env_timer *timer)
{
    struct node *n = CONTAINER_OF(timer, struct node, tick);
    node_join_tick(n);
    if (n->host.rlog != NULL && !n->host.stopping) {
        node_role_changed(n);
        node_upkeep_tick(n);
        node_renew_tick(n);
    }
    env_timer_set(n->host.env, &n->tick, env_mono_ms(n->host.env) + PART_TICK_MS);
}

bool node_is_member(struct node *node, const char *name)
{
    bool member = false;
    pthread_mutex_lock(&node->lock);
    for (unsigned i = 0; i < node->status.raft.n_members; i++)
        member = member || strcmp(node->status.raft.members[i].name, name) == 0;
    pthread_mutex_unlock(&node->lock);
    return member;
}

int64_t node_time_ms(struct node *node)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        abort(); /* cannot fail for this clock */
    int64_t mono_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    pthread_mutex_lock(&node->lock);
    int64_t time_ms = node->clock_ms != 0 ? node->clock_ms + (mono_ms - node->clock_mono_ms) : 0;
    pthread_mutex_unlock(&node->lock);
    return time_ms;
}

static void on_reload(struct env_task *task)
{
    struct node *n = CONTAINER_OF(task, struct node, reload_task);
    struct reason reason = {{0}};
    n->reload_posted = false;
    if (n->host.mesh == NULL || n->host.stopping)
        return;
    enum status st = mesh_reload(n->host.mesh, &reason);
    node_renew_learn(n);
    if (st == ST_OK)
        trace(TRACE_INFO, "node", "cluster port: certificate read again");
    else
        trace(TRACE_ERROR, "node", "cluster port: keeps its certificate: %s",
              reason.text[0] != '\0' ? reason.text : status_text(st));
}

void node_reload(struct node *n)
{
    if (atomic_exchange(&n->reload_posted, true))
        return; /* the posted reload sees the same files */
    n->reload_task = (struct env_task){.run = on_reload};
    env_post(n->host.env, &n->reload_task);
}

/* Stopping: hand over, close the replica, close the port, end the loop. */

static void on_mesh_closed(void *ctx)
{
    struct node *n = ctx;
    n->host.mesh = NULL;
    loop_stop(n->host.env);
}

static void close_mesh(struct node *n)
{
    env_timer_stop(n->host.env, &n->tick);
    node_renew_done(n);
    if (n->enroll != NULL)
        node_enroll_stop(n); /* ends the loop */
    else if (n->host.mesh == NULL)
        loop_stop(n->host.env);
    else
        mesh_close(n->host.mesh, on_mesh_closed, n);
}

/* Proposals have ended with the replica; their completions are still on the way here. */
static void close_when_parts_rest(struct env_timer *timer)
{
    struct node *n = CONTAINER_OF(timer, struct node, tick);
    if (node_parts_stop(n))
        close_mesh(n);
    else
        env_timer_set(n->host.env, &n->tick, env_mono_ms(n->host.env) + PART_STOP_POLL_MS);
}

static void on_rlog_closed(void *ctx)
{
    struct node *n = ctx;
    n->host.replica_closed = true;
    n->tick.fire = close_when_parts_rest;
    env_timer_set(n->host.env, &n->tick, env_mono_ms(n->host.env));
}

static void close_when_idle(struct env_timer *timer)
{
    struct node *n = CONTAINER_OF(timer, struct node, tick);
    bool rest = node_parts_stop(n);
    if (!rest || n->hashing ||
        (n->transferring && env_mono_ms(n->host.env) < n->stop_deadline_ms)) {
        env_timer_set(n->host.env, &n->tick, env_mono_ms(n->host.env) + PART_STOP_POLL_MS);
        return;
    }
    if (n->host.rlog == NULL)
        close_mesh(n);
    else
        rlog_close(n->host.rlog, on_rlog_closed, n);
}

static void on_handed_over(struct rlog_admin *a, enum status st)
{
    struct node *n = CONTAINER_OF(a, struct node, transfer);
    (void)st; /* stopping goes on either way */
    n->transferring = false;
}

static void on_stop(struct env_task *task)
{
    struct node *n = CONTAINER_OF(task, struct node, stop_task);
    if (n->host.rlog != NULL)
        node_role_changed(n);
    n->host.stopping = true;
    n->host.active_term = 0;
    n->stop_deadline_ms = env_mono_ms(n->host.env) + NODE_STOP_TRANSFER_MS;
    if (n->host.rlog != NULL && n->status.raft.is_leader && n->status.raft.n_members > 1 &&
        !n->transferring) {
        n->transferring = true;
        n->transfer =
            (struct rlog_admin){.done = on_handed_over, .member.id = node_handover_target(n)};
        rlog_transfer(n->host.rlog, &n->transfer);
    }
    n->tick.fire = close_when_idle;
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
    services_done(&n->services);
    loop_free(n->host.env);
    loop_fs_free(n->host.fs);
    barrier_free(n->host.barrier);
    node_seal_done(n);
    (void)pthread_mutex_destroy(&n->lock); /* no thread holds it */
    mem_free(n);
}

/* Starting. */

enum status node_open(struct node *n, struct reason *reason)
{
    TRY(node_files_settle(n, reason));
    TRY(node_files_authority(n, reason));
    TRY(mesh_identity_read(n->options.cert_file, &n->host.identity, reason));
    if (strcmp(n->host.identity.name, n->options.name) != 0) {
        reason_set(reason, "%s is the certificate of %s, not of %s", n->options.cert_file,
                   n->host.identity.name, n->options.name);
        return ST_INVALID;
    }
    ASSERT(n->host.rlog == NULL && n->host.mesh == NULL);
    const uint8_t *c = n->host.identity.cluster;
    pthread_mutex_lock(&n->lock); /* workers look already, if this node waited */
    memcpy(n->status.cluster, c, sizeof n->status.cluster);
    (void)snprintf(n->status.cluster_id, sizeof n->status.cluster_id,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", c[0],
                   c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10], c[11], c[12], c[13],
                   c[14], c[15]); /* 36 characters */
    memcpy(n->host.cluster_id, n->status.cluster_id, sizeof n->host.cluster_id);
    pthread_mutex_unlock(&n->lock);
    return node_join_start(n, reason);
}

static void *thread_main(void *arg)
{
    struct node *n = arg;
    struct reason reason = {{0}};
    bool enrolls = false;
    enum status st = node_enroll_start(n, &enrolls, &reason);
    if (st == ST_OK && !enrolls)
        st = node_open(n, &reason);
    if (st != ST_OK) {
        if (reason.text[0] == '\0')
            reason_set(&reason, "%s", status_text(st));
        node_refuse(n, &reason);
    }
    env_timer_set(n->host.env, &n->tick, env_mono_ms(n->host.env) + PART_TICK_MS);
    loop_run(n->host.env);
    return NULL;
}

static int64_t part_time_ms(void *ctx)
{
    return node_time_ms(ctx);
}

enum status node_start(const struct node_options *options, struct node **ret_node)
{
    struct reason reason = {{0}};
    struct node *n = mem_zalloc(sizeof *n);
    if (n == NULL)
        return ST_NOMEM;
    ASSERT(options->n_founders <= NODE_FOUNDERS_MAX);
    n->options = *options;
    n->tick.fire = on_tick;
    n->host.calls = &part_calls;
    n->duties = (struct duties){.rows = options->duties, .n = options->n_duties};
    n->services = (struct services){.rows = options->services,
                                    .n = options->n_services,
                                    .time_ms = part_time_ms,
                                    .time_ctx = n};
    n->snapshot = (struct snapshot){.seal = options->seal,
                                    .state_bytes_max = options->state_bytes_max,
                                    .reserve_bytes = options->reserve_bytes};
    (void)snprintf(n->status.name, sizeof n->status.name, "%s", options->name); /* bounded */
    (void)snprintf(n->status.cluster_name, sizeof n->status.cluster_name, "%s",
                   options->cluster_name); /* bounded */
    n->status.sealed = true;
    node_brief_publish(n);
    enum status st = loop_fs_new(options->data_dir, &n->host.fs, &reason);
    if (st == ST_OK)
        st = loop_new(n->host.fs, &n->host.env);
    if (st == ST_OK)
        st = barrier_new(&n->host.barrier);
    if (st == ST_OK)
        st = node_parts_start(n);
    if (st == ST_OK)
        st = node_seal_init(n);
    if (st == ST_OK && (pthread_mutex_init(&n->lock, NULL) != 0 ||
                        pthread_create(&n->thread, NULL, thread_main, n) != 0))
        st = ST_NOMEM;
    if (st == ST_OK) {
        *ret_node = n;
        return ST_OK;
    }
    if (reason.text[0] == '\0')
        reason_set(&reason, "%s", status_text(st));
    options->failed(options->ctx, NODE_NOT_STARTED, &reason);
    services_done(&n->services);
    node_seal_done(n);
    barrier_free(n->host.barrier);
    loop_free(n->host.env);
    loop_fs_free(n->host.fs);
    mem_free(n);
    return st;
}

struct rlog *node_rlog(struct node *node)
{
    return node->host.rlog;
}

struct snapshot *node_snapshot(struct node *node)
{
    return &node->snapshot;
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

enum {
    BRIEF_INITIALIZED = 1,
    BRIEF_SEALED = 2,
    BRIEF_ACTIVE = 4,
    BRIEF_PERF_STANDBY = 8,
    BRIEF_REMOVED = 16,
    BRIEF_LEADS = 32,
    BRIEF_NO_QUORUM = 64,
    BRIEF_WAITS = 128,
};

void node_brief_publish(struct node *n)
{
    struct node_brief b = node_brief_of(&n->status);
    atomic_store(&n->brief,
                 (b.initialized ? BRIEF_INITIALIZED : 0u) | (b.sealed ? BRIEF_SEALED : 0u) |
                     (b.active ? BRIEF_ACTIVE : 0u) | (b.perf_standby ? BRIEF_PERF_STANDBY : 0u) |
                     (b.removed ? BRIEF_REMOVED : 0u) | (b.leads ? BRIEF_LEADS : 0u) |
                     (b.no_quorum ? BRIEF_NO_QUORUM : 0u) | (b.waits ? BRIEF_WAITS : 0u));
}

struct node_brief node_brief_get(const struct node *node)
{
    unsigned bits = atomic_load(&node->brief);
    return (struct node_brief){
        .initialized = (bits & BRIEF_INITIALIZED) != 0,
        .sealed = (bits & BRIEF_SEALED) != 0,
        .active = (bits & BRIEF_ACTIVE) != 0,
        .perf_standby = (bits & BRIEF_PERF_STANDBY) != 0,
        .removed = (bits & BRIEF_REMOVED) != 0,
        .leads = (bits & BRIEF_LEADS) != 0,
        .no_quorum = (bits & BRIEF_NO_QUORUM) != 0,
        .waits = (bits & BRIEF_WAITS) != 0,
    };
}

void node_status_get(struct node *node, struct node_status *ret_status)
{
    pthread_mutex_lock(&node->lock);
    *ret_status = node->status;
    pthread_mutex_unlock(&node->lock);
}
