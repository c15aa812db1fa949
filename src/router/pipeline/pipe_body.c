/* Bodies that were not read with the head of their request, and bodies that take long to parse.
 *
 * A long body is read only after its sender was found to have a right on the path. The body is then
 * read into memory, or streams to the active node. A standby reads a body into memory if it is
 * short enough to be sent again with an id (PROTOCOL R14). A body of unknown length streams. */
#include "router/pipeline/pipe_phases.h"
#include "router/request/body.h"
#include "text/cidr.h"

/* Whether the request is an upload: the sender is authorised first, then the body goes into a
 * file. */
static bool is_upload(const struct pipe *p)
{
    return pipe_uploads(p) && p->request->receive != NULL;
}

bool pipe_is_unread(const struct pipe *p)
{
    return p->request->streamed && (p->place == PIPE_ACTIVE_NODE || !is_upload(p));
}

enum pipe_phase pipe_take_body(struct pipe *p)
{
    bool whole = p->place != PIPE_ACTIVE_NODE || p->request->body_length <= ROUTER_WHOLE_BYTES_MAX;
    ASSERT(p->request->streamed);
    ASSERT(p->verdict == ST_OK);
    return is_upload(p) || !whole ? pipe_forward(p) : PIPE_COLLECTING;
}

static void on_collected(struct router_collect *collect, enum status st)
{
    struct pipe *p = CONTAINER_OF(collect, struct pipe_more, collect)->pipe;
    p->result = st;
    pipe_step(p);
}

enum pipe_phase pipe_collect(struct pipe *p)
{
    if (pipe_need_more(p) != ST_OK)
        return pipe_fail(p, ST_NOMEM);
    p->more->collect = (struct router_collect){.done = on_collected};
    p->request->collect(p->request, &p->more->collect);
    return PIPE_PENDING;
}

/* The reply when a body does not arrive. */
static enum pipe_phase fail_body(struct pipe *p, enum status st)
{
    struct reason *why = req_reason(&p->req);
    ASSERT(p->req.txn == NULL);
    switch (st) {
    case ST_OK: /* the body is complete, but the client was told that nothing has changed */
    case ST_CLOSED:
    case ST_INVALID:
        st = req_fail(&p->req, ST_INVALID, "the request body broke off or is malformed");
        break;
    case ST_TIMEOUT: reason_set(why, "the request body arrives too slowly"); break;
    case ST_TOO_BIG: reason_set(why, "%s", p->req.dialect->body_too_long_text); break;
    case ST_BUSY: reason_set(why, "too many request bodies are being received"); break;
    default: break;
    }
    p->failure = st;
    reply_done(&p->reply);
    reply_error(&p->reply, p->req.dialect, st, why);
    if (st == ST_TIMEOUT)
        p->reply.http = status_http(st); /* 408: the client is late, not the cluster */
    return pipe_end(p);
}

/* The time to find an active node begins when the body is complete. */
enum pipe_phase pipe_collect_done(struct pipe *p)
{
    if (p->result != ST_OK || p->request->given_up)
        return fail_body(p, p->result);
    ASSERT(!p->request->streamed);
    p->deadline_ms = env_mono_ms(p->worker->env) + PIPE_PATIENCE_MS;
    return PIPE_CHOOSING;
}

static void on_parsed(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, work);
    pipe_step(p);
}

enum status pipe_parse_into(struct pipe *p, struct arena *arena)
{
    struct req *req = &p->req;
    const struct body_raw raw = {.method = req->method,
                                 .text = p->request->body,
                                 .content_type = p->content_type,
                                 .query = req->query,
                                 .route = req->route};
    struct reason why;
    why.text[0] = '\0';
    enum status st = req->dialect->parse_body(arena, &raw, &req->data, &why);
    if (why.text[0] != '\0')
        reason_set(req_reason(req), "%s", why.text);
    return st;
}

static enum status parse_into(struct pipe *p, struct arena *arena)
{
    atomic_fetch_add(&p->worker->parsed_bytes, p->request->body.len);
    return pipe_parse_into(p, arena);
}

static void run_parse(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, work);
    p->result = parsed_take(p->parsed, p->request->body);
    if (p->result != ST_OK) {
        reason_set(req_reason(&p->req),
                   "too many large request bodies of this client are in memory: "
                   "send fewer at once");
        return;
    }
    p->result = parse_into(p, &p->parsed->arena);
    parsed_settle(p->parsed);
}

static struct http_budget *budget_of(const struct pipe *p)
{
    enum parsed_from from = p->req.token == NULL    ? PARSED_ANONYMOUS
                            : p->request->forwarded ? PARSED_NODES
                                                    : PARSED_CLIENTS;
    return &p->req.host->parsed.of[from];
}

/* Parse the body, once, after its sender was found to have some right on its path. A large body is
 * parsed on the pool; then the phases run again in a transaction of their own. */
enum pipe_phase pipe_parse(struct pipe *p)
{
    ASSERT(p->req.data == NULL && p->parsed == NULL);
    p->content_type = router_header(p->request, "content-type");
    if (parsed_is_small(p->request->body)) {
        enum status st = parse_into(p, p->req.arena);
        return st == ST_OK ? PIPE_AUTHORISING : pipe_fail(p, st);
    }
    const struct ip client = ip_port_ip(p->request->peer);
    enum status st = parsed_new(budget_of(p), &client, &p->parsed);
    if (st != ST_OK)
        return pipe_fail(p, st);
    p->work = (struct env_work){.run = run_parse, .done = on_parsed, .lane = LANE_POOL};
    pipe_end_txn(p);
    env_work(p->worker->env, &p->work);
    return PIPE_PENDING;
}

enum pipe_phase pipe_parse_done(struct pipe *p)
{
    return p->result == ST_OK ? pipe_begin(p) : pipe_fail(p, p->result);
}

static void on_received(struct router_receive *receive, enum status st)
{
    struct pipe *p = CONTAINER_OF(receive, struct pipe_more, receive)->pipe;
    p->result = st;
    pipe_step(p);
}

/* Write the body of an authorised sender into a file. */
enum pipe_phase pipe_receive(struct pipe *p)
{
    ASSERT(pipe_uploads(p));
    ASSERT(p->request->streamed && !pipe_owes_record(p));
    if (pipe_need_more(p) != ST_OK)
        return pipe_fail(p, ST_NOMEM);
    p->more->receive =
        (struct router_receive){.env = p->worker->env, .host = p->req.host, .done = on_received};
    if (p->request->receive(p->request, &p->more->receive) != ST_OK)
        return pipe_fail(p, ST_NOMEM);
    return PIPE_PENDING;
}

enum pipe_phase pipe_receive_done(struct pipe *p)
{
    struct req *req = &p->req;
    req->files.upload = p->more->receive.file;
    req->files.upload_bytes = p->more->receive.bytes;
    return p->result == ST_OK && !p->request->given_up ? PIPE_OUTSIDE : fail_body(p, p->result);
}
