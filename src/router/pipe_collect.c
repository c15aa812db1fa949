/* Long bodies, which are not read when their request comes in: first their sender is judged, then
 * they are read into memory, or stream to the active node.
 *
 * A standby reads what is short enough to be sent again with an id (PROTOCOL R14); a body of
 * unknown length streams. */
#include "router/pipe.h"

/* The stages of an upload judge its sender, and its body goes into a file. */
static bool is_upload(const struct pipe *p)
{
    return pipe_has_flag(p, ROUTE_UPLOAD) && p->call->receive != NULL;
}

bool pipe_is_unread(const struct pipe *p)
{
    return p->call->streamed && (p->elsewhere || !is_upload(p));
}

static void on_collected(struct router_collect *collect, enum status st)
{
    struct pipe *p = CONTAINER_OF(collect, struct pipe_more, collect)->pipe;
    p->result = st;
    pipe_step(p);
}

void pipe_take_body(struct pipe *p)
{
    bool whole = !p->elsewhere || p->call->body_length <= ROUTER_WHOLE_BYTES_MAX;
    ASSERT(p->judged && p->call->streamed);
    if (is_upload(p) || !whole) {
        pipe_forward(p);
        return;
    }
    if (pipe_need_more(p) != ST_OK) {
        pipe_fail(p, ST_NOMEM);
        return;
    }
    pipe_move(p, PIPE_COLLECTING);
    p->more->collect = (struct router_collect){.done = on_collected};
    p->call->collect(p->call, &p->more->collect);
}

/* The time to find an active node begins once the body is complete. */
void pipe_collected(struct pipe *p)
{
    if (p->result != ST_OK || p->call->given_up) {
        pipe_fail_body(p, p->result);
        return;
    }
    ASSERT(!p->call->streamed);
    p->deadline_ms = env_mono_ms(p->worker->env) + PIPE_PATIENCE_MS;
    pipe_choose(p);
}

void pipe_fail_body(struct pipe *p, enum status st)
{
    struct reason *why = &p->req.error;
    switch (st) {
    case ST_OK: /* complete, but too late: its sender was told that nothing is changed */
    case ST_CLOSED:
    case ST_INVALID:
        st = req_fail(&p->req, ST_INVALID, "the request body broke off or is malformed");
        break;
    case ST_TIMEOUT: reason_set(why, "the request body arrives too slowly"); break;
    case ST_TOO_BIG: reason_set(why, "http: request body too large"); break;
    case ST_BUSY: reason_set(why, "too many request bodies are being received"); break;
    default: break;
    }
    answer_done(&p->answer);
    answer_error(&p->answer, st, why);
    p->answer.http = status_http(st); /* 408: the client is late, not the cluster */
    pipe_finish(p);
}
