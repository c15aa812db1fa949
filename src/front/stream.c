/* Long bodies that pass through a standby, a piece at a time in each direction.
 *
 *   client ──▶ http_body_next ──▶ http_client_write ──▶ active node
 *   client ◀── http_respond_piece ◀── http_client_reply_next ◀── active node
 *
 * A piece is read when the piece before it was written. A request that breaks off is never complete
 * at the active node, and so never executed. */
#include "front/forward.h"
#include "front/front_request.h"
#include "router/request/dialect.h"

enum { REPLY_STALL_MS = 60 * 1000 }; /* longest pause of the active node within a reply */

static struct forward *of(const struct http_request *req)
{
    struct forward *fw = front_request_get(req)->forward;
    ASSERT(fw != NULL && fw->req == req);
    return fw;
}

/* Streaming a request */

enum status stream_body_reserve(struct forward *fw)
{
    ASSERT(!fw->up);
    fw->client = ip_port_ip(fw->f->request->peer);
    if (!http_budget_take(fw->forwarder->streams, &fw->client, 1))
        return ST_BUSY;
    fw->up = true;
    return ST_OK;
}

void stream_body_end(struct forward *fw)
{
    if (!fw->up)
        return;
    http_budget_give(fw->forwarder->streams, &fw->client, 1);
    fw->up = false;
    if (fw->over) /* else a reply came early, and the piece is still being written */
        buf_done(&fw->sent);
    http_on_gone(fw->req, NULL);
}

/* The client's body broke off, or is too slow or too long: end both requests with an error. */
static void broke_off(struct forward *fw, enum status st)
{
    static const struct reason slow = {"the request body arrives too slowly"},
                               broken = {"the request body broke off or is malformed"};
    struct router_reply *reply = &fw->f->reply;
    const struct dialect *dialect = fw->f->request->dialect;
    struct reason large;
    ASSERT(fw->up);
    ASSERT(!fw->over);
    http_client_cancel(&fw->http);
    fw->over = true;
    switch (st) {
    case ST_TIMEOUT: reply_error(reply, dialect, st, &slow); break;
    case ST_TOO_BIG:
        reason_set(&large, "%s", dialect->body_too_long_text);
        reply_error(reply, dialect, st, &large);
        break;
    case ST_CLOSED:
    case ST_INVALID: reply_error(reply, dialect, ST_INVALID, &broken); break;
    default: reply_error(reply, dialect, st, NULL); break;
    }
    forward_finish(fw, ST_OK); /* last touch of the forward */
}

static void on_client_gone(struct http_request *req)
{
    broke_off(of(req), ST_CLOSED);
}

static void on_written(struct http_client_request *request);

static void on_body_piece(struct http_request *req, enum status st, struct bytes piece, bool last)
{
    struct forward *fw = of(req);
    if (!fw->up || fw->over)
        return;
    ASSERT(fw->sent.data == NULL && !fw->up_last);
    if (st == ST_OK) {
        buf_add(&fw->sent, piece);
        st = buf_status(&fw->sent);
    }
    if (st != ST_OK) {
        broke_off(fw, st);
        return;
    }
    fw->up_last = last;
    if (last) /* a client that has sent everything still wants its reply */
        http_on_gone(req, NULL);
    if (piece.len != 0)
        http_client_write(&fw->http, buf_bytes(&fw->sent), on_written);
    if (last)
        http_client_write_end(&fw->http);
}

static void on_written(struct http_client_request *request)
{
    struct forward *fw = CONTAINER_OF(request, struct forward, http);
    ASSERT(!fw->over);
    buf_done(&fw->sent);
    if (fw->up_last || !fw->up)
        return;
    fw->f->body_taken = true;
    http_body_next(fw->req, on_body_piece);
}

/* Write an empty piece first: its end shows that the connection to the active node stands. Nothing
 * is read from the client before, so until then the request can be sent to another node. */
void stream_body_begin(struct forward *fw)
{
    ASSERT(fw->up && !fw->f->body_taken);
    front_request_get(fw->req)->forward = fw;
    http_on_gone(fw->req, on_client_gone);
    http_client_write(&fw->http, (struct bytes){0}, on_written);
}

/* Streaming a reply */

static void cancel(struct forward *fw)
{
    if (!fw->over)
        http_client_cancel(&fw->http);
    fw->over = true;
    buf_done(&fw->sent);
}

static void uncount_reply(struct forward *fw)
{
    if (fw->down_counted)
        http_budget_give(fw->forwarder->streams, &fw->reader, 1);
    fw->down_counted = false;
}

/* End the forward if nothing is under way in either direction; then last touch. */
static void end_if_over(struct forward *fw)
{
    if (!fw->over || !fw->down_begun || fw->down_busy)
        return;
    uncount_reply(fw);
    http_respond_end(fw->req, fw->down_last);
}

static void on_reply_piece(struct http_client_request *request, struct buf *piece, bool last);

static void on_reply_sent(struct http_request *req, enum status st)
{
    struct forward *fw = of(req);
    ASSERT(fw->down_busy);
    fw->down_busy = false;
    buf_done(&fw->piece);
    if (st != ST_OK)
        cancel(fw);
    if (!fw->over && !fw->down_last)
        http_client_reply_next(&fw->http, on_reply_piece);
    end_if_over(fw);
}

static void on_reply_piece(struct http_client_request *request, struct buf *piece, bool last)
{
    struct forward *fw = CONTAINER_OF(request, struct forward, http);
    ASSERT(fw->down_begun);
    ASSERT(!fw->down_busy);
    fw->piece = *piece;
    *piece = (struct buf){0};
    fw->down_last = last;
    fw->down_busy = true;
    http_respond_piece(fw->req, buf_bytes(&fw->piece), on_reply_sent);
}

static void on_reader_gone(struct http_request *req)
{
    struct forward *fw = of(req);
    cancel(fw);
    end_if_over(fw);
}

static void send_reply(struct reply_stream *stream)
{
    struct forward *fw = CONTAINER_OF(stream, struct forward, down);
    ASSERT(!fw->down_begun);
    fw->down_begun = true;
    front_request_get(fw->req)->forward = fw;
    http_on_gone(fw->req, on_reader_gone);
    if (!fw->over)
        http_client_reply_next(&fw->http, on_reply_piece);
    end_if_over(fw);
}

static void drop_reply(struct reply_stream *stream)
{
    uncount_reply(CONTAINER_OF(stream, struct forward, down));
    cancel(CONTAINER_OF(stream, struct forward, down));
}

bool stream_is_read(const struct forward *fw)
{
    enum http_method method = fw->f->request->method;
    return method == METHOD_GET || method == METHOD_LIST || method == METHOD_SCAN;
}

enum status stream_reply_reserve(struct forward *fw)
{
    ASSERT(!fw->down_counted);
    if (!stream_is_read(fw))
        return ST_OK; /* a change was made: its reply must arrive */
    fw->reader = ip_port_ip(fw->f->request->peer);
    fw->down_counted = http_budget_take(fw->forwarder->streams, &fw->reader, 1);
    return fw->down_counted ? ST_OK : ST_BUSY;
}

struct reply_stream *stream_reply(struct forward *fw)
{
    ASSERT(!fw->down_begun);
    fw->http.timeout_ms = REPLY_STALL_MS;
    fw->down = (struct reply_stream){
        .length = http_client_reply_length(&fw->http), .send = send_reply, .drop = drop_reply};
    return &fw->down;
}

void stream_reply_over(struct forward *fw, enum status st)
{
    ASSERT(fw->over && (st != ST_OK || fw->down_last));
    buf_done(&fw->sent);
    end_if_over(fw);
}
