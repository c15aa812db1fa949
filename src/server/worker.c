/* A worker: a thread that serves requests, with its loop, listeners, HTTP client, state and router.
 */
#include "base/mem.h"
#include "base/trace.h"
#include "crypto/tls.h"
#include "http/client.h"
#include "loop/loop.h"
#include "server/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bounds for unauthenticated peers of the cluster port. The bodies of their requests are so short
 * that they need no budget. */
enum {
    UNAUTHENTICATED_MAX = 32,
    UNAUTHENTICATED_SHARE = 8, /* connections of one address */
    UNAUTHENTICATED_BODY_MAX = 16 * 1024,
    UNAUTHENTICATED_PATIENCE_MS = 10000,
};

enum {
    UNREAD_PART_MIN = 1024 * 1024, /* least memory of a worker for replies that wait */
    WAITS_MAX = 4096,              /* requests of a plain standby that wait on the active node */
    IDLE_LOOK_MS = 10,             /* while draining */
};

static uint32_t ms_of(int64_t s)
{
    ASSERT(s >= 0);
    return (uint32_t)MIN(s, (int64_t)UINT32_MAX / 1000) * 1000;
}

static void limits_of(const struct config_listener *from, struct http_limits *to)
{
    *to = http_limits_default;
    if (from->max_request_bytes != 0)
        to->body_bytes_max = from->max_request_bytes;
    if (from->max_header_bytes != 0)
        to->header_bytes_max = (size_t)from->max_header_bytes;
    if (from->max_connections != 0)
        to->connections_max = (size_t)from->max_connections;
    if (from->max_connections_per_address != 0)
        to->connections_share = (size_t)from->max_connections_per_address;
    if (from->header_timeout_s != 0)
        to->header_ms = ms_of(from->header_timeout_s);
    if (from->idle_timeout_s != 0)
        to->idle_ms = ms_of(from->idle_timeout_s);
    to->request_ms = ms_of(from->request_timeout_s);
}

/* Set the proxies whose headers name the client. */
static void proxies_of(const struct config_listener *from, struct listener *to)
{
    const char *mode = from->proxy_protocol_behavior;
    to->proxy = (struct http_proxy){
        .mode = strcmp(mode, "use_always") == 0         ? HTTP_PROXY_USE
                : strcmp(mode, "allow_authorized") == 0 ? HTTP_PROXY_ALLOW
                : mode[0] != '\0'                       ? HTTP_PROXY_DENY
                                                        : HTTP_PROXY_OFF,
        .authorized = from->proxies,
        .n = from->proxy_protocol_authorized_addrs.n,
    };
    to->client = (struct client_rule){
        .authorized = from->forwarders,
        .n = from->x_forwarded_for_authorized_addrs.n,
        .hop_skips = from->x_forwarded_for_hop_skips,
        .reject_not_authorized = from->x_forwarded_for_reject_not_authorized,
        .reject_not_present = from->x_forwarded_for_reject_not_present,
    };
}

/* Find the dialects of the APIs that the listener serves. */
static enum status choose_apis(struct worker *w, const struct config_listener *config,
                               struct listener *listener)
{
    const struct field_strings *apis = &config->apis;
    size_t unknown = 0;
    if (!apis->given)
        return ST_OK;
    if (router_choose(w->router, apis->items, apis->n, &listener->dialects, &unknown) != ST_OK) {
        reason_set(&w->reason, "listener %s: apis: this server has no API \"%.64s\"",
                   config->address, apis->items[unknown]);
        return ST_INVALID;
    }
    listener->handler.dialects = &listener->dialects;
    return ST_OK;
}

static enum status listen_on(struct worker *w, unsigned i)
{
    ASSERT(i < w->server->config->n_listeners);
    const struct config_listener *config = &w->server->config->listeners[i];
    struct sockaddr_storage address;
    struct http_limits limits;
    limits_of(config, &limits);
    TRY(http_address_parse(config->address, &address, &w->reason));
    proxies_of(config, &w->listeners[i]);
    w->listeners[i].handler =
        (struct front_http){.worker = w->router,
                            .forwarder = &w->forwarder,
                            .open_metrics = config->unauthenticated_metrics,
                            .closed_ceremonies = config->authenticated_ceremonies,
                            .client = &w->listeners[i].client,
                            .require_request_header = config->require_request_header};
    TRY(choose_apis(w, config, &w->listeners[i]));
    struct http_server_options options = {
        .address = (const struct sockaddr *)&address,
        .exclusive = w == &w->server->workers[0],
        .tls = w->server->tls[i],
        .handler = &front_http_handler,
        .ctx = &w->listeners[i].handler,
        .limits = &limits,
        .budget = &w->server->client_bodies,
        .all_conns = &w->server->conns,
        .unwritten = &w->for_clients,
        .proxy = &w->listeners[i].proxy,
        .forwarders = config->forwarders,
        .n_forwarders = config->x_forwarded_for_authorized_addrs.n,
    };
    struct reason why = {{0}};
    enum status st = http_server_start(w->env, &options, &w->listeners[i].http, &why);
    if (st != ST_OK)
        reason_set(&w->reason, "listener %s: %s", config->address,
                   why.text[0] != '\0' ? why.text : status_text(st));
    return st;
}

static bool from_member(const struct front_http *http, const struct http_request *req,
                        char ret_name[static MESH_NAME_MAX])
{
    const struct listener *listener = CONTAINER_OF(http, struct listener, handler);
    const struct worker *w = CONTAINER_OF(listener, struct worker, listeners[LISTENER_CLUSTER]);
    struct mesh_identity identity;
    struct tls_peer peer;
    bool member = http_peer_cert(req, &peer) == ST_OK && peer.verified &&
                  mesh_uri_parse(peer.uri, &identity) == ST_OK &&
                  node_is_member(w->server->node, identity.name);
    if (member)
        memcpy(ret_name, identity.name, MESH_NAME_MAX);
    return member;
}

/* Start the listener of unauthenticated peers. This listener serves only join requests and the
 * activation of DR secondaries, and its limits are low. */
static enum status serve_unauthenticated(struct worker *w)
{
    static const char *const only[] = {"sys/storage/raft/bootstrap/join",
                                       "sys/replication/dr/primary/bootstrap", NULL};
    struct listener *unauthenticated = &w->listeners[LISTENER_UNAUTHENTICATED];
    struct http_limits limits = http_limits_default;
    unauthenticated->handler =
        (struct front_http){.worker = w->router, .forwarder = &w->forwarder, .only = only};
    limits.connections_max = UNAUTHENTICATED_MAX;
    limits.connections_share = UNAUTHENTICATED_SHARE;
    limits.body_bytes_max = UNAUTHENTICATED_BODY_MAX;
    limits.header_ms = limits.idle_ms = UNAUTHENTICATED_PATIENCE_MS;
    struct http_server_options options = {.handler = &front_http_handler,
                                          .ctx = &unauthenticated->handler,
                                          .limits = &limits,
                                          .unwritten = &w->for_clients};
    return http_server_start(w->env, &options, &unauthenticated->http, &w->reason);
}

static enum status open_state(struct worker *w)
{
    struct node *node = w->server->node;
    w->log = state_log_of(node_rlog(node), node_env(node));
    return state_new(w->env, &w->log, node_barrier(node), &w->state);
}

/* Each worker has its part of the node's memory for replies: a worker closes its own connections
 * alone. */
static enum status bound_replies(struct worker *w)
{
    const struct server *s = w->server;
    uint64_t part = MAX(s->config->unread_bytes_max / s->n_wanted, (uint64_t)UNREAD_PART_MIN);
    TRY(http_unwritten_init(&w->for_clients, w->env, (size_t)part));
    return http_unwritten_init(&w->for_nodes, w->env, (size_t)part);
}

static enum status worker_serve(struct worker *w)
{
    struct server *s = w->server;
    ASSERT(s->config->n_listeners <= CONFIG_LISTENERS_MAX);
    TRY(bound_replies(w));
    if (s->ready)
        TRY(open_state(w));
    TRY(router_worker_new(&s->router, w->env, w->state, &w->router));
    s->n_begun += w->state != NULL;
    TRY(http_client_new(w->env, &w->client));
    TRY(http_client_new(w->env, &w->waits));
    struct http_client_limits waits = http_client_limits_default;
    waits.connections_max = WAITS_MAX;
    http_client_limit(w->waits, &waits);
    w->forwarder = (struct forwarder){
        .node = s->node, .client = w->client, .waits = w->waits, .streams = &s->streams};
    struct listener *cluster = &w->listeners[LISTENER_CLUSTER];
    cluster->handler =
        (struct front_http){.worker = w->router, .peers = true, .is_member = from_member};
    struct http_limits limits = http_limits_default;
    limits.idle_ms = UINT32_MAX / 2; /* the HTTP client of the other node decides when to close */
    for (unsigned i = 0; i < s->config->n_listeners;
         i++) /* a forwarded body may be as long as any listener allows */
        limits.body_bytes_max =
            MAX(limits.body_bytes_max, s->config->listeners[i].max_request_bytes);
    struct http_server_options options = {.handler = &front_http_handler,
                                          .ctx = &cluster->handler,
                                          .limits = &limits,
                                          .budget = &s->cluster_bodies,
                                          .unwritten = &w->for_nodes};
    TRY(http_server_start(w->env, &options, &cluster->http, &w->reason));
    TRY(serve_unauthenticated(w));
    for (unsigned i = 0; i < s->config->n_listeners; i++)
        TRY(listen_on(w, i));
    trail_watch(w);
    reseal_watch(w);
    return ST_OK;
}

static void *thread_main(void *arg)
{
    struct worker *w = arg;
    loop_run(w->env);
    return NULL;
}

/* Release a worker whose thread has not begun or has ended: no other thread uses the env. */
static void release(struct worker *w)
{
    for (unsigned i = 0; i < ARRAY_LEN(w->listeners); i++)
        http_server_free(w->listeners[i].http);
    http_unwritten_done(&w->for_clients);
    http_unwritten_done(&w->for_nodes);
    router_worker_free(w->router);
    http_client_free(w->client);
    http_client_free(w->waits);
    state_free(w->state);
    loop_free(w->env);
    w->env = NULL;
}

static void on_waits_closed(void *ctx);

/* The replica may go when the router asks it for nothing any more. */
static void on_idle_timer(struct env_timer *timer)
{
    on_waits_closed(CONTAINER_OF(timer, struct worker, idle_timer));
}

static void on_waits_closed(void *ctx)
{
    struct worker *w = ctx;
    ASSERT(w->resealing || router_worker_running(w->router) == 0);
    if (w->resealing || !router_worker_idle(w->router)) {
        w->idle_timer = (struct env_timer){.fire = on_idle_timer};
        env_timer_set(w->env, &w->idle_timer, env_mono_ms(w->env) + IDLE_LOOK_MS);
        return;
    }
    if (w->state != NULL)
        state_close(w->state); /* the node stops next, and a renewal of keys may end after it */
    if (sem_post(&w->drained) != 0)
        abort(); /* cannot fail: the semaphore counts to one */
}

static void on_client_closed(void *ctx)
{
    struct worker *w = ctx;
    ASSERT(w->draining == 0);
    http_client_close(w->waits, on_waits_closed, w);
}

static void on_drained(void *ctx)
{
    struct worker *w = ctx;
    ASSERT(w->draining > 0);
    if (--w->draining == 0)
        http_client_close(w->client, on_client_closed, w);
}

static void on_drain(struct env_task *task)
{
    struct worker *w = CONTAINER_OF(task, struct worker, drain_task);
    ASSERT(w->draining == 0); /* a worker drains once */
    trail_unwatch(w);
    reseal_unwatch(w);
    router_worker_leave(w->router);
    for (unsigned i = 0; i < ARRAY_LEN(w->listeners); i++)
        w->draining += w->listeners[i].http != NULL;
    for (unsigned i = 0; i < ARRAY_LEN(w->listeners); i++)
        if (w->listeners[i].http != NULL)
            http_server_drain(w->listeners[i].http, DRAIN_MS, on_drained, w);
}

enum status worker_start(struct server *server, struct worker *w, struct reason *reason)
{
    w->server = server;
    TRY(loop_new(NULL, &w->env));
    bool ready = sem_init(&w->drained, 0, 0) == 0 && sem_init(&w->flushed, 0, 0) == 0;
    enum status st = ready ? worker_serve(w) : ST_IO;
    if (st == ST_OK && pthread_create(&w->thread, NULL, thread_main, w) != 0)
        st = ST_NOMEM;
    if (st == ST_OK)
        return ST_OK;
    *reason = w->reason;
    if (reason->text[0] == '\0')
        reason_set(reason, "%s", status_text(st));
    return st; /* nothing is released: the process ends now */
}

static void on_begin(struct env_task *task)
{
    struct worker *w = CONTAINER_OF(task, struct worker, begin_task);
    struct node_options *o = &w->server->node_options;
    struct reason reason;
    enum status st = open_state(w);
    if (st == ST_OK) {
        router_worker_begin(w->router, w->state);
        w->server->n_begun++;
        return;
    }
    reason_set(&reason, "a worker cannot begin: %s", status_text(st));
    o->failed(o->ctx, NODE_NOT_STARTED, &reason);
}

void worker_begin(struct worker *w)
{
    w->begin_task = (struct env_task){.run = on_begin};
    env_post(w->env, &w->begin_task);
}

void worker_drain(struct worker *w)
{
    w->drain_task = (struct env_task){.run = on_drain};
    env_post(w->env, &w->drain_task);
    while (sem_wait(&w->drained) != 0)
        ASSERT(errno == EINTR);
}

static void on_flush(struct env_task *task)
{
    struct worker *w = CONTAINER_OF(task, struct worker, flush_task);
    if (sem_post(&w->flushed) != 0)
        abort(); /* cannot fail: the semaphore counts to one */
}

void worker_flush(struct worker *w)
{
    w->flush_task = (struct env_task){.run = on_flush};
    env_post(w->env, &w->flush_task);
    while (sem_wait(&w->flushed) != 0)
        ASSERT(errno == EINTR);
}

void worker_stop(struct worker *w)
{
    loop_stop(w->env);
    if (pthread_join(w->thread, NULL) != 0)
        abort(); /* the thread was started and is joined once */
    release(w);
}

struct adopted {
    struct env_task task;
    struct worker *worker;
    struct mesh_http connection;
};

static void on_adopt(struct env_task *task)
{
    struct adopted *a = CONTAINER_OF(task, struct adopted, task);
    bool unauthenticated = a->connection.peer_name[0] == '\0';
    struct http_server *http =
        a->worker->listeners[unauthenticated ? LISTENER_UNAUTHENTICATED : LISTENER_CLUSTER].http;
    enum status st = http_server_adopt(http, a->connection.fd, a->connection.tls,
                                       buf_bytes(&a->connection.early));
    if (st != ST_OK)
        trace(unauthenticated ? TRACE_DEBUG : TRACE_WARN, "main",
              "a connection of %s was not taken over: %s", a->connection.peer_name,
              status_text(st));
    buf_done(&a->connection.early);
    mem_free(a);
}

void worker_adopt(struct worker *w, struct mesh_http connection)
{
    struct adopted *a = mem_zalloc(sizeof *a);
    if (a == NULL) {
        mesh_http_drop(&connection);
        return;
    }
    *a = (struct adopted){.task = {.run = on_adopt}, .worker = w, .connection = connection};
    env_post(w->env, &a->task);
}
