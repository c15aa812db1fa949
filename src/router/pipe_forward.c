/* Calls that another node runs (PROTOCOL R4, R14). */
#include "router/pipe.h"

static void on_timer(struct env_timer *timer)
{
    struct pipe *p = CONTAINER_OF(timer, struct pipe, timer);
    p->result = ST_OK;
    pipe_step(p);
}

/* To the node that forwarded the call: it knows the client and looks for the leader. */
void pipe_hand_back(struct pipe *p, enum status st)
{
    ASSERT(p->call->forwarded);
    answer_done(&p->answer);
    p->answer.retry = st;
    pipe_finish(p);
}

void pipe_forget_reason(struct pipe *p)
{
    p->req.error.text[0] = '\0';
}

/* Why there is no active node, where that is known. */
static void explain(struct pipe *p, enum status st)
{
    struct router_host *host = p->req.host;
    if (st == ST_NO_LEADER)
        (void)host->node_ops->no_quorum(host->node, &p->req.error); /* else the status says it */
    else if (st == ST_UNINITIALIZED)
        (void)host->awaits_members(host, &p->req.error); /* else the status says it */
}

/* No node can take the call now: look again, or give up. Without a quorum there is nothing to wait
 * for, unless an earlier try may have taken effect: a later answer may tell. */
void pipe_wait(struct pipe *p, enum status st)
{
    uint64_t now_ms = env_mono_ms(p->worker->env);
    if (p->call->forwarded) {
        pipe_hand_back(p, ST_NOT_LEADER);
        return;
    }
    answer_done(&p->answer);
    pipe_forget_reason(p);
    bool hopeless = p->node.no_quorum && !p->unknown;
    if (now_ms >= p->deadline_ms || p->call->given_up || hopeless) {
        bool changes = p->stages || !stage_reads(&p->req);
        explain(p, p->unknown && changes ? ST_UNKNOWN_OUTCOME : st);
        pipe_fail(p, p->unknown && changes ? ST_UNKNOWN_OUTCOME : st);
        return;
    }
    pipe_move(p, PIPE_WAITING);
    p->timer.fire = on_timer;
    env_timer_set(p->worker->env, &p->timer, now_ms + PIPE_WAIT_MS);
}

/* Few are sent on: the others have no room for it. */
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

/* An id makes a second try of a write harmless, but not of what is done outside the state. */
static bool is_repeatable(const struct pipe *p)
{
    const struct route *route = p->req.route;
    return !p->call->streamed && p->call->body.len <= ROUTER_WHOLE_BYTES_MAX &&
           (route == NULL || route->outside == NULL);
}

void pipe_forwarded(struct pipe *p)
{
    enum status st = p->result;
    if (st == ST_OK) {
        p->answer = p->forward->answer;
        pipe_finish(p);
        return;
    }
    bool untouched = st == ST_NOT_LEADER || st == ST_NO_LEADER || st == ST_BUSY;
    if (!untouched) {
        p->unknown = true;
        if (!stage_reads(&p->req) && !is_repeatable(p)) {
            pipe_fail(p, ST_UNKNOWN_OUTCOME);
            return;
        }
    }
    st = st == ST_BUSY ? ST_BUSY : ST_NO_LEADER;
    if (p->forward->body_taken)
        pipe_fail(p, st);
    else
        pipe_wait(p, st);
}

/* The client asked to be sent there itself. */
static void redirect(struct pipe *p, const struct node_status *node)
{
    const struct router_call *call = p->call;
    bool query = call->query.len != 0;
    struct bytes path;
    if (node->leader_address[0] == '\0') {
        pipe_fail(p, ST_NO_LEADER);
        return;
    }
    if (path_encode(p->req.arena, &call->target, &path) != ST_OK) {
        pipe_fail(p, ST_NOMEM);
        return;
    }
    const char *to = arena_format(p->req.arena, "%s%.*s%s%.*s", node->leader_address, (int)path.len,
                                  (const char *)path.data, query ? "?" : "", (int)call->query.len,
                                  query ? (const char *)call->query.data : "");
    if (to == NULL) {
        pipe_fail(p, ST_NOMEM);
        return;
    }
    p->answer.http = 307;
    if (!answer_add_header(&p->answer, p->req.arena, BYTES("Location"), bytes_str(to)))
        pipe_fail(p, ST_NOMEM);
    else
        pipe_finish(p);
}

static bool asks_redirect(const struct router_call *call)
{
    return call->header(call, "x-secrets-no-request-forwarding").data != NULL ||
           call->header(call, "x-vault-no-request-forwarding").data != NULL;
}

void pipe_forward(struct pipe *p)
{
    const struct router_host *host = p->req.host;
    struct node_status node;
    pipe_end_txn(p);
    answer_done(&p->answer);
    host->node_ops->status(host->node, &node);
    if (!p->call->forwarded && asks_redirect(p->call)) {
        redirect(p, &node);
        return;
    }
    if (p->call->forwarded || p->call->given_up || !node.has_leader) {
        pipe_wait(p, ST_NO_LEADER);
        return;
    }
    /* A read, too, may count a use of its token. */
    if (!pipe_id_given(&p->id) && !p->call->streamed) {
        env_random(p->worker->env, p->id.bytes, sizeof p->id.bytes);
        p->id.issued = node.version;
    }
    if (!make_sending(p)) {
        pipe_fail(p, ST_NOMEM);
        return;
    }
    pipe_move(p, PIPE_FORWARDING);
    atomic_fetch_add(&p->worker->forwards, 1);
    /* An active node that hangs must not cost all of the patience: another takes its place. */
    uint64_t try_ms = pipe_has_flag(p, ROUTE_LONG) ? PIPE_LONG_TRY_MS
                      : is_repeatable(p)           ? PIPE_TRY_MS
                                                   : PIPE_ONLY_TRY_MS;
    *p->forward = (struct router_forward){.call = p->call,
                                          .env = p->worker->env,
                                          .id = p->id,
                                          .again = p->unknown,
                                          .deadline_ms = env_mono_ms(p->worker->env) + try_ms,
                                          .done = on_forwarded};
    p->call->forward(p->call, p->forward);
}
