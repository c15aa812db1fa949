/* Replies: their heads, errors, replies in pieces. */
#include "base/trace.h"
#include "http/names.h"
#include "http/server.h"
#include "loop/loop.h"

enum {
    REPLY_ROOM = 2048,
    EXCHANGE_BYTES = 2048, /* an exchange and the head of its request, about */
};

/* Heads */

/* Headers that frame the message, or that add_first_lines and add_date write. */
static bool header_is_ours(struct bytes name)
{
    switch (name.len) { /* as in http_header_frames */
    case 4: return http_header_is(name, "date");
    case 12: return http_header_is(name, "content-type");
    case 13: return http_header_is(name, "cache-control");
    default: return http_header_frames(name);
    }
}

/* A header with a byte that would end it early is our mistake: leave the header out. */
static bool header_is_sound(struct http_header header)
{
    bool sound = http_header_sound(header);
    if (!sound)
        trace(TRACE_ERROR, "http", "a response header with invalid characters was left out");
    return sound;
}

static void add_first_lines(struct buf *b, const struct http_reply *reply)
{
    const char *type = reply->content_type;
    if (reply->status == 200 && type != NULL && strcmp(type, "application/json") == 0) {
        /* the first lines of most replies */
        buf_add(b, BYTES("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n"
                         "Content-Type: application/json"));
        return;
    }
    buf_add(b, BYTES("HTTP/1.1 "));
    http_add_number(b, (uint64_t)reply->status);
    buf_add(b, BYTES(" "));
    buf_add_str(b, http_status_reason(reply->status));
    buf_add(b, BYTES("\r\nCache-Control: no-store"));
    if (type != NULL) {
        buf_add(b, BYTES("\r\nContent-Type: "));
        buf_add_str(b, type);
    }
}

static void add_headers(struct buf *b, const struct http_reply *reply)
{
    for (size_t i = 0; i < reply->n_headers; i++) {
        struct http_header header = reply->headers[i];
        if (header_is_ours(header.name) || !header_is_sound(header))
            continue;
        uint8_t *at = buf_extend(b, header.name.len + header.value.len + 4);
        if (at == NULL)
            return; /* the buffer remembers that it failed */
        at = bytes_put(at, BYTES("\r\n"));
        at = bytes_put(at, header.name);
        at = bytes_put(at, BYTES(": "));
        at = bytes_put(at, header.value);
        ASSERT(at == b->data + b->len);
    }
}

/* The header Date (RFC 9110 6.6.1). The text is made once a second, from the loop's own time, which
 * is at most one turn old and needs no system call. */
static void add_date(struct buf *b, struct http_server *server)
{
    struct http_date *date = &server->date;
    uint64_t now_ms = uv_now(loop_uv(server->env));
    if (now_ms >= date->until_ms) {
        int64_t wall_ms = env_wall_ms(server->env);
        text_http_date(wall_ms, date->text);
        date->until_ms = now_ms + (uint64_t)(1000 - wall_ms % 1000);
    }
    buf_add(b, BYTES("\r\nDate: "));
    buf_add(b, bytes_of(date->text, sizeof date->text));
}

/* Write the head of a reply. `length` is the body's, or HTTP_LENGTH_UNKNOWN. */
static void add_head(struct http_exchange *x, const struct http_reply *reply, uint64_t length)
{
    struct buf *b = &x->reply;
    if (buf_reserve(b, REPLY_ROOM) != ST_OK)
        return; /* the buffer remembers that it failed */
    add_first_lines(b, reply);
    add_date(b, x->server);
    add_headers(b, reply);
    if (x->reply_chunked) {
        buf_add(b, BYTES("\r\nTransfer-Encoding: chunked"));
    } else if (length != HTTP_LENGTH_UNKNOWN && reply->status != 204 && reply->status != 304) {
        buf_add(b, BYTES("\r\nContent-Length: "));
        http_add_number(b, length);
    }
    if (x->reply_close)
        buf_add(b, BYTES("\r\nConnection: close"));
    else if (x->head.http_1_0)
        buf_add(b, BYTES("\r\nConnection: keep-alive"));
    buf_add(b, BYTES("\r\n\r\n"));
}

/* Memory that waits for a reader */

struct http_payer http_exchange_payer(const struct http_exchange *x)
{
    struct http_payer payer = {.token = x->payer_token};
    if (x->payer_text != NULL)
        payer.address = ip_port_ip(x->payer_text);
    else if (x->conn != NULL)
        payer.address = http_peer_client(x->conn);
    return payer;
}

size_t http_exchange_bytes(const struct http_exchange *x)
{
    size_t piece = x->piece_waiting ? x->piece_out.out.parts[1].len : 0;
    size_t body = x->budgeted == 0 ? x->body.cap : 0;
    return EXCHANGE_BYTES + x->reply.cap + x->kept.cap + arena_held(&x->req.arena) + piece + body;
}

void http_reply_payer(struct http_request *req, const char *client, uint64_t token)
{
    struct http_exchange *x = exchange_of(req);
    x->payer_text = client;
    x->payer_token = token;
}

/* Count the request while it waits for room, or no more. */
static enum status exchange_queue(struct http_exchange *x, const struct http_payer *payer)
{
    if (x->queued != 0)
        return ST_BUSY;
    if (x->held == 0) /* else the holder pays for both */
        x->holder = *payer;
    size_t bytes = http_exchange_bytes(x);
    if (!http_unwritten_queue(x->server->unwritten, &x->holder, bytes))
        return ST_LIMITED;
    x->queued = bytes;
    return ST_BUSY;
}

void http_exchange_unqueue(struct http_exchange *x)
{
    if (x->queued != 0)
        http_unwritten_unqueue(x->server->unwritten, &x->holder, x->queued);
    x->queued = 0;
}

enum status http_reply_room(struct http_request *req)
{
    struct http_exchange *x = exchange_of(req);
    struct http_unwritten *unwritten = x->server->unwritten;
    if (unwritten == NULL)
        return ST_OK;
    if (!http_unwritten_has_much(unwritten)) {
        const struct http_payer payer = http_exchange_payer(x);
        if (!http_unwritten_room(unwritten, &payer))
            return exchange_queue(x, &payer);
    }
    http_exchange_unqueue(x);
    return ST_OK;
}

void http_reply_hold(struct http_request *req, size_t bytes)
{
    struct http_exchange *x = exchange_of(req);
    ASSERT(!x->replying);
    if (x->server->unwritten == NULL || bytes <= x->held)
        return;
    http_exchange_unqueue(x);
    if (x->held == 0)
        x->holder = http_exchange_payer(x);
    if (http_unwritten_put(x->server->unwritten, &x->holder, bytes - x->held))
        x->held = bytes;
}

enum status http_reply_take(struct http_request *req, size_t bytes)
{
    struct http_exchange *x = exchange_of(req);
    ASSERT(!x->replying);
    if (x->server->unwritten == NULL || bytes <= x->held)
        return ST_OK;
    http_exchange_unqueue(x);
    if (x->held == 0)
        x->holder = http_exchange_payer(x);
    if (http_unwritten_take(x->server->unwritten, &x->holder, bytes - x->held) != UNWRITTEN_FITS)
        return ST_BUSY;
    x->held = bytes;
    return ST_OK;
}

void http_exchange_unhold(struct http_exchange *x)
{
    if (x->held != 0)
        http_unwritten_give(x->server->unwritten, &x->holder, x->held);
    x->held = 0;
}

void http_keep_shared(struct http_request *req, struct shared *shared)
{
    struct http_exchange *x = exchange_of(req);
    ASSERT(x->shared == NULL);
    x->shared = shared;
}

/* From now on the connection pays: it gives the bytes back as soon as they are written. */
static void hand_over_held(struct http_exchange *x)
{
    struct http_conn *c = x->conn;
    if (c != NULL && c->owed.bytes == 0) {
        c->owed.payer = x->holder;
        c->owed.bytes = x->held;
        x->held = 0;
    } else if (c != NULL) {
        http_exchange_unhold(x); /* conn_owe counts all that waits */
    }
}

static void on_out_sent(struct http_out *out, enum status st)
{
    (void)st; /* a failed write also closes the connection, which reports it */
    http_exchange_unref(CONTAINER_OF(out, struct http_exchange, out));
}

/* Begin either kind of reply. False: the peer has gone, or no reply can be sent. */
static bool reply_begin(struct http_exchange *x, const struct http_reply *reply, uint64_t length)
{
    ASSERT(!x->replying);
    ASSERT(reply->status >= 200);
    ASSERT(reply->status <= 599);
    x->replying = true;
    x->given = true;
    http_exchange_unqueue(x);
    if (x->held != 0)
        hand_over_held(x);
    tally_add(&x->server->tally.replies[reply->status / 100], 1);
    if (x->conn == NULL)
        return false;
    bool unread = !x->body_done; /* the rest of the body follows in the input, not a request */
    x->reply_close = reply->close || unread || !x->head.keep_alive || x->conn->close_after ||
                     x->server->draining;
    x->no_reply_body = x->req.method == METHOD_HEAD || reply->status == 204 || reply->status == 304;
    if (length == HTTP_LENGTH_UNKNOWN && !x->no_reply_body) {
        x->reply_chunked = !x->head.http_1_0;
        x->reply_close = x->reply_close || x->head.http_1_0;
    }
    x->reply_left = length;
    add_head(x, reply, length);
    if (buf_status(&x->reply) == ST_OK)
        return true;
    http_conn_close(x->conn);
    return false;
}

/* The handler has given the whole reply. */
static void reply_end(struct http_exchange *x, bool cut)
{
    struct http_conn *c = x->conn;
    ASSERT(x->replying);
    ASSERT(!x->replied);
    x->replied = true;
    x->gone = NULL;
    x->conn = NULL;
    if (c != NULL) {
        ASSERT(c->x == x);
        c->x = NULL;
        c->close_after = c->close_after || x->reply_close;
        http_conn_replied(c, cut);
    }
    http_exchange_unref(x);
}

void http_respond(struct http_request *req, const struct http_reply *reply)
{
    struct http_exchange *x = exchange_of(req);
    if (reply_begin(x, reply, reply->body.len)) {
        struct bytes body = x->no_reply_body ? (struct bytes){0} : reply->body;
        /* head and body fit into one piece for the socket */
        bool together = body.len <= x->reply.cap - x->reply.len;
        if (together)
            buf_add(&x->reply, body);
        x->out.sent = on_out_sent;
        x->out.owner = x;
        x->out.parts[0] = buf_bytes(&x->reply);
        x->out.parts[1] = together ? (struct bytes){0} : body;
        x->refs++;
        http_conn_send(x->conn, &x->out);
    }
    reply_end(x, false);
}

/* Errors */

/* The handler's form of an error, or its plain text. Returns the content type. */
static const char *put_error(struct http_exchange *x, int status, struct bytes message,
                             struct buf *out)
{
    const struct http_server *server = x->server;
    if (server->handler->error != NULL)
        return server->handler->error(server->ctx, &x->req, status, message, out);
    buf_add(out, message);
    buf_add(out, BYTES("\n"));
    return "text/plain; charset=utf-8";
}

static void error_reply(struct http_exchange *x, int status, const char *message, bool close)
{
    struct bytes text = {0};
    struct buf body = {0};
    if (message != NULL)
        text = bytes_of(message, strnlen(message, HTTP_ERROR_BYTES_MAX));
    struct http_reply reply = {
        .status = status, .content_type = put_error(x, status, text, &body), .close = close};
    ASSERT(status >= 400 && reply.content_type != NULL);
    if (buf_status(&body) == ST_OK) {
        buf_done(&x->kept); /* discard a reply that was being built */
        http_keep(&x->req, &body);
        reply.body = buf_bytes(&x->kept);
    } else {
        buf_done(&body);
        reply.content_type = NULL;
    }
    http_respond(&x->req, &reply);
}

void http_respond_error(struct http_request *req, int status, const char *message)
{
    error_reply(exchange_of(req), status, message, false);
}

void http_respond_status(struct http_request *req, enum status st, const char *message)
{
    http_respond_error(req, status_http(st), message != NULL ? message : status_text(st));
}

void http_reply_refusal(struct http_exchange *x, int status, const char *why)
{
    tally_add(&x->server->tally.rejected, 1);
    error_reply(x, status, why, true);
}

/* Replies in pieces */

void http_respond_begin(struct http_request *req, const struct http_reply *reply, uint64_t length)
{
    struct http_exchange *x = exchange_of(req);
    if (!reply_begin(x, reply, length) || x->conn == NULL)
        return;
    if (reply->body.len != 0 && !x->no_reply_body && x->reply_chunked)
        buf_add_format(&x->reply, "%zx\r\n", reply->body.len);
    if (buf_status(&x->reply) != ST_OK) {
        http_conn_close(x->conn);
        return;
    }
    x->out.sent = on_out_sent;
    x->out.owner = x;
    x->out.parts[0] = buf_bytes(&x->reply);
    if (reply->body.len != 0 && !x->no_reply_body) {
        ASSERT(reply->body.len <= length);
        x->reply_left -= length != HTTP_LENGTH_UNKNOWN ? reply->body.len : 0;
        x->out.parts[1] = reply->body;
        if (x->reply_chunked)
            x->out.parts[2] = BYTES("\r\n");
    }
    x->refs++;
    http_conn_send(x->conn, &x->out);
    http_conn_go_on(x->conn);
}

static void sent_run(struct env_task *task)
{
    struct http_exchange *x = CONTAINER_OF(task, struct http_exchange, sent_task);
    ASSERT(x->sent_posted);
    http_sent_fn *on_sent = x->on_sent;
    x->sent_posted = false;
    x->piece_waiting = false;
    if (!x->replied)
        on_sent(&x->req, x->sent_status);
    http_exchange_unref(x);
}

static void sent_post(struct http_exchange *x, enum status st)
{
    ASSERT(!x->sent_posted);
    x->sent_posted = true;
    x->sent_status = st;
    x->sent_task.run = sent_run;
    x->refs++;
    env_post(x->server->env, &x->sent_task);
}

static void on_piece_sent(struct http_out *out, enum status st)
{
    struct http_exchange *x = CONTAINER_OF(out, struct http_exchange, piece_out.out);
    sent_post(x, st);
    http_exchange_unref(x);
}

void http_respond_piece(struct http_request *req, struct bytes piece, http_sent_fn *sent)
{
    struct http_exchange *x = exchange_of(req);
    ASSERT(x->replying);
    ASSERT(!x->replied);
    ASSERT(!x->piece_waiting && sent != NULL);
    x->piece_waiting = true;
    x->on_sent = sent;
    if (x->conn == NULL || x->no_reply_body || piece.len == 0) {
        sent_post(x, x->conn == NULL ? ST_CLOSED : ST_OK);
        return;
    }
    if (x->reply_left != HTTP_LENGTH_UNKNOWN) {
        ASSERT(piece.len <= x->reply_left);
        x->reply_left -= piece.len;
    }
    http_piece_frame(&x->piece_out, piece, x->reply_chunked, on_piece_sent);
    x->piece_out.out.owner = x;
    x->refs++;
    http_conn_send(x->conn, &x->piece_out.out);
    http_conn_go_on(x->conn);
}

static void on_end_sent(struct http_out *out, enum status st)
{
    (void)st; /* a failed write also closes the connection, which reports it */
    http_exchange_unref(CONTAINER_OF(out, struct http_exchange, end_out));
}

void http_respond_end(struct http_request *req, bool complete)
{
    struct http_exchange *x = exchange_of(req);
    ASSERT(x->replying);
    ASSERT(!x->replied);
    bool short_of = x->reply_left != HTTP_LENGTH_UNKNOWN && x->reply_left != 0 && !x->no_reply_body;
    bool cut = !complete || short_of;
    if (x->conn != NULL && x->reply_chunked && !cut) {
        x->end_out =
            (struct http_out){.sent = on_end_sent, .owner = x, .parts = {BYTES("0\r\n\r\n")}};
        x->refs++;
        http_conn_send(x->conn, &x->end_out);
    }
    reply_end(x, cut);
}
