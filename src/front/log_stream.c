#include "front/log_stream.h"

#include "base/trace_tail.h"

#include <stdatomic.h>

enum { PIECE_BYTES = 32 * 1024, LOOK_EVERY_MS = 100 };

/* WAITING (timer) ─▶ SENDING ─▶ WAITING …; the stream is the request's `user` until the reply ends.
 * While a piece is being sent, the follower keeps lines, and loses those that do not fit. The HTTP
 * server cuts the connection of a client that does not read the piece. */
struct log_stream {
    struct http_request *req;
    struct reply_log log;
    struct env_timer timer;
    bool sending, gone;
    uint8_t piece[PIECE_BYTES];
};

/* End the reply. Last touch. */
static void finish(struct log_stream *s)
{
    ASSERT(!s->sending);
    env_timer_stop(s->log.env, &s->timer);
    tail_close(s->log.tail);
    http_respond_end(s->req, true);
}

static void send_lines(struct log_stream *s);

static void on_sent(struct http_request *req, enum status st)
{
    struct log_stream *s = req->user;
    ASSERT(s->req == req && s->sending);
    s->sending = false;
    if (st != ST_OK || s->gone)
        finish(s);
    else
        send_lines(s);
}

static void on_time(struct env_timer *timer)
{
    send_lines(CONTAINER_OF(timer, struct log_stream, timer));
}

/* Send the lines that have come, or wait for more. Maybe last touch. */
static void send_lines(struct log_stream *s)
{
    ASSERT(!s->sending && !s->gone);
    size_t n = tail_take(s->log.tail, s->piece, sizeof s->piece);
    if (n != 0) {
        s->sending = true;
        http_respond_piece(s->req, bytes_of(s->piece, n), on_sent);
    } else if (atomic_load(s->log.leaving)) {
        finish(s);
    } else {
        env_timer_set(s->log.env, &s->timer, env_mono_ms(s->log.env) + LOOK_EVERY_MS);
    }
}

static void on_gone(struct http_request *req)
{
    struct log_stream *s = req->user;
    ASSERT(s->req == req && !s->gone);
    s->gone = true;
    if (!s->sending)
        finish(s);
}

void log_stream_start(struct http_request *req, struct reply_log log)
{
    struct log_stream *s = arena_zalloc(&req->arena, sizeof *s);
    if (s == NULL) {
        tail_close(log.tail);
        http_respond_end(req, false);
        return;
    }
    s->req = req;
    s->log = log;
    s->timer.fire = on_time;
    req->user = s;
    http_on_gone(req, on_gone);
    s->sending = true;
    http_respond_piece(req, (struct bytes){0},
                       on_sent); /* tells of a client that has gone already */
}
