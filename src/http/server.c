/* The server: listening, admission, draining, counting. */
#include "http/server.h"
#include "base/mem.h"
#include "base/plant.h"
#include "crypto/tls.h"
#include "http/upgrade.h"
#include "loop/loop.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024, DRAIN_ACCEPT_MAX = 1024, ACCEPT_AGAIN_MS = 20 };

void http_server_move(struct http_server *server, struct http_conn *c, bool idle)
{
    list_remove(&c->link);
    list_push(idle ? &server->idle : &server->active, &c->link);
}

/* Whether there is room for another connection; closes the one that was idle longest if needed. */
static bool server_admits(struct http_server *s)
{
    if (s->n_conns < s->limits.connections_max)
        return true;
    if (list_empty(&s->idle))
        return false;
    http_conn_close(CONTAINER_OF(s->idle.next, struct http_conn, link));
    tally_add(&s->tally.evicted, 1);
    return true;
}

static enum status server_conn(struct http_server *s, struct http_conn **ret_conn)
{
    if (!server_admits(s))
        return ST_BUSY;
    TRY(http_conn_new(s, ret_conn));
    tally_add(&s->tally.accepted, 1);
    tally_set(&s->tally.open, s->n_conns);
    return ST_OK;
}

void http_server_uncount(struct http_server *server, struct http_conn *c)
{
    if (c->counted.len != 0 && c->counted_here)
        http_budget_give(&server->conns, &c->counted, 1);
    if (c->counted.len != 0 && server->all_conns != NULL)
        http_budget_give(server->all_conns, &c->counted, 1);
    c->counted.len = 0;
}

/* Close the connection of a client that was idle longest. False: none is idle. */
static bool server_evict(struct http_server *s, const struct ip *client)
{
    LIST_FOR (item, &s->idle) {
        struct http_conn *c = CONTAINER_OF(item, struct http_conn, link);
        if (c->counted.len == 0 || !http_budget_same(&c->counted, client))
            continue;
        http_conn_close(c);
        tally_add(&s->tally.evicted, 1);
        return true;
    }
    return false;
}

/* Take a connection of both budgets, or of neither. */
static bool server_take_one(struct http_server *s, const struct ip *client)
{
    if (s->conns.slots != NULL && !http_budget_take(&s->conns, client, 1))
        return false;
    if (s->all_conns == NULL || http_budget_take(s->all_conns, client, 1))
        return true;
    if (s->conns.slots != NULL)
        http_budget_give(&s->conns, client, 1);
    return false;
}

/* Count a connection for its client. False: the client has too many connections, all of them busy.
 */
static bool server_counts(struct http_server *s, struct http_conn *c)
{
    struct ip client;
    ASSERT(c->counted.len == 0);
    bool counts = (s->conns.slots != NULL || s->all_conns != NULL) && http_peer_direct(c, &client);
    if (!counts || http_peer_is_proxy(s, &client))
        return true;
    c->counted_here = s->conns.slots != NULL;
    bool taken =
        server_take_one(s, &client) || (server_evict(s, &client) && server_take_one(s, &client));
    if (taken)
        c->counted = client;
    else
        tally_add(&s->tally.rejected, 1);
    return taken;
}

/* Serve a connection whose socket is in place. */
static void server_open(struct http_server *s, struct http_conn *c)
{
    struct tls_conn *tls = NULL;
    if (s->tls != NULL && tls_conn_new(s->tls, NULL, &tls) != ST_OK)
        http_conn_close(c);
    else
        http_conn_open(c, tls, false);
}

/* libuv stops listening until a connection that was not taken is taken. */
static void server_accept(struct http_server *s)
{
    struct http_conn *c = NULL;
    enum status st = server_conn(s, &c);
    s->accept_waits = st != ST_OK;
    /* try again after a time: no event tells when memory is free again */
    if (st != ST_OK && st != ST_BUSY)
        env_timer_set(s->env, &s->accept_timer, env_mono_ms(s->env) + ACCEPT_AGAIN_MS);
    if (st != ST_OK)
        return;
    ASSERT(!s->accept_waits);
    bool taken = uv_accept((uv_stream_t *)&s->listener, (uv_stream_t *)&c->wire.tcp) == 0;
    if (!taken || !server_counts(s, c))
        http_conn_close(c);
    else
        server_open(s, c);
}

static void server_on_connection(uv_stream_t *listener, int err)
{
    struct http_server *s = listener->data;
    if (err != 0) /* out of descriptors: libuv has already dropped the connection */
        tally_add(&s->tally.rejected, 1);
    else
        server_accept(s);
}

static void server_accept_again(struct http_server *s)
{
    if (s->accept_waits && !s->draining)
        server_accept(s);
}

static void server_on_accept_timer(struct env_timer *timer)
{
    server_accept_again(CONTAINER_OF(timer, struct http_server, accept_timer));
}

static void server_drained(struct env_task *task)
{
    struct http_server *s = CONTAINER_OF(task, struct http_server, drain_task);
    env_timer_stop(s->env, &s->drain_timer);
    env_timer_stop(s->env, &s->accept_timer);
    s->on_drained(s->done_ctx); /* last touch: the owner may free the server */
}

void http_server_less(struct http_server *server)
{
    if (server->n_conns < server->limits.connections_max)
        server_accept_again(server);
    bool empty = server->n_conns == 0 && list_empty(&server->exchanges) && !server->listening;
    if (!server->draining || server->drained || !empty)
        return;
    server->drained = true;
    server->drain_task.run = server_drained;
    env_post(server->env, &server->drain_task);
}

/* Starting */

static enum status socket_status(int uv_error, struct reason *reason)
{
    reason_set(reason, "%s", uv_strerror(uv_error));
    return uv_error == UV_EADDRINUSE ? ST_EXISTS : loop_status(uv_error);
}

static socklen_t address_len(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

/* Check that an address is free: a bind without SO_REUSEPORT fails if any program listens there.
 * With SO_REUSEPORT, two programs of one user would share an address unnoticed. */
static enum status address_free(const struct sockaddr *address, struct reason *reason)
{
    int on = 1;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return socket_status(-errno, reason);
    bool ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
              bind(fd, address, address_len(address)) == 0;
    int err = errno;
    (void)close(fd); /* nothing was sent, so a failed close loses nothing */
    return ok ? ST_OK : socket_status(-err, reason);
}

static int server_listen(struct http_server *s, const struct sockaddr *address)
{
    int fd = -1, on = 1;
    int err = uv_fileno((uv_handle_t *)&s->listener, &fd);
    if (err == 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0)
        err = -errno;
    if (err == 0)
        err = uv_tcp_bind(&s->listener, address, 0);
    if (err == 0)
        err = uv_listen((uv_stream_t *)&s->listener, BACKLOG, server_on_connection);
    return err;
}

static void server_release(struct http_server *s)
{
    for (struct list *item; (item = list_pop(&s->spare)) != NULL;)
        http_exchange_free(CONTAINER_OF(item, struct http_exchange, link));
    tls_ctx_unref(s->tls);
    http_scratch_done(&s->scratch);
    http_budget_done(&s->conns);
    mem_free(s);
}

static void server_on_failed(uv_handle_t *listener)
{
    server_release(listener->data);
}

static enum status server_bind(struct http_server *s, const struct http_server_options *options,
                               struct reason *reason)
{
    struct sockaddr_storage bound;
    int len = sizeof bound;
    int err = uv_tcp_init_ex(loop_uv(s->env), &s->listener, options->address->sa_family);
    if (err != 0) {
        server_release(s);
        return socket_status(err, reason);
    }
    s->listener.data = s;
    err = server_listen(s, options->address);
    if (err == 0)
        err = uv_tcp_getsockname(&s->listener, (struct sockaddr *)&bound, &len);
    if (err != 0) {
        uv_close((uv_handle_t *)&s->listener, server_on_failed);
        return socket_status(err, reason);
    }
    s->listening = true;
    s->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                : ((struct sockaddr_in *)&bound)->sin_port);
    return ST_OK;
}

/* Make the counts of connections for each client. Without a listener they are made only if the
 * limits name a share: connections of other nodes are adopted and have no share. */
static enum status server_share(struct http_server *s, bool listens)
{
    size_t total = s->limits.connections_max, share = s->limits.connections_share;
    if (!listens && share == 0)
        return ST_OK;
    const struct http_budget_options options = {
        .total = total,
        .share = MIN(share != 0 ? share : (total + 1) / 2, total),
        .clients_max = total,
    };
    return http_budget_init(&s->conns, s->env, &options);
}

enum status http_server_start(struct env *env, const struct http_server_options *options,
                              struct http_server **ret_server, struct reason *reason)
{
    ASSERT(options->handler != NULL && options->handler->request != NULL);
    if (options->address != NULL && options->exclusive)
        TRY(address_free(options->address, reason));
    struct http_server *s = mem_zalloc(sizeof *s);
    if (s == NULL)
        return ST_NOMEM;
    s->env = env;
    s->tls = options->tls != NULL ? tls_ctx_ref(options->tls) : NULL;
    s->handler = options->handler;
    s->ctx = options->ctx;
    s->limits = options->limits != NULL ? *options->limits : http_limits_default;
    s->accept_timer.fire = server_on_accept_timer;
    s->proxy = options->proxy;
    s->budget = options->budget;
    s->all_conns = options->all_conns;
    s->unwritten = options->unwritten;
    s->forwarders = options->forwarders;
    s->n_forwarders = options->n_forwarders;
    http_scratch_init(&s->scratch);
    list_init(&s->idle);
    list_init(&s->active);
    list_init(&s->exchanges);
    list_init(&s->spare);
    enum status st = server_share(s, options->address != NULL);
    if (st != ST_OK) {
        server_release(s);
        return st;
    }
    if (options->address != NULL)
        TRY(server_bind(s, options, reason)); /* server_bind releases s when it fails */
    *ret_server = s;
    return ST_OK;
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

static enum status server_take(struct http_server *s, int fd, struct http_conn **ret_conn)
{
    struct http_conn *c = NULL;
    enum status st = s->drained ? ST_CLOSED : server_conn(s, &c);
    if (st == ST_OK) {
        st = loop_status(uv_tcp_open(&c->wire.tcp, fd));
        if (st == ST_OK && !server_counts(s, c)) {
            http_conn_close(c); /* closes fd */
            return ST_BUSY;
        }
        if (st == ST_OK) {
            *ret_conn = c;
            return ST_OK;
        }
        http_conn_close(c);
    }
    (void)close(fd); /* the socket is not shared with anyone */
    return st;
}

/* Serve the connection of `taken`; `early` is its first input. */
static enum status http_server_resume(struct http_server *server, const struct http_taken *taken,
                                      struct bytes early)
{
    struct http_conn *c = NULL;
    enum status st = server_take(server, taken->fd, &c);
    if (st != ST_OK) {
        tls_conn_free(taken->tls);
        return st;
    }
    c->client = taken->client;
    c->client_port = taken->client_port;
    buf_add(&c->in, early);
    st = buf_status(&c->in);
    if (st != ST_OK) {
        tls_conn_free(taken->tls);
        http_conn_close(c);
        return st;
    }
    http_conn_open(c, taken->tls, true);
    http_conn_go_on(c);
    return ST_OK;
}

enum status http_server_take_back(struct http_server *server, const struct http_taken *taken)
{
    return http_server_resume(server, taken, buf_bytes(&taken->early));
}

enum status http_server_adopt(struct http_server *server, int fd, struct tls_conn *tls,
                              struct bytes early)
{
    return http_server_resume(server, &(struct http_taken){.fd = fd, .tls = tls}, early);
}

/* Draining */

static void server_close_all(struct list *conns)
{
    LIST_FOR_SAFE (item, after, conns)
        http_conn_close(CONTAINER_OF(item, struct http_conn, link));
}

static void server_on_patience(struct env_timer *timer)
{
    struct http_server *s = CONTAINER_OF(timer, struct http_server, drain_timer);
    server_close_all(&s->active);
    server_close_all(&s->idle);
}

/* Accept the connections in the backlog: closing the listener would reset them. */
static void server_accept_rest(struct http_server *s)
{
    int listener = -1;
    if (uv_fileno((uv_handle_t *)&s->listener, &listener) != 0)
        return;
    for (int i = 0; i < DRAIN_ACCEPT_MAX; i++) {
        struct http_conn *c = NULL;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (server_take(s, fd, &c) == ST_OK)
            server_open(s, c);
    }
}

static void server_on_unlistened(uv_handle_t *listener)
{
    struct http_server *s = listener->data;
    s->listening = false;
    http_server_less(s);
}

void http_server_drain(struct http_server *server, uint32_t patience_ms,
                       void (*done)(void *done_ctx), void *done_ctx)
{
    ASSERT(!server->draining && done != NULL);
    server->draining = true;
    server_close_all(&server->idle);
    if (planted(PLANT_DRAIN_CUTS))
        server_close_all(&server->active);
    if (server->listening) {
        server_accept_rest(server);
        uv_close((uv_handle_t *)&server->listener, server_on_unlistened);
    }
    server->on_drained = done;
    server->done_ctx = done_ctx;
    server->drain_timer.fire = server_on_patience;
    env_timer_set(server->env, &server->drain_timer, env_mono_ms(server->env) + patience_ms);
    http_server_less(server);
}

void http_server_free(struct http_server *server)
{
    if (server == NULL)
        return;
    ASSERT(server->drained && server->n_conns == 0);
    server_release(server);
}

void http_server_counters(const struct http_server *server, struct http_counters *ret_counters)
{
#define READ(counter) tally_get(&server->tally.counter)
    *ret_counters = (struct http_counters){
        .connections_accepted = READ(accepted),
        .connections_open = READ(open),
        .connections_evicted = READ(evicted),
        .handshakes_failed = READ(handshakes_failed),
        .timeouts = READ(timeouts),
        .rejected = READ(rejected),
        .requests = READ(requests),
        .bytes_in = READ(bytes_in),
        .bytes_out = READ(bytes_out),
    };
    for (size_t i = 0; i < ARRAY_LEN(ret_counters->replies); i++)
        ret_counters->replies[i] = READ(replies[i]);
#undef READ
}
