/* One connection of the server: phases, timeouts, and the way from bytes to requests. */
#include "base/mem.h"
#include "crypto/tls.h"
#include "http/server.h"
#include "loop/loop.h"

enum {
    QUEUED_MAX = 32,              /* most replies to pipelined requests in one write */
    QUEUED_BYTES_MAX = 64 * 1024, /* no further request is read while so many bytes wait */
    /* Memory of a connection whose output waits, beside its buffers. */
    CONN_BYTES = 2 * 1024,
    CONN_TLS_BYTES = 32 * 1024,
    DRAIN_IDLE_MS = 1000, /* idle time allowed to clients that connected just before the drain */
    REST_MS = 1000,       /* idle time after which a connection gives its buffers back */
};

static struct http_conn *conn_of(struct http_wire *wire)
{
    return CONTAINER_OF(wire, struct http_conn, wire);
}

static bool conn_over(const struct http_conn *c)
{
    return c->phase == CONN_LINGER || c->phase == CONN_CLOSING;
}

/* Deadlines */

/* Let the timer fire in `ms` at the latest. The time is the loop's own, which is at most one turn
 * old and needs no system call. */
static uint64_t conn_wake(struct http_conn *c, uint32_t ms)
{
    struct env *env = c->server->env;
    uint64_t at_ms = ms != 0 ? uv_now(loop_uv(env)) + ms : 0;
    if (ms != 0 && (c->timer.slot == 0 || c->timer.at_ms > at_ms))
        env_timer_set(env, &c->timer, at_ms);
    return at_ms;
}

static void conn_deadline(struct http_conn *c, uint32_t ms)
{
    c->deadline_ms = conn_wake(c, ms);
    c->allowed_ms = ms;
    c->excused = false;
}

/* Put a deadline off, at most once. libuv runs timers before it reads sockets, so bytes of the peer
 * may still be unread at the deadline: read once more before the peer is judged. If the loop was
 * held up, the whole time begins anew. */
static bool conn_excuse(struct http_conn *c, uint64_t fired_ms, uint64_t now_ms)
{
    bool still = now_ms >= fired_ms + WIRE_STILL_MS;
    if (c->excused)
        return false;
    c->excused = true;
    c->deadline_ms = now_ms + (still ? c->allowed_ms : (uint32_t)WIRE_LOOK_MS);
    return true;
}

/* Whether the peer has moved fewer bytes within a window than it must. */
static bool too_slow(const struct http_conn *c, uint64_t moved, uint32_t rate_min)
{
    return moved < (uint64_t)rate_min * c->server->limits.rate_window_ms / 1000;
}

static bool conn_awaits_body(const struct http_conn *c)
{
    const struct http_exchange *x = c->x;
    return c->phase == CONN_BODY || (c->phase == CONN_BUSY && x->streaming && !x->body_done &&
                                     x->body_status == ST_OK && x->stash.len == 0);
}

static void conn_window(struct http_conn *c)
{
    c->window_on = true;
    c->window_in = c->x != NULL ? c->x->body_seen : 0;
    c->window_out = http_wire_progress(&c->wire);
    conn_deadline(c, c->server->limits.rate_window_ms);
    /* The loop's idea of now may be older than the handler that has just replied. */
    c->deadline_ms = env_mono_ms(c->server->env) + c->allowed_ms;
}

static uint32_t conn_idle_ms(const struct http_conn *c)
{
    uint32_t idle_ms = c->server->limits.idle_ms;
    return c->server->draining ? MIN(idle_ms, DRAIN_IDLE_MS) : idle_ms;
}

static void conn_move(struct http_conn *c, enum conn_phase phase)
{
    const struct http_limits *limits = &c->server->limits;
    if (c->phase == CONN_CLOSING)
        return;
    if ((c->phase == CONN_IDLE) != (phase == CONN_IDLE))
        http_server_move(c->server, c, phase == CONN_IDLE);
    c->phase = phase;
    c->window_on = false;
    c->rest_ms = phase == CONN_IDLE ? conn_wake(c, REST_MS) : 0;
    if (phase != CONN_BODY && phase != CONN_BUSY)
        c->late_ms = 0;
    switch (phase) {
    case CONN_HANDSHAKE: conn_deadline(c, limits->handshake_ms); break;
    case CONN_IDLE: conn_deadline(c, conn_idle_ms(c)); break;
    case CONN_HEAD: conn_deadline(c, limits->header_ms); break;
    case CONN_LINGER: conn_deadline(c, limits->linger_ms); break;
    case CONN_BODY:
    case CONN_BUSY: /* conn_settle opens a window when there is something to wait for */
    case CONN_CLOSING: conn_deadline(c, 0); break;
    }
}

/* The output was written, or is dropped. */
static void conn_clear_output(struct http_conn *c)
{
    c->n_queued = 0;
    c->queued_bytes = 0;
    if (c->owed.bytes != 0)
        http_owed_clear(c->server->unwritten, &c->owed);
}

static void conn_close(struct http_conn *c, void (*how)(struct http_wire *wire))
{
    if (c->phase == CONN_CLOSING)
        return;
    struct http_exchange *x = c->x;
    conn_move(c, CONN_CLOSING);
    http_server_uncount(c->server, c);
    list_remove(&c->owed.link);
    conn_clear_output(c);
    env_timer_stop(c->server->env, &c->timer);
    buf_done(&c->in);
    how(&c->wire);
    c->x = NULL;
    if (x != NULL)
        http_exchange_orphan(x);
}

void http_conn_close(struct http_conn *c)
{
    conn_close(c, http_wire_close);
}

/* Memory that waits until the peer reads. */
static size_t conn_waiting_bytes(const struct http_conn *c, const struct http_exchange **ret_first)
{
    const struct http_exchange *last = NULL;
    size_t bytes = c->wire.cipher.cap + (c->wire.tls != NULL ? CONN_TLS_BYTES : CONN_BYTES);
    *ret_first = NULL;
    LIST_FOR (item, &c->wire.out) {
        const struct http_exchange *x = CONTAINER_OF(item, struct http_out, link)->owner;
        *ret_first = *ret_first != NULL ? *ret_first : x;
        if (x != last)
            bytes += http_exchange_bytes(x);
        last = x;
    }
    return bytes;
}

/* The peer does not read its output at once: count the memory. */
static void conn_owe(struct http_conn *c)
{
    const struct http_exchange *first;
    struct http_payer payer = {0};
    if (c->server->unwritten == NULL || c->phase == CONN_CLOSING)
        return;
    size_t bytes = conn_waiting_bytes(c, &first);
    if (c->owed.bytes == 0 && first != NULL)
        payer = http_exchange_payer(first);
    if (c->owed.bytes == 0 && payer.address.len == 0)
        payer.address = http_peer_client(c);
    if (!http_owed_wait(c->server->unwritten, &c->owed, &payer, bytes))
        conn_close(c, http_wire_reset);
}

/* Read no further request: send the output, then end our side and wait a little, so that the peer
 * reads our reply before a reset tells it that we discarded its input. */
static void conn_linger(struct http_conn *c)
{
    ASSERT(c->x == NULL);
    if (conn_over(c))
        return;
    buf_done(&c->in);
    conn_move(c, CONN_LINGER);
    c->wire.discard = true;
    http_wire_read(&c->wire, true);
    http_wire_finish(&c->wire);
    if (c->phase != CONN_CLOSING && http_wire_pending(&c->wire))
        conn_owe(c);
    else
        conn_clear_output(c);
    /* the output of a peer that is gone has failed, but is still queued */
    if (c->phase == CONN_CLOSING)
        return;
    if (c->peer_ended && !http_wire_pending(&c->wire))
        http_conn_close(c);
    else if (http_wire_pending(&c->wire))
        conn_window(c);
}

/* From bytes to requests */

static bool conn_exchange(struct http_conn *c)
{
    if (c->x != NULL)
        return true;
    c->x = http_exchange_new(c->server);
    if (c->x == NULL) {
        http_conn_close(c);
        return false;
    }
    ASSERT(c->phase != CONN_CLOSING);
    c->x->conn = c;
    http_parser_request(&c->parser, &c->server->limits, &c->x->head);
    return true;
}

/* Send an error for a request that no handler has seen. If a handler has seen the request, end its
 * body. */
static void conn_refuse(struct http_conn *c, int status, const char *why)
{
    ASSERT(status >= 400);
    c->close_after = true;
    if (!conn_exchange(c))
        return;
    if (!c->x->given) {
        http_reply_refusal(c->x, status, why);
        return;
    }
    enum status st = status == 413   ? ST_TOO_BIG
                     : status == 408 ? ST_TIMEOUT
                     : status == 503 ? ST_BUSY
                                     : ST_INVALID;
    http_exchange_body_end(c->x, st);
}

static bool on_body_run(struct http_parser *parser, struct bytes run)
{
    struct http_exchange *x = CONTAINER_OF(parser, struct http_conn, parser)->x;
    ASSERT(!x->body_done);
    x->body_seen += run.len;
    if (x->body_seen > x->body_max) {
        http_parser_refuse(parser, 413, "request body too large");
        return false;
    }
    if (x->streaming && x->on_whole == NULL) {
        enum status st = http_exchange_body_add(x, run);
        if (st != ST_OK)
            http_parser_refuse(parser, 503, status_text(st));
        return st == ST_OK;
    }
    /* the bytes were read into the body's own memory */
    if (x->body.data != NULL && run.data == x->body.data + x->body.len) {
        x->body.len += run.len;
        return true;
    }
    enum status st = http_exchange_grow(x, run.len);
    if (st != ST_OK) {
        http_parser_refuse(parser, 503, "too many request bodies are being received");
        return false;
    }
    buf_add(&x->body, run);
    return true;
}

static void on_continue_sent(struct http_out *out, enum status st)
{
    (void)st; /* a failed write also closes the connection, which reports it */
    http_exchange_unref(CONTAINER_OF(out, struct http_exchange, continue_out));
}

static void conn_send_continue(struct http_conn *c)
{
    struct http_exchange *x = c->x;
    if (!x->head.expects_continue || x->sent_continue || x->replying)
        return;
    x->sent_continue = true;
    x->continue_out = (struct http_out){
        .sent = on_continue_sent, .owner = x, .parts = {BYTES("HTTP/1.1 100 Continue\r\n\r\n")}};
    x->refs++;
    http_wire_send(&c->wire, &c->x->continue_out);
}

void http_conn_within(struct http_conn *c, uint32_t ms)
{
    c->late_ms = conn_wake(c, ms);
}

void http_conn_park(struct http_conn *c)
{
    ASSERT(c->phase == CONN_BUSY);
    c->late_ms = 0;
    http_wire_rest(&c->wire);           /* many requests may come at once */
    c->rest_ms = conn_wake(c, REST_MS); /* more input may come */
}

static void conn_give(struct http_conn *c)
{
    struct http_exchange *x = c->x;
    ASSERT(!x->given);
    conn_move(c, CONN_BUSY);
    x->given = true;
    x->req.body = buf_bytes(&x->body);
    c->server->handler->request(c->server->ctx, &x->req);
}

/* The head is complete; `body`: a body follows. */
static void conn_on_head(struct http_conn *c, bool body)
{
    struct http_exchange *x = c->x;
    const struct http_head *head = &x->head;
    const struct http_handler *handler = c->server->handler;

    ASSERT(c->phase == CONN_HEAD);
    ASSERT(head->path_len != 0);
    http_exchange_show(x);
    x->body_done = !body;
    tally_add(&c->server->tally.requests, 1);
    c->late_ms = conn_wake(c, c->server->limits.request_ms);
    if (handler->head != NULL) {
        conn_move(c, CONN_BUSY);
        handler->head(c->server->ctx, &x->req);
        if (c->x != x || x->replying) /* the handler replied at once, or the connection closed */
            return;
    }
    if (head->has_length && head->length > x->body_max) {
        conn_refuse(c, 413, "request body too large");
        return;
    }
    x->streaming = x->whole_max == 0 || (head->has_length && head->length > x->whole_max);
    if (x->streaming || !body) {
        conn_give(c);
        return;
    }
    conn_move(c, CONN_BODY);
    conn_send_continue(c);
}

static void conn_on_done(struct http_conn *c)
{
    struct http_exchange *x = c->x;
    if (c->phase == CONN_HEAD) {
        conn_on_head(c, false);
        return;
    }
    ASSERT(!x->body_done);
    x->body_done = true;
    if (x->streaming)
        http_exchange_body_end(x, ST_OK);
    else
        conn_give(c);
}

/* Stream a body without an announced length once it is too long to be kept in memory. */
static void conn_on_more(struct http_conn *c)
{
    struct http_exchange *x = c->x;
    if (c->phase != CONN_BODY || x->body_seen <= x->whole_max)
        return;
    http_exchange_stream(x);
    conn_give(c);
}

static void conn_on_event(struct http_conn *c, enum http_event event)
{
    switch (event) {
    case EVENT_HEAD: conn_on_head(c, true); break;
    case EVENT_DONE: conn_on_done(c); break;
    case EVENT_REFUSED: conn_refuse(c, c->parser.status, c->parser.why); break;
    case EVENT_MORE: conn_on_more(c); break;
    }
}

/* Replies that the socket does not take stay counted in n_queued. May close the connection. */
static void conn_flush(struct http_conn *c)
{
    http_wire_flush(&c->wire);
    tally_add(&c->server->tally.bytes_out, c->wire.bytes_out - c->counted_out);
    c->counted_out = c->wire.bytes_out;
    if (http_wire_pending(&c->wire))
        conn_owe(c);
    else
        conn_clear_output(c);
}

/* Whether the connection has any use for input now. */
static bool conn_wants(struct http_conn *c)
{
    switch (c->phase) {
    case CONN_IDLE: /* a reply that is not yet sent keeps the next request waiting */
        if (c->n_queued >= QUEUED_MAX || c->queued_bytes >= QUEUED_BYTES_MAX)
            conn_flush(c);
        return c->phase == CONN_IDLE && !c->close_after && c->n_queued < QUEUED_MAX &&
               c->queued_bytes < QUEUED_BYTES_MAX;
    case CONN_HEAD: return true;
    case CONN_BODY:
    case CONN_BUSY: return conn_awaits_body(c);
    default: return false;
    }
}

/* Parse input as far as possible. Returns the input that follows the request under way. */
static struct bytes conn_parse(struct http_conn *c, struct bytes in)
{
    ASSERT(!c->parsing);
    c->parsing = true;
    while (in.len != 0 && conn_wants(c) && conn_exchange(c)) {
        size_t used = 0;
        if (c->phase == CONN_IDLE)
            conn_move(c, CONN_HEAD);
        c->parser.on_body = on_body_run;
        enum http_event event = http_parser_run(&c->parser, in, &used);
        ASSERT(used <= in.len);
        in = bytes_from(in, used);
        conn_on_event(c, event);
    }
    c->parsing = false;
    return in;
}

/* Start or stop output, reading and timers as the phase needs. */
static void conn_settle(struct http_conn *c)
{
    if (c->settling || conn_over(c) || c->phase == CONN_HANDSHAKE)
        return;
    c->settling = true;
    if (c->phase == CONN_BUSY && c->x->streaming &&
        (c->x->on_piece != NULL || c->x->on_whole != NULL))
        conn_send_continue(c);
    conn_flush(c);
    c->settling = false;
    if (conn_over(c))
        return;
    bool idle = c->phase == CONN_IDLE;
    if (idle && (c->close_after || c->peer_ended || c->server->draining)) {
        conn_linger(c);
        return;
    }
    bool pending = http_wire_pending(&c->wire);
    bool awaits = conn_awaits_body(c);
    bool watch = c->phase == CONN_BUSY && !awaits && c->x->stash.len == 0;
    if ((pending || awaits) && !c->window_on && c->phase != CONN_HEAD)
        conn_window(c);
    http_wire_read(&c->wire, c->in.len == 0 && !(idle && pending) && (watch || conn_wants(c)));
}

void http_conn_go_on(struct http_conn *c)
{
    if (c->parsing || conn_over(c) || c->phase == CONN_HANDSHAKE)
        return;
    if (c->in.len != 0 && !c->wire.writing) {
        struct buf in = c->in;
        c->in = (struct buf){0};
        struct bytes left = conn_parse(c, buf_bytes(&in));
        if (conn_over(c)) {
            buf_done(&in);
            return;
        }
        ASSERT(left.len <= in.len);
        buf_consume(&in, in.len - left.len);
        if (in.len != 0)
            c->in = in;
        else
            buf_done(&in);
    }
    conn_settle(c);
}

void http_conn_send(struct http_conn *c, struct http_out *out)
{
    c->n_queued++;
    for (size_t i = 0; i < WIRE_PARTS; i++)
        c->queued_bytes += out->parts[i].len;
    http_wire_send(&c->wire, out);
}

void http_conn_replied(struct http_conn *c, bool cut)
{
    if (cut) { /* without a length, an orderly end would look like a complete reply */
        conn_close(c, http_wire_reset);
        return;
    }
    if (conn_over(c))
        return;
    ASSERT(c->x == NULL);
    conn_move(c, CONN_IDLE);
    http_conn_go_on(c);
}

/* Callbacks of the wire */

static struct http_room conn_room(struct http_wire *wire)
{
    struct http_conn *c = conn_of(wire);
    struct http_exchange *x = c->x;
    bool whole = c->phase == CONN_BODY ||
                 (c->phase == CONN_BUSY && x->on_whole != NULL && conn_awaits_body(c));
    if (!whole || !x->head.has_length || c->in.len != 0)
        return (struct http_room){0};
    ASSERT(x->body_seen <= x->head.length);
    uint64_t left = x->head.length - x->body_seen;
    if (left < WIRE_DIRECT_FROM ||
        http_exchange_grow(x, (size_t)MIN(left, WIRE_DIRECT_STEP)) != ST_OK)
        return (struct http_room){0};
    return (struct http_room){x->body.data + x->body.len,
                              MIN(x->body.cap - x->body.len, (size_t)left)};
}

static void conn_on_data(struct http_wire *wire, struct bytes plain)
{
    struct http_conn *c = conn_of(wire);
    tally_add(&c->server->tally.bytes_in, plain.len);
    if (conn_over(c))
        return;
    struct bytes left = c->in.len == 0 ? conn_parse(c, plain) : plain;
    if (conn_over(c))
        return;
    buf_add(&c->in, left);
    if (buf_status(&c->in) != ST_OK)
        http_conn_close(c);
    else
        conn_settle(c);
}

static void conn_on_secured(struct http_wire *wire)
{
    struct http_conn *c = conn_of(wire);
    const char *alpn = tls_alpn(wire->tls);
    ASSERT(c->phase == CONN_HANDSHAKE);
    if (alpn[0] != '\0' && strcmp(alpn, "http/1.1") != 0) {
        tally_add(&c->server->tally.handshakes_failed, 1);
        http_conn_close(c);
        return;
    }
    conn_move(c, CONN_IDLE);
}

static void conn_on_not_tls(struct http_wire *wire)
{
    struct http_conn *c = conn_of(wire);
    tally_add(&c->server->tally.handshakes_failed, 1);
    conn_move(c, CONN_IDLE);
    conn_refuse(c, 400, "this port expects TLS: use https");
}

/* The peer ended its side, but may still read the reply: finish the request under way. */
static void conn_half_closed(struct http_conn *c)
{
    struct http_exchange *x = c->x;
    if (c->phase == CONN_LINGER)
        return;
    if (c->phase != CONN_BUSY) {
        c->x = NULL;
        conn_move(c, CONN_IDLE);
        if (x != NULL) /* the request will never be complete */
            http_exchange_orphan(x);
        conn_linger(c);
        return;
    }
    void (*gone)(struct http_request * req) = x->gone;
    x->gone = NULL;
    http_exchange_body_end(x, ST_CLOSED);
    if (gone != NULL)
        gone(&x->req);
}

static void conn_on_ended(struct http_wire *wire, enum status st)
{
    struct http_conn *c = conn_of(wire);
    c->peer_ended = true;
    if (c->phase == CONN_HANDSHAKE)
        tally_add(&c->server->tally.handshakes_failed, 1);
    bool more = c->phase == CONN_BUSY || http_wire_pending(wire);
    if (st == ST_CLOSED && more && c->phase != CONN_HANDSHAKE)
        conn_half_closed(c);
    else
        http_conn_close(c);
}

static void conn_on_drained(struct http_wire *wire)
{
    struct http_conn *c = conn_of(wire);
    if (c->phase == CONN_LINGER) {
        conn_clear_output(c);
        if (c->peer_ended)
            http_conn_close(c);
        else
            conn_deadline(c, c->server->limits.linger_ms);
        return;
    }
    c->window_on = false;
    if (c->phase == CONN_IDLE)
        conn_deadline(c, conn_idle_ms(c));
    conn_clear_output(c);
    http_conn_go_on(c);
}

static void conn_on_closed(struct http_wire *wire)
{
    struct http_conn *c = conn_of(wire);
    struct http_server *server = c->server;
    ASSERT(c->phase == CONN_CLOSING);
    ASSERT(c->x == NULL && c->timer.slot == 0);
    ASSERT(server->n_conns > 0);
    tally_add(&server->tally.bytes_out, wire->bytes_out - c->counted_out);
    tally_set(&server->tally.open, server->n_conns - 1);
    list_remove(&c->link);
    server->n_conns--;
    mem_free(c);
    http_exchange_shrink(server);
    http_server_less(server);
}

static void conn_on_preamble(struct http_wire *wire, const struct proxy *said,
                             enum proxy_result result)
{
    struct http_conn *c = conn_of(wire);
    if (!http_peer_preamble(c, said, result)) {
        tally_add(&c->server->tally.rejected, 1);
        http_conn_close(c);
    } else if (wire->tls == NULL) {
        conn_move(c, CONN_IDLE);
    }
}

static const struct http_wire_ops wire_ops = {
    .preamble = conn_on_preamble,
    .room = conn_room,
    .data = conn_on_data,
    .secured = conn_on_secured,
    .not_tls = conn_on_not_tls,
    .ended = conn_on_ended,
    .drained = conn_on_drained,
    .closed = conn_on_closed,
};

/* A rate window is over: judge whether the peer is fast enough. */
static void conn_on_window(struct http_conn *c)
{
    const struct http_limits *limits = &c->server->limits;
    bool reads_body = conn_awaits_body(c);
    bool writes = http_wire_pending(&c->wire);
    uint64_t got = c->x != NULL ? c->x->body_seen - c->window_in : 0;
    uint64_t put = http_wire_progress(&c->wire) - c->window_out;
    if (writes && too_slow(c, put, limits->write_rate_min)) {
        tally_add(&c->server->tally.timeouts, 1);
        http_conn_close(c);
    } else if (reads_body && too_slow(c, got, limits->body_rate_min)) {
        tally_add(&c->server->tally.timeouts, 1);
        conn_refuse(c, 408, "the request body arrives too slowly");
        http_conn_go_on(c);
    } else if (reads_body || writes) {
        conn_window(c);
    } else {
        c->window_on = false;
        conn_deadline(c, 0);
    }
}

/* Detach a request that has no reply from the connection. */
static void conn_give_up(struct http_conn *c)
{
    struct http_exchange *x = c->x;
    const struct http_handler *handler = c->server->handler;
    enum http_method method = x->req.method;
    int status = 503;
    ASSERT(x->given);
    ASSERT(!x->replying);
    const char *why = handler->late != NULL ? handler->late(c->server->ctx, &x->req, &status)
                                            : "no reply was ready in time";
    c->x = NULL;
    c->close_after = true;
    http_exchange_orphan(x);
    if (conn_over(c) || !conn_exchange(c))
        return;
    c->x->req.method = method;
    http_reply_refusal(c->x, status, why);
}

static void conn_on_late(struct http_conn *c)
{
    struct http_exchange *x = c->x;
    ASSERT(c->phase == CONN_BODY || c->phase == CONN_BUSY);
    c->late_ms = 0;
    if (x->replying) /* a reply that is being sent must keep a least rate */
        return;
    tally_add(&c->server->tally.timeouts, 1);
    bool asked = x->on_piece != NULL || x->on_whole != NULL;
    bool body_told = !x->given || (!x->body_done && asked);
    if (body_told)
        conn_refuse(c, 408, "the request body arrives too slowly");
    else
        conn_give_up(c);
    http_conn_go_on(c);
}

static void conn_on_deadline(struct http_conn *c)
{
    bool window = c->phase == CONN_BODY || c->phase == CONN_BUSY || http_wire_pending(&c->wire);
    if (window && c->phase != CONN_HANDSHAKE) {
        conn_on_window(c);
        return;
    }
    if (c->phase != CONN_LINGER && c->phase != CONN_IDLE)
        tally_add(&c->server->tally.timeouts, 1);
    if (c->phase == CONN_HANDSHAKE)
        tally_add(&c->server->tally.handshakes_failed, 1);
    if (c->phase == CONN_HEAD)
        conn_refuse(c, 408, "the request headers arrive too slowly");
    else
        http_conn_close(c);
}

static bool due(uint64_t at_ms, uint64_t now_ms)
{
    return at_ms != 0 && at_ms <= now_ms;
}

/* The earlier of two times; 0: none. */
static uint64_t sooner(uint64_t a_ms, uint64_t b_ms)
{
    return a_ms == 0 ? b_ms : b_ms == 0 ? a_ms : MIN(a_ms, b_ms);
}

static void conn_on_timer(struct env_timer *timer)
{
    struct http_conn *c = CONTAINER_OF(timer, struct http_conn, timer);
    uint64_t now_ms = env_mono_ms(c->server->env);
    if (due(c->rest_ms, now_ms)) {
        http_wire_rest(&c->wire);
        c->rest_ms = 0;
    }
    if (due(c->late_ms, now_ms)) {
        conn_on_late(c);
    } else if (due(c->deadline_ms, now_ms) && !conn_excuse(c, timer->at_ms, now_ms)) {
        c->deadline_ms = 0;
        conn_on_deadline(c);
    }
    if (c->phase == CONN_CLOSING)
        return;
    uint64_t next_ms = sooner(sooner(c->deadline_ms, c->late_ms), c->rest_ms);
    if (next_ms != 0 && (timer->slot == 0 || timer->at_ms > next_ms))
        env_timer_set(c->server->env, timer, next_ms);
}

static void conn_on_evicted(struct http_owed *owed)
{
    conn_close(CONTAINER_OF(owed, struct http_conn, owed), http_wire_reset);
}

/* Opening and closing a connection */

enum status http_conn_new(struct http_server *server, struct http_conn **ret_conn)
{
    struct http_conn *c = mem_zalloc(sizeof *c);
    if (c == NULL)
        return ST_NOMEM;
    enum status st =
        http_wire_init(&c->wire, loop_uv(server->env), &wire_ops, &server->scratch, true);
    if (st != ST_OK) {
        mem_free(c);
        return st;
    }
    c->server = server;
    list_init(&c->owed.link);
    c->owed.close = conn_on_evicted;
    c->timer.fire = conn_on_timer;
    c->phase = CONN_HANDSHAKE;
    list_push(&server->active, &c->link);
    server->n_conns++;
    *ret_conn = c;
    return ST_OK;
}

void http_conn_open(struct http_conn *c, struct tls_conn *tls, bool secured)
{
    const struct http_proxy *proxy = c->server->proxy;
    bool awaits = proxy != NULL && proxy->mode != HTTP_PROXY_OFF && !secured;
    bool failed = awaits && http_wire_await_proxy(&c->wire) != ST_OK;
    conn_move(c, awaits || (tls != NULL && !secured) ? CONN_HANDSHAKE : CONN_IDLE);
    if (http_wire_start(&c->wire, tls, secured) != ST_OK || failed)
        http_conn_close(c);
}
