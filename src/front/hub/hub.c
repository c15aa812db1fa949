#include "front/hub/hub.h"
#include "base/mem.h"
#include "base/trace.h"
#include "crypto/tls.h"
#include "front/hub/hub_internal.h"
#include "text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 1000, LINK_SILENT_MS = 45000 };

struct hub hub = {.lock = PTHREAD_MUTEX_INITIALIZER, .replied = PTHREAD_COND_INITIALIZER};

static void wake(void)
{
    uint64_t one = 1;
    (void)!write(hub.wake, &one, sizeof one); /* a full counter wakes as well */
}

/* Calls */

/* A message of an agent: the reply to a call, or {}. */
static void on_link_message(void *ctx, struct bytes message)
{
    struct peer *peer = ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    ASSERT(peer->kind == PEER_LINK && peer->websocket != NULL);
    ASSERT(hub.begun);
    const struct text_value *said;
    int64_t id = 0, http = 0;
    peer->due_ms = hub_now_ms() + LINK_SILENT_MS;
    if (text_json_parse(&arena, message, &said, NULL) != ST_OK || text_get(said, "ID") == NULL ||
        text_to_int(text_get(said, "ID"), &id) != ST_OK ||
        text_to_int(text_get(said, "HTTP"), &http) != ST_OK)
        return;
    LIST_FOR (item, &hub.waits) {
        struct hub_wait *wait = CONTAINER_OF(item, struct hub_wait, link);
        if (wait->id != (uint64_t)id || wait->peer != peer)
            continue;
        const struct text_value *body = text_get(said, "Body");
        struct text_writer w = {.out = &wait->body, .plain = true};
        if (body != NULL && body->kind == TEXT_STRING)
            buf_add(&wait->body, body->text);
        else
            text_put_value(&w, body);
        wait->http = http >= 200 && http <= 599 ? (int)http : 500;
        wait->done = true;
        (void)pthread_cond_broadcast(&hub.replied); /* the lock is held */
    }
}

void hub_take(struct peer *peer, struct bytes plain)
{
    ASSERT(!peer->dead);
    ASSERT(plain.len != 0);
    switch (peer->kind) {
    case PEER_SAY: return;
    case PEER_LINK:
        if (websocket_feed(peer->websocket, plain) != ST_OK)
            peer->ended = true;
        return;
    case PEER_GREET:
        buf_add(&peer->in, plain);
        hub_greet_take(peer);
        return;
    default: break;
    }
    if (peer->other != NULL)
        peer_send(peer->other, plain);
    else
        buf_add(&peer->in, plain);
}

/* Take a peer out of everything that names it, and free it. */
static void peer_free(struct peer *peer)
{
    ASSERT(peer->dead);
    ASSERT(hub.n_peers > 0);
    LIST_FOR (item, &hub.waits) {
        struct hub_wait *wait = CONTAINER_OF(item, struct hub_wait, link);
        if (wait->peer == peer)
            wait->peer = NULL;
    }
    (void)pthread_cond_broadcast(&hub.replied); /* calls of a link that ended look again */
    peer_finish(peer);
    if (peer->greeted != NULL)
        peer->greeted(peer->ctx, ST_CLOSED, NULL, (struct bytes){0});
    list_remove(&peer->link);
    hub.n_peers--;
    http_taken_done(&peer->taken);
    websocket_free(peer->websocket);
    buf_done(&peer->in);
    buf_done(&peer->out);
    buf_done(&peer->wire);
    mem_free(peer);
}

/* The time of a peer is over. */
static void hub_expire(struct peer *peer)
{
    ASSERT(peer->due_ms != 0);
    static const struct bytes text = {(const uint8_t *)"the node did not open the session", 33};
    if (peer->kind == PEER_CLIENT && peer->other == NULL) {
        websocket_put_close(&peer->out, WEBSOCKET_INTERNAL, text);
        peer_finish(peer);
        return;
    }
    peer->dead = true;
}

/* Look after one peer. */
static void hub_serve(struct peer *peer, short events)
{
    ASSERT(hub.begun);
    ASSERT(peer->other == NULL || peer->other->other == peer);
    if ((events & (POLLERR | POLLNVAL)) != 0)
        peer->dead = true;
    if (peer->fresh && !peer->dead)
        peer_begin(peer);
    peer->fresh = false;
    if ((events & POLLIN) != 0 && !peer->dead)
        peer_read(peer);
    if ((events & POLLHUP) != 0 && (events & POLLIN) == 0)
        peer->ended = true;
    if (peer->due_ms != 0 && hub_now_ms() >= peer->due_ms)
        hub_expire(peer);
    if (!peer->dead)
        peer_flush(peer);
    if (peer->other != NULL && !peer->other->dead)
        peer_flush(peer->other);
    bool written = peer_pending(peer) == 0;
    if (peer->kind == PEER_SAY && written && (peer->due_ms == 0 || peer->ended))
        peer->dead = true;
    if (peer->kind == PEER_SAY && written && peer->taken.fd >= 0 && !peer->ended)
        (void)shutdown(peer->taken.fd, SHUT_WR); /* the peer reads the end, and closes */
    if (peer->ended && peer->kind != PEER_SAY)
        peer_finish(peer);
}

/* Fill the array for poll; the order is that of the list. */
static unsigned hub_fill(struct pollfd *fds)
{
    unsigned n = 0;
    ASSERT(hub.begun && hub.wake >= 0);
    ASSERT(hub.n_peers <= HUB_CONNECTIONS_MAX);
    fds[n++] = (struct pollfd){.fd = hub.wake, .events = POLLIN};
    LIST_FOR (item, &hub.peers) {
        const struct peer *peer = CONTAINER_OF(item, struct peer, link);
        short events = peer_wants(peer) ? POLLIN : 0;
        if (peer_pending(peer) != 0)
            events |= POLLOUT;
        fds[n++] = (struct pollfd){.fd = peer->taken.fd, .events = events};
    }
    return n;
}

static void *hub_run(void *ctx)
{
    static struct pollfd fds[HUB_CONNECTIONS_MAX + 1];
    (void)ctx;                           /* there is one hub */
    (void)pthread_mutex_lock(&hub.lock); /* a plain mutex, not held by this thread */
    for (;;) {
        unsigned n = hub_fill(fds);
        (void)pthread_mutex_unlock(&hub.lock);
        int got = poll(fds, n, POLL_MS);
        (void)pthread_mutex_lock(&hub.lock);
        uint64_t count;
        if (got > 0 && fds[0].revents != 0)
            (void)!read(hub.wake, &count, sizeof count); /* a counter that was read is 0 */
        unsigned i = 1;
        LIST_FOR (item, &hub.peers) {
            struct peer *peer = CONTAINER_OF(item, struct peer, link);
            short events = i < n && got >= 0 && fds[i].fd == peer->taken.fd ? fds[i].revents : 0;
            hub_serve(peer, events);
            i++;
        }
        struct list *next;
        for (struct list *item = hub.peers.next; item != &hub.peers; item = next) {
            struct peer *peer = CONTAINER_OF(item, struct peer, link);
            next = item->next;
            if (peer->dead)
                peer_free(peer);
        }
    }
    return NULL;
}

/* The process ends: the thread must not use what later handlers release. */
static void on_exit_stop(void)
{
    (void)pthread_mutex_lock(&hub.lock); /* kept for ever: the thread waits for it */
}

/* Start the thread. The lock is held. */
static bool hub_begin(void)
{
    pthread_t thread;
    if (hub.begun)
        return true;
    ASSERT(hub.n_peers == 0);
    list_init(&hub.peers);
    list_init(&hub.waits);
    hub.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hub.wake < 0 || atexit(on_exit_stop) != 0 ||
        pthread_create(&thread, NULL, hub_run, NULL) != 0)
        return false;
    (void)pthread_detach(thread); /* the thread ends with the process */
    hub.begun = true;
    return true;
}

static bool is_stranger(enum peer_kind kind)
{
    return kind == PEER_GREET || kind == PEER_SAY;
}

/* The oldest stranger gives way to a new one. The lock is held. */
static void hub_make_way(void)
{
    struct peer *oldest = NULL;
    unsigned n = 0;
    ASSERT(hub.begun);
    ASSERT(hub.n_peers <= HUB_CONNECTIONS_MAX);
    LIST_FOR (item, &hub.peers) {
        struct peer *peer = CONTAINER_OF(item, struct peer, link);
        if (peer->dead || !is_stranger(peer->kind))
            continue;
        oldest = oldest != NULL ? oldest : peer;
        n++;
    }
    ASSERT((n == 0) == (oldest == NULL));
    if (n >= HUB_STRANGERS_MAX)
        oldest->dead = true;
}

/* Add a connection, which says `accept` first. The lock is held. NULL: refused; the connection is
 * closed. */
static struct peer *hub_add(struct http_taken *taken, enum peer_kind kind, struct bytes accept)
{
    struct peer *peer = mem_zalloc(sizeof *peer);
    if (peer == NULL || !hub_begin() || hub.n_peers >= HUB_CONNECTIONS_MAX) {
        mem_free(peer);
        http_taken_done(taken);
        return NULL;
    }
    if (is_stranger(kind))
        hub_make_way();
    peer->kind = kind;
    peer->fresh = true;
    peer->taken = *taken;
    peer->taken.early = (struct buf){0};
    peer->in = taken->early;
    taken->early = (struct buf){0};
    peer_send(peer, accept);
    list_push(&hub.peers, &peer->link);
    hub.n_peers++;
    ASSERT(hub.n_peers <= HUB_CONNECTIONS_MAX);
    ASSERT(peer->taken.fd >= 0);
    return peer;
}

static struct peer *find(enum peer_kind kind, const char *node, const char *session)
{
    ASSERT(hub.begun);
    ASSERT(node != NULL);
    LIST_FOR (item, &hub.peers) {
        struct peer *peer = CONTAINER_OF(item, struct peer, link);
        bool same = session != NULL ? strcmp(peer->session, session) == 0 : true;
        if (peer->kind == kind && !peer->dead && !peer->ended && same &&
            strcmp(peer->node, node) == 0)
            return peer;
    }
    return NULL;
}

static void name(struct peer *peer, const char *node, const char *session)
{
    ASSERT(strlen(node) == HUB_ID_LEN);
    ASSERT(strlen(session) <= HUB_ID_LEN);
    (void)snprintf(peer->node, sizeof peer->node, "%s", node); /* a UUID */
    (void)snprintf(peer->session, sizeof peer->session, "%s", session);
}

void hub_say(struct http_taken *taken, struct bytes said)
{
    ASSERT(said.len != 0);
    (void)pthread_mutex_lock(&hub.lock);
    struct peer *peer = hub_add(taken, PEER_SAY, said);
    if (peer != NULL)
        peer->due_ms = hub_now_ms() + HUB_SAY_MS;
    wake();
    (void)pthread_mutex_unlock(&hub.lock);
}

void hub_link(struct http_taken *taken, struct bytes accept, const char *node)
{
    ASSERT(accept.len != 0);
    ASSERT(strlen(node) == HUB_ID_LEN);
    (void)pthread_mutex_lock(&hub.lock);
    struct peer *old = hub.begun ? find(PEER_LINK, node, NULL) : NULL;
    struct peer *peer = hub_add(taken, PEER_LINK, accept);
    if (old != NULL)
        old->ended = true;
    if (peer != NULL) {
        name(peer, node, "");
        peer->due_ms = hub_now_ms() + LINK_SILENT_MS;
        if (websocket_new(true, on_link_message, peer, &peer->websocket) != ST_OK ||
            websocket_feed(peer->websocket, buf_bytes(&peer->in)) != ST_OK)
            peer->dead = true;
        buf_done(&peer->in);
        trace(TRACE_INFO, "scheduler", "node %s opened its link", node);
    }
    wake();
    (void)pthread_mutex_unlock(&hub.lock);
}

/* Queue a message for a node; the lock is held. */
static enum status send_link(struct peer *link, const char *key, struct bytes value,
                             struct bytes body)
{
    ASSERT(link->kind == PEER_LINK && link->websocket != NULL);
    ASSERT(!link->dead);
    CLEANUP(buf_done) struct buf text = {0};
    buf_add_format(&text, "{%s%.*s,\"Body\":", key, (int)value.len, (const char *)value.data);
    buf_add(&text, body.len != 0 ? body : BYTES("{}"));
    buf_add(&text, BYTES("}"));
    TRY(buf_status(&text));
    return websocket_send(link->websocket, buf_bytes(&text));
}

void hub_open(struct http_taken *taken, struct bytes accept, const char *node, const char *session,
              struct bytes body)
{
    char quoted[HUB_ID_LEN + 3];
    ASSERT(strlen(session) == HUB_ID_LEN);
    ASSERT(body.len != 0 && body.data[0] == '{');
    (void)pthread_mutex_lock(&hub.lock);
    struct peer *client = hub_add(taken, PEER_CLIENT, accept);
    struct peer *link = client != NULL ? find(PEER_LINK, node, NULL) : NULL;
    if (client != NULL) {
        name(client, node, session);
        client->due_ms = hub_now_ms() + HUB_SESSION_WAIT_MS;
        int len = snprintf(quoted, sizeof quoted, "\"%s\"", session);
        if (link == NULL ||
            send_link(link, "\"Session\":", bytes_of(quoted, (size_t)len), body) != ST_OK) {
            websocket_put_close(&client->out, WEBSOCKET_POLICY, BYTES("No path to node"));
            peer_finish(client);
        }
    }
    wake();
    (void)pthread_mutex_unlock(&hub.lock);
}

/* The input of a peer before it was joined. */
static void pass_early(struct peer *from, struct peer *to)
{
    peer_send(to, buf_bytes(&from->in));
    buf_done(&from->in);
}

void hub_join(struct http_taken *taken, struct bytes accept, const char *node, const char *session)
{
    ASSERT(strlen(node) == HUB_ID_LEN);
    (void)pthread_mutex_lock(&hub.lock);
    struct peer *client = hub.begun ? find(PEER_CLIENT, node, session) : NULL;
    struct peer *own = hub_add(taken, PEER_NODE, accept);
    if (own != NULL && (client == NULL || client->other != NULL)) {
        own->dead = true;
    } else if (own != NULL) {
        name(own, node, session);
        own->other = client;
        client->other = own;
        client->due_ms = 0;
        pass_early(own, client);
        pass_early(client, own);
    }
    wake();
    (void)pthread_mutex_unlock(&hub.lock);
}

void hub_greet(struct http_taken *taken, struct bytes accept, hub_greeted *greeted, void *ctx)
{
    ASSERT(greeted != NULL);
    ASSERT(accept.len != 0);
    (void)pthread_mutex_lock(&hub.lock);
    struct peer *peer = hub_add(taken, PEER_GREET, accept);
    if (peer != NULL) {
        peer->greeted = greeted;
        peer->ctx = ctx;
        peer->due_ms = hub_now_ms() + HUB_SESSION_WAIT_MS;
        hub_greet_take(peer);
    } else {
        greeted(ctx, ST_BUSY, NULL, (struct bytes){0});
    }
    wake();
    (void)pthread_mutex_unlock(&hub.lock);
}

bool hub_has(const char *node)
{
    ASSERT(node != NULL);
    (void)pthread_mutex_lock(&hub.lock);
    bool has = hub.begun && find(PEER_LINK, node, NULL) != NULL;
    (void)pthread_mutex_unlock(&hub.lock);
    return has;
}

/* Wait until the call ends. The lock is held. */
static enum status await(struct hub_wait *wait, uint32_t wait_ms)
{
    struct timespec until;
    ASSERT(wait->id != 0);
    ASSERT(wait_ms != 0);
    (void)clock_gettime(CLOCK_REALTIME, &until); /* this clock exists */
    until.tv_sec += wait_ms / 1000 + 1;
    int rc = 0;
    while (!wait->done && wait->peer != NULL && rc == 0)
        rc = pthread_cond_timedwait(&hub.replied, &hub.lock, &until);
    if (wait->done)
        return ST_OK;
    return wait->peer == NULL ? ST_CLOSED : ST_TIMEOUT;
}

enum status hub_call(const char *node, const char *call, struct bytes body, uint32_t wait_ms,
                     int *ret_http, struct buf *ret_body)
{
    struct hub_wait wait = {.id = 0};
    ASSERT(call[0] != '\0');
    ASSERT(ret_http != NULL && ret_body != NULL);
    char text[96];
    enum status st = ST_NOT_FOUND;
    (void)pthread_mutex_lock(&hub.lock);
    struct peer *link = hub.begun ? find(PEER_LINK, node, NULL) : NULL;
    if (link != NULL) {
        wait.id = ++hub.last_id;
        wait.peer = link;
        list_push(&hub.waits, &wait.link);
        int len =
            snprintf(text, sizeof text, "%llu,\"Call\":\"%s\"", (unsigned long long)wait.id, call);
        st = send_link(link, "\"ID\":", bytes_of(text, (size_t)len), body);
        wake();
        if (st == ST_OK)
            st = await(&wait, wait_ms);
        list_remove(&wait.link);
    }
    (void)pthread_mutex_unlock(&hub.lock);
    *ret_http = wait.http;
    *ret_body = wait.body;
    return st;
}
