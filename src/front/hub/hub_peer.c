/* One connection of the hub: bytes in, bytes out, with or without TLS. */
#include "front/hub/hub_internal.h"

#include "crypto/tls.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 16 * 1024, TURN_READS = 8 };

uint64_t hub_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* this clock exists */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

size_t peer_pending(const struct peer *peer)
{
    size_t n = peer->out.len + peer->wire.len;
    return peer->websocket != NULL ? n + websocket_out(peer->websocket)->len : n;
}

bool peer_wants(const struct peer *peer)
{
    ASSERT(peer->kind == PEER_LINK || peer->websocket == NULL || peer->ended || peer->dead ||
           peer->kind == PEER_SAY);
    ASSERT(peer->other == NULL || peer->other->other == peer);
    if (peer->dead || peer->ended)
        return false;
    if (peer->kind == PEER_CLIENT || peer->kind == PEER_NODE)
        return peer->other != NULL && peer_pending(peer->other) < HUB_OUT_MAX;
    if (peer->kind == PEER_LINK) /* each ping of a node makes output */
        return peer_pending(peer) < HUB_OUT_MAX;
    return true;
}

void peer_finish(struct peer *peer)
{
    ASSERT(peer->other == NULL || peer->other->other == peer);
    ASSERT(peer->other != peer);
    if (peer->other != NULL) {
        peer->other->other = NULL;
        peer->other->kind = PEER_SAY;
        peer->other->due_ms = hub_now_ms() + HUB_SAY_MS;
        peer->other = NULL;
    }
    peer->kind = PEER_SAY;
    peer->due_ms = hub_now_ms() + HUB_SAY_MS;
}

void peer_send(struct peer *peer, struct bytes text)
{
    ASSERT(text.len == 0 || text.data != NULL);
    buf_add(&peer->out, text);
    if (buf_status(&peer->out) != ST_OK)
        peer->dead = true;
}

/* Encrypt the output. */
static enum status seal(struct peer *peer)
{
    struct tls_conn *tls = peer->taken.tls;
    struct buf more = {0};
    enum status st = ST_OK;
    ASSERT(peer->wire.len == 0);
    if (tls == NULL) {
        buf_add(&peer->wire, buf_bytes(&peer->out));
        buf_clear(&peer->out);
        return buf_status(&peer->wire);
    }
    while (st == ST_OK && peer->out.len != 0) {
        struct bytes part = bytes_of(peer->out.data, MIN(peer->out.len, (size_t)TLS_RECORD_MAX));
        st = tls_write(tls, &part, 1);
        if (st == ST_OK)
            buf_consume(&peer->out, part.len);
    }
    tls_take_out(tls, &more);
    buf_add(&peer->wire, buf_bytes(&more));
    buf_done(&more);
    return st == ST_BUSY ? ST_OK : st != ST_OK ? st : buf_status(&peer->wire);
}

void peer_flush(struct peer *peer)
{
    ASSERT(!peer->dead);
    if (peer->websocket != NULL) {
        struct buf *frames = websocket_out(peer->websocket);
        peer_send(peer, buf_bytes(frames));
        buf_clear(frames);
    }
    if (peer->wire.len == 0 && seal(peer) != ST_OK) {
        peer->dead = true;
        return;
    }
    while (peer->wire.len != 0) {
        ssize_t n = send(peer->taken.fd, peer->wire.data, peer->wire.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            peer->dead = errno != EAGAIN;
            return;
        }
        buf_consume(&peer->wire, (size_t)n);
    }
}

/* Give the plaintext that TLS has. */
static enum status open_input(struct peer *peer)
{
    uint8_t plain[READ_BYTES];
    ASSERT(peer->taken.tls != NULL);
    while (!peer->dead) {
        size_t n = 0;
        TRY(tls_read(peer->taken.tls, plain, sizeof plain, &n));
        if (n == 0)
            return ST_OK;
        hub_take(peer, bytes_of(plain, n));
    }
    return ST_OK;
}

void peer_begin(struct peer *peer)
{
    if (peer->taken.tls != NULL && open_input(peer) != ST_OK)
        peer->ended = true;
}

void peer_read(struct peer *peer)
{
    uint8_t raw[READ_BYTES];
    ASSERT(!peer->dead);
    ASSERT(peer->taken.fd >= 0);
    for (unsigned i = 0; i < TURN_READS && peer_wants(peer); i++) {
        ssize_t n = recv(peer->taken.fd, raw, sizeof raw, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            peer->ended = true;
            return;
        }
        if (peer->taken.tls == NULL) {
            hub_take(peer, bytes_of(raw, (size_t)n));
        } else if (tls_feed(peer->taken.tls, bytes_of(raw, (size_t)n)) != ST_OK ||
                   open_input(peer) != ST_OK) {
            peer->ended = true;
            return;
        }
    }
}
