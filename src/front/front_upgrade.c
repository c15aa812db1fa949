#include "front/front_upgrade.h"

#include "base/mem.h"
#include "front/hub/hub.h"
#include "http/upgrade.h"
#include "router/request/dialect.h"
#include "text/websocket.h"

/* A connection with this header got its 101 before. A client that sends the header itself gets
 * none, and nothing else. */
#define GREETED "x-holdfast-greeted"

struct greeting;

/* Lies in the arena of the request, whose `user` it is. */
struct upgrading {
    struct reply_upgrade *upgrade; /* NULL: `said` is sent, then the connection is closed */
    struct greeting *greeting;     /* of front_greet */
    struct buf said;               /* the reply to the handshake, and a close frame */
};

static void on_taken(struct http_request *req, enum status st, struct http_taken *taken)
{
    struct upgrading *upgrading = req->user;
    ASSERT(upgrading->greeting == NULL);
    ASSERT(taken != NULL);
    if (st == ST_OK && upgrading->upgrade != NULL)
        upgrading->upgrade->take(upgrading->upgrade, taken, buf_bytes(&upgrading->said));
    else if (st == ST_OK)
        hub_say(taken, buf_bytes(&upgrading->said));
    buf_done(&upgrading->said);
}

/* Whether a page of another host sends the request (B5). */
static bool is_foreign(const struct http_request *req)
{
    struct bytes origin = http_header(req, "origin"), host = http_header(req, "host");
    ASSERT(req->path.len != 0);
    const uint8_t *at = origin.len != 0 ? memmem(origin.data, origin.len, "://", 3) : NULL;
    if (origin.data == NULL)
        return false;
    return at == NULL || !bytes_eq(bytes_from(origin, (size_t)(at + 3 - origin.data)), host);
}

bool front_upgrade(struct front_request *request, struct router_reply *reply)
{
    struct http_request *req = request->req;
    const struct dialect *dialect = request->request.dialect;
    struct bytes key;
    ASSERT(reply->http != 0);
    ASSERT(reply->upgrade == NULL || reply->http < 400);
    bool asked = http_upgrade_asked(req, &key);
    bool refused = asked && key.len != 0 && reply->http >= 400 && dialect->refuse_upgrade != NULL;
    if (reply->upgrade == NULL && !refused)
        return false;
    if (is_foreign(req)) {
        http_respond_error(req, 403, "the page of another site may not open a WebSocket here");
        return true;
    }
    if (key.len == 0) {
        http_respond_error(req, 400, "the path serves WebSocket, version 13, alone");
        return true;
    }
    struct upgrading *upgrading = arena_zalloc(&req->arena, sizeof *upgrading);
    bool greeted = http_header(req, GREETED).len != 0;
    if (upgrading == NULL || (!greeted && http_upgrade_accept(key, &upgrading->said) != ST_OK)) {
        http_respond_status(req, ST_NOMEM, NULL);
        return true;
    }
    if (refused)
        dialect->refuse_upgrade(reply->http, reply_bytes(reply), &upgrading->said);
    upgrading->upgrade = refused ? NULL : reply->upgrade;
    ASSERT(refused || upgrading->upgrade->take != NULL);
    ASSERT(req->user == request);
    req->user = upgrading;
    http_upgrade(req, on_taken);
    return true;
}

/* The first frame */

struct greeting {
    struct http_back back;
    char head[]; /* the request again, but for the token and the end of its head */
};

static void on_freed(struct http_back *back)
{
    mem_free(CONTAINER_OF(back, struct greeting, back));
}

static bool is_plain(struct bytes token)
{
    for (size_t i = 0; i < token.len; i++)
        if (token.data[i] <= ' ' || token.data[i] > '~')
            return false;
    return true;
}

/* On the hub's thread. */
static void on_greeted(void *ctx, enum status st, struct http_taken *taken, struct bytes token)
{
    struct greeting *greeting = ctx;
    struct buf early = {0};
    ASSERT(greeting->back.req != NULL);
    ASSERT(st != ST_OK || taken != NULL);
    greeting->back.gone = st != ST_OK;
    if (st == ST_OK) {
        greeting->back.taken = *taken;
        buf_add_str(&early, greeting->head);
        if (token.len != 0 && is_plain(token))
            buf_add_format(&early, "Authorization: Bearer %.*s\r\n", (int)token.len,
                           (const char *)token.data);
        buf_add(&early, BYTES("\r\n"));
        buf_add(&early, buf_bytes(&taken->early));
        buf_done(&greeting->back.taken.early);
        greeting->back.taken.early = early;
        if (buf_status(&early) != ST_OK) {
            http_taken_done(&greeting->back.taken);
            greeting->back.gone = true;
        }
    }
    http_return(&greeting->back);
}

/* Write the request again, without the parameter. A proxy names the client in it as before. */
static struct greeting *write_again(const struct http_request *req, struct bytes key,
                                    struct bytes query)
{
    CLEANUP(buf_done) struct buf head = {0};
    ASSERT(key.len != 0);
    ASSERT(query.len == 0 || query.data != NULL);
    buf_add_format(&head,
                   "GET %.*s?%.*s HTTP/1.1\r\nHost: greeted\r\nUpgrade: websocket\r\n"
                   "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                   "Sec-WebSocket-Key: %.*s\r\n" GREETED ": 1\r\n",
                   (int)req->path.len, (const char *)req->path.data, (int)query.len,
                   (const char *)query.data, (int)key.len, (const char *)key.data);
    struct bytes value;
    for (size_t at = 0; http_header_next(req, "x-forwarded-for", &at, &value);)
        buf_add_format(&head, "X-Forwarded-For: %.*s\r\n", (int)value.len,
                       (const char *)value.data);
    buf_add_u8(&head, 0);
    struct greeting *greeting =
        buf_status(&head) == ST_OK ? mem_zalloc(sizeof *greeting + head.len) : NULL;
    if (greeting != NULL)
        memcpy(greeting->head, head.data, head.len);
    return greeting;
}

static void on_lent(struct http_request *req, enum status st, struct http_taken *taken)
{
    struct upgrading *upgrading = req->user;
    struct greeting *greeting = upgrading->greeting;
    ASSERT(upgrading->upgrade == NULL);
    ASSERT(greeting != NULL);
    struct buf said = upgrading->said; /* the request may be gone after the call */
    if (st == ST_OK)
        hub_greet(taken, buf_bytes(&said), on_greeted, greeting);
    else
        mem_free(greeting);
    buf_done(&said);
}

/* The query without the parameter ws_handshake, in `to`, which has room for it. *ret_asks: the
 * parameter is true. */
static struct bytes cut_query(struct bytes query, uint8_t *to, bool *ret_asks)
{
    static const struct bytes name = {(const uint8_t *)"ws_handshake=", 13};
    size_t len = 0;
    *ret_asks = false;
    ASSERT(to != NULL);
    ASSERT(query.len == 0 || query.data != NULL);
    while (query.len != 0) {
        const uint8_t *end = memchr(query.data, '&', query.len);
        struct bytes part =
            bytes_of(query.data, end != NULL ? (size_t)(end - query.data) : query.len);
        query = bytes_from(query, MIN(part.len + 1, query.len));
        if (bytes_has_prefix(part, name)) {
            bool truth = false;
            *ret_asks = text_bool_parse(bytes_from(part, name.len), &truth) == ST_OK && truth;
            continue;
        }
        if (len != 0)
            to[len++] = '&';
        memcpy(to + len, part.data, part.len);
        len += part.len;
    }
    return bytes_of(to, len);
}

bool front_greet(struct front_request *request)
{
    struct http_request *req = request->req;
    struct bytes key;
    bool asks;
    ASSERT(req->user == request);
    ASSERT(request->request.dialect != NULL);
    if (request->request.dialect->refuse_upgrade == NULL || !http_upgrade_asked(req, &key) ||
        key.len == 0 || is_foreign(req) || http_header(req, GREETED).len != 0)
        return false;
    uint8_t *room = arena_alloc(&req->arena, req->query.len + 1);
    struct upgrading *upgrading = arena_zalloc(&req->arena, sizeof *upgrading);
    if (room == NULL || upgrading == NULL)
        return false;
    struct bytes query = cut_query(req->query, room, &asks);
    if (!asks)
        return false;
    upgrading->greeting = write_again(req, key, query);
    if (upgrading->greeting == NULL || http_upgrade_accept(key, &upgrading->said) != ST_OK) {
        mem_free(upgrading->greeting);
        buf_done(&upgrading->said);
        return false;
    }
    upgrading->greeting->back.req = req;
    upgrading->greeting->back.freed = on_freed;
    req->user = upgrading;
    http_lend(req, on_lent);
    return true;
}
