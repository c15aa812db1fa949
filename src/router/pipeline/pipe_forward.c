/* Requests that another node runs (PROTOCOL R4, R14). */
#include "base/plant.h"
#include "router/pipeline/pipe_phases.h"

enum pipe_phase pipe_hand_back(struct pipe *p, enum status st)
{
    ASSERT(p->request->forwarded);
    reply_done(&p->reply);
    p->reply.retry = st;
    return pipe_end(p);
}

/* Set the request's error to the reason why there is no active node, if it is known. */
static void explain(struct pipe *p, enum status st)
{
    struct router_host *host = p->req.host;
    const char *words = p->req.dialect->no_leader_words;
    struct reason why;
    if (st == ST_NO_LEADER && host->node_ops->no_quorum(host->node, &why))
        reason_set(req_reason(&p->req), "%s%s", words != NULL ? words : "", why.text);
    else if (st == ST_UNINITIALIZED)
        (void)host->awaits_members(host, req_reason(&p->req)); /* unknown: the status tells it */
}

/* Without a quorum, fail at once. Exception: if an earlier try may have taken effect, wait, because
 * a later try may get the reply of the earlier try. */
enum pipe_phase pipe_wait(struct pipe *p, enum status st)
{
    bool unknown = p->effect != PIPE_UNCHANGED;
    ASSERT(p->req.txn == NULL);
    if (p->request->forwarded)
        return pipe_hand_back(p, ST_NOT_LEADER);
    reply_done(&p->reply);
    pipe_forget_reason(p);
    bool hopeless = p->node.no_quorum && !unknown;
    if (env_mono_ms(p->worker->env) < p->deadline_ms && !p->request->given_up && !hopeless)
        return PIPE_WAITING;
    bool changes = p->mode == PIPE_RECORDED || !stage_reads(&p->req);
    if (unknown && changes)
        st = ST_UNKNOWN_OUTCOME;
    explain(p, st);
    return pipe_fail(p, st);
}

static void on_timer(struct env_timer *timer)
{
    pipe_step(CONTAINER_OF(timer, struct pipe, timer));
}

enum pipe_phase pipe_wait_begin(struct pipe *p)
{
    p->timer = (struct env_timer){.fire = on_timer};
    env_timer_set(p->worker->env, &p->timer, env_mono_ms(p->worker->env) + PIPE_WAIT_MS);
    return PIPE_PENDING;
}

enum pipe_phase pipe_wait_done(struct pipe *p)
{
    enum status st = p->no_room ? pipe_find_room(p) : ST_OK;
    if (st != ST_OK)
        return pipe_await_room(p, st);
    p->no_room = false;
    return PIPE_CHOOSING;
}

/* Allocated only for a forwarded request, because most requests are not forwarded. */
struct sending {
    struct router_forward forward;
    struct pipe *pipe;
};

static void on_forwarded(struct router_forward *f, enum status st)
{
    struct pipe *p = CONTAINER_OF(f, struct sending, forward)->pipe;
    p->result = st;
    pipe_step(p);
}

static bool make_sending(struct pipe *p)
{
    if (p->forward != NULL)
        return true;
    struct sending *sending = arena_zalloc(p->req.arena, sizeof *sending);
    if (sending == NULL)
        return false;
    sending->pipe = p;
    p->forward = &sending->forward;
    return true;
}

/* An id makes a second try of a write harmless, but not a second run of the step `outside`. The row
 * is unknown where this node's state has no mount for the path. */
static bool is_repeatable(const struct pipe *p)
{
    const struct route *route = p->req.route != NULL ? p->req.route : p->req.likely;
    return !p->request->streamed && p->request->body.len <= ROUTER_WHOLE_BYTES_MAX &&
           route != NULL && route->outside == NULL;
}

enum pipe_phase pipe_send_done(struct pipe *p)
{
    enum status st = p->result;
    ASSERT(p->phase == PIPE_FORWARDING);
    if (st == ST_OK) {
        p->reply = p->forward->reply;
        p->unrecorded = true; /* the node that ran the request has recorded it */
        pipe_hold_reply(p);
        return pipe_end(p);
    }
    if (st == ST_CLOSED && p->forward->waits) { /* the client has gone, or this node leaves */
        p->unrecorded = true;
        return pipe_fail(p, st);
    }
    bool untouched = st == ST_NOT_LEADER || st == ST_NO_LEADER || st == ST_BUSY;
    if (!untouched) {
        p->effect = MAX(p->effect, PIPE_UNKNOWN);
        if (!stage_reads(&p->req) && !is_repeatable(p))
            return pipe_fail(p, ST_UNKNOWN_OUTCOME);
    }
    if (pipe_block_ms(p) != 0) /* the patience begins when the other node ends the wait */
        p->deadline_ms = env_mono_ms(p->worker->env) + PIPE_PATIENCE_MS;
    st = st == ST_BUSY ? ST_BUSY : ST_NO_LEADER;
    return p->forward->body_taken ? pipe_fail(p, st) : pipe_wait(p, st);
}

/* Redirect a client that asked for a redirect instead of forwarding. */
static enum pipe_phase redirect(struct pipe *p, const struct node_status *node)
{
    const struct router_request *request = p->request;
    bool query = request->query.len != 0;
    struct bytes path;
    if (node->leader_address[0] == '\0')
        return pipe_fail(p, ST_NO_LEADER);
    if (path_encode(p->req.arena, &request->target, &path) != ST_OK)
        return pipe_fail(p, ST_NOMEM);
    const char *to = arena_format(
        p->req.arena, "%s%.*s%s%.*s", node->leader_address, (int)path.len, (const char *)path.data,
        query ? "?" : "", (int)request->query.len, query ? (const char *)request->query.data : "");
    if (to == NULL)
        return pipe_fail(p, ST_NOMEM);
    p->reply.http = 307;
    p->unrecorded = true; /* the active node will record the request */
    if (!reply_add_header(&p->reply, p->req.arena, BYTES("Location"), bytes_str(to)))
        return pipe_fail(p, ST_NOMEM);
    return pipe_end(p);
}

static bool asks_redirect(const struct router_request *request)
{
    return request->dialect->asks_redirect != NULL && request->dialect->asks_redirect(request);
}

enum pipe_phase pipe_forward(struct pipe *p)
{
    const struct router_host *host = p->req.host;
    struct node_status node;
    ASSERT(p->place != PIPE_NO_STATE); /* this node itself serves a route that needs no state */
    pipe_end_txn(p);
    reply_done(&p->reply);
    host->node_ops->status(host->node, &node);
    bool answered = p->more != NULL && p->more->answer != NULL;
    if (!p->request->forwarded && !answered && asks_redirect(p->request))
        return redirect(p, &node);
    if (p->request->forwarded || p->request->given_up || !node.has_leader)
        return pipe_wait(p, ST_NO_LEADER);
    /* A read gets an id too, because it may count a use of its token. */
    if ((!pipe_id_given(&p->id) || planted(PLANT_FORWARD_NEW_ID)) && !p->request->streamed) {
        env_random(p->worker->env, p->id.bytes, sizeof p->id.bytes);
        p->id.issued = node.version;
    }
    return make_sending(p) ? PIPE_FORWARDING : pipe_fail(p, ST_NOMEM);
}

/* How long one try may take. A try ends early, so that another node can become active while the
 * request still waits. A route with `prepare` gets more time, which it spends before the commit. */
static uint64_t try_ms(const struct pipe *p)
{
    bool prepares = p->req.route != NULL && p->req.route->prepare != NULL;
    if (pipe_has_flag(p, ROUTE_LONG))
        return PIPE_LONG_TRY_MS;
    if (pipe_block_ms(p) != 0) /* the active node parks it */
        return pipe_block_ms(p) + PIPE_ONLY_TRY_MS;
    return is_repeatable(p) && !prepares ? PIPE_TRY_MS : PIPE_ONLY_TRY_MS;
}

/* Whether the active node stops working for a client that has gone. */
static bool ends_with_client(const struct pipe *p)
{
    const struct route *route = p->req.route;
    return pipe_block_ms(p) != 0 ||
           (route != NULL && route->ends_with_client && !p->request->streamed);
}

enum pipe_phase pipe_send(struct pipe *p)
{
    ASSERT(!p->request->forwarded && p->forward != NULL);
    bool reads = stage_reads(&p->req) && !p->request->streamed && p->effect == PIPE_UNCHANGED;
    enum status room = reads ? pipe_find_room(p) : ST_OK;
    if (room != ST_OK)
        return pipe_await_room(p, room);
    atomic_fetch_add(&p->worker->forwards, 1);
    *p->forward = (struct router_forward){.request = p->request,
                                          .env = p->worker->env,
                                          .id = p->id,
                                          .again = p->effect != PIPE_UNCHANGED,
                                          .answer = p->more != NULL ? p->more->answer : NULL,
                                          .deadline_ms = env_mono_ms(p->worker->env) + try_ms(p),
                                          .waits = ends_with_client(p),
                                          .done = on_forwarded};
    p->request->forward(p->request, p->forward);
    return PIPE_PENDING;
}
