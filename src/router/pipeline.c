/* A call that runs here: its stages and its handler in a transaction, which is then committed or
 * confirmed, as often as others overtake it. */
#include "router/body.h"
#include "router/pipe.h"
#include "router/wrap.h"
#include "text/cidr.h"

static void run(struct pipe *p);
static void record_and_handle(struct pipe *p);
static void handle(struct pipe *p);

static void on_parsed(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, work);
    pipe_step(p);
}

static enum status parse_into(struct pipe *p, struct arena *arena)
{
    atomic_fetch_add(&p->worker->parsed_bytes, p->call->body.len);
    return body_parse(arena, p->req.method, p->call->body, p->content_type, p->req.query,
                      &p->req.data, &p->req.error);
}

static void run_parse(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, work);
    p->result = parsed_take(p->parsed, p->call->body);
    if (p->result != ST_OK) {
        reason_set(&p->req.error, "too many large request bodies of this client are in memory: "
                                  "send fewer at once");
        return;
    }
    p->result = parse_into(p, &p->parsed->arena);
    parsed_settle(p->parsed);
}

static void parsed(struct pipe *p)
{
    if (p->result != ST_OK) {
        pipe_fail(p, p->result);
        return;
    }
    pipe_begin(p);
}

static struct http_budget *budget_of(const struct pipe *p)
{
    enum parsed_from from = p->free              ? PARSED_ANONYMOUS
                            : p->call->forwarded ? PARSED_NODES
                                                 : PARSED_CLIENTS;
    return &p->req.host->parsed.of[from];
}

/* Parse the body, once, after its sender was found to have some right on its path. False: it is
 * large and is parsed on the pool; then the stages run again in a transaction of their own. */
static bool parse(struct pipe *p)
{
    p->content_type = router_header(p->call, "content-type");
    if (parsed_is_small(p->call->body)) {
        p->result = parse_into(p, p->req.arena);
        return true;
    }
    const struct ip client = ip_port_ip(p->call->peer);
    p->result = parsed_new(budget_of(p), &client, &p->parsed);
    if (p->result != ST_OK)
        return true;
    p->work = (struct env_work){.run = run_parse, .done = on_parsed, .lane = LANE_POOL};
    pipe_end_txn(p);
    pipe_move(p, PIPE_PARSING);
    env_work(p->worker->env, &p->work);
    return false;
}

static void on_read(struct state_read *read, enum status st)
{
    struct pipe *p = CONTAINER_OF(read, struct pipe, read);
    p->result = st;
    pipe_step(p);
}

static void read_done(struct pipe *p)
{
    if (p->result == ST_OK)
        run(p);
    else if (p->result == ST_NO_LEADER || p->result == ST_NOT_LEADER)
        pipe_wait(p, ST_NO_LEADER);
    else
        pipe_fail(p, p->result);
}

static void read_first(struct pipe *p)
{
    pipe_move(p, PIPE_READING);
    p->read = (struct state_read){.done = on_read};
    state_read_begin(p->worker->state, &p->read);
}

/* By what this node knows: the call is judged once more where it runs. */
void pipe_judge(struct pipe *p)
{
    p->judging = true;
    p->read = (struct state_read){0};
    run(p);
}

/* Reads are confirmed before they run, so that they run once; writes after, if they staged nothing
 * (state.h). A write whose answer was overtaken is run again as a read is: what it answers then
 * needs no confirmation that could fail again. What needs no active node has to learn the time too.
 */
void pipe_begin(struct pipe *p)
{
    bool first = stage_reads(&p->req) || p->overtaken || pipe_has_flag(p, ROUTE_LEADER);
    if (first && !pipe_is_local(p)) {
        read_first(p);
        return;
    }
    p->read = (struct state_read){0};
    run(p);
}

/* Uses are counted on the active node, but these routes are answered by the node that is asked. So
 * a token with a limited number of uses cannot ask a standby about itself. */
static enum status count_use(struct pipe *p)
{
    if (p->req.token->limited && pipe_is_local(p) && !p->node.active)
        return req_fail(&p->req, ST_INVALID,
                        "a token with a limited number of uses may ask the active node only");
    return stage_use(&p->req);
}

/* Where the call goes and who asks, in a fresh transaction. */
static enum status run_first_stages(struct pipe *p)
{
    struct req *req = &p->req;
    bool open = pipe_has_flag(p, ROUTE_OPEN_METRICS) && p->call->open_metrics;

    req->token = NULL;
    TRY(stage_route(req, p->worker->router));
    p->free = req->matched == ST_OK &&
              (req->route->auth == AUTH_NONE || open ||
               (pipe_has_flag(p, ROUTE_TOKEN_OPTIONAL) && !stage_has_bearer(p->call)));
    if (!p->free) {
        TRY(stage_authenticate(req, p->call));
        if (!p->judging) /* else it is counted where the call goes */
            TRY(count_use(p));
    } else if (!pipe_has_flag(p, ROUTE_LEADER)) {
        req->bearer = stage_bearer(p->call); /* for the handler to judge */
    }
    p->mark = state_mark(&p->txn);
    uint64_t bytes = p->judging ? UINT64_MAX : p->call->body.len;
    return p->free && bytes > BODY_FREE_MAX ? ST_TOO_BIG : ST_OK;
}

/* The token of a ceremony's request, if it has a valid one; a request without one is throttled. */
static enum status admit(struct pipe *p)
{
    struct req *req = &p->req;
    TRY(stage_admit(req, p->call));
    if (req->token != NULL) {
        enum status st = count_use(p);
        p->mark = state_mark(&p->txn);
        return st;
    }
    if (p->call->closed_ceremonies)
        return ST_DENIED;
    if (stage_reads(req) || p->throttled)
        return ST_OK;
    p->throttled = true;
    const struct ip client = ip_port_ip(p->call->peer);
    if (!throttle_take(&req->host->ceremonies, &client, env_mono_ms(p->worker->env)))
        return req_fail(req, ST_LIMITED,
                        "too many calls without a token; one that comes with a "
                        "token which may do this is not counted");
    return ST_OK;
}

/* Authorise by the parsed body, then decode the body. */
static enum status run_last_stages(struct pipe *p)
{
    struct req *req = &p->req;
    if (!p->free)
        TRY(stage_authorise_parameters(req));
    else if (pipe_has_flag(p, ROUTE_CEREMONY))
        TRY(admit(p));
    if (req->method == METHOD_PATCH)
        TRY(body_check_patch_type(p->content_type, &req->error));
    return body_decode(req);
}

/* An earlier try may have changed what the handler now answered about, or may do so yet: only the
 * log can tell, so the id goes through it even with nothing staged. Whichever try comes first is
 * then the only one, and its answer counts (PROTOCOL R14). */
static bool must_settle_id(const struct pipe *p)
{
    return (p->call->again && pipe_id_given(&p->call->id)) || (p->unknown && pipe_id_given(&p->id));
}

static void reset_reply(struct req *req)
{
    buf_done(&req->reply.data);
    buf_done(&req->reply.auth);
    req->reply = (struct req_reply){0};
    req->error.text[0] = '\0';
    req->body = NULL;
    req->told = NULL;
    req->begins_attempt = false;
}

static bool commits_here(const struct pipe *p)
{
    return p->node.active || pipe_has_flag(p, ROUTE_LEADER);
}

/* A confirmed read records its reads only when it stages a write: then it runs once more. */
static bool must_record(struct pipe *p)
{
    p->stages = p->stages || state_staged(&p->txn);
    return p->stages && state_looks_only(&p->txn) && commits_here(p);
}

static void run_recorded(struct pipe *p)
{
    pipe_end_txn(p);
    run(p);
}

/* A failure of this node rather than a statement about the state: there is nothing to confirm. */
static bool is_breakdown(enum status st)
{
    return st == ST_NOMEM || st == ST_IO || st == ST_CORRUPT || st == ST_INTERNAL ||
           st == ST_CRYPTO || st == ST_SEALED || st == ST_BUSY || st == ST_CLOSED;
}

/* A refusal is confirmed first: the token, or a policy, may be newer than what this node knows. */
static void judged(struct pipe *p)
{
    if (p->front == ST_OK) {
        p->judging = false;
        p->judged = true;
        pipe_end_txn(p);
        pipe_take_body(p);
    } else if (p->free || p->read.confirmed || is_breakdown(p->front)) {
        record_and_handle(p);
    } else {
        pipe_end_txn(p);
        read_first(p);
    }
}

static void run(struct pipe *p)
{
    struct req *req = &p->req;
    struct router_host *host = req->host;

    pipe_move(p, PIPE_RUNNING);
    reset_reply(req);
    req->now_ms = p->read.confirmed ? p->read.time_ms : host->node_ops->time_ms(host->node);
    enum status st =
        state_begin(p->worker->state, req->arena, p->read.confirmed ? &p->read : NULL, &p->txn);
    if (st != ST_OK) {
        pipe_fail(p, st);
        return;
    }
    if (p->read.confirmed && !p->stages && !must_settle_id(p))
        state_look_only(&p->txn);
    req->txn = &p->txn;
    p->mark = state_mark(&p->txn);
    p->front = run_first_stages(p);
    if (must_record(p)) {
        run_recorded(p);
        return;
    }
    if (p->front == ST_OK && !p->free)
        p->front = stage_authorise_path(req);
    if (p->judging) {
        judged(p);
        return;
    }
    if (p->front == ST_OK && req->data == NULL) {
        if (!parse(p))
            return;
        if (p->result != ST_OK) {
            parsed(p);
            return;
        }
    }
    if (p->front == ST_OK)
        p->front = run_last_stages(p);
    record_and_handle(p);
}

static void record_and_handle(struct pipe *p)
{
    struct req *req = &p->req;
    if (p->front == ST_OK && pipe_has_flag(p, ROUTE_ACTIVE) && !p->node.active && !p->local) {
        pipe_forward(p);
        return;
    }
    if (p->recorded || !audit_enabled(&p->worker->audit)) {
        handle(p);
        return;
    }
    pipe_move(p, PIPE_RECORDING_REQUEST);
    if (!pipe_record(p, AUDIT_REQUEST,
                     p->front != ST_OK ? answer_error_text(p->front, &req->error) : NULL))
        pipe_step(p);
}

static void request_recorded(struct pipe *p)
{
    if (p->result != ST_OK) {
        reason_set(&p->req.error, "the request could not be recorded by any audit device");
        pipe_fail(p, ST_INTERNAL);
        return;
    }
    p->recorded = true;
    handle(p);
}

/* The client that began an attempt goes on with it however many others come. */
static void keep_share(struct pipe *p)
{
    if (!p->throttled || !p->req.begins_attempt)
        return;
    const struct ip client = ip_port_ip(p->call->peer);
    throttle_hold(&p->req.host->ceremonies, &client);
}

static void on_committed(struct state_commit *commit, enum status st)
{
    struct pipe *p = CONTAINER_OF(commit, struct pipe_more, commit)->pipe;
    p->result = st;
    pipe_step(p);
}

enum status pipe_need_more(struct pipe *p)
{
    if (p->more != NULL)
        return ST_OK;
    p->more = arena_alloc(p->req.arena, sizeof *p->more);
    if (p->more == NULL)
        return ST_NOMEM;
    p->more->pipe = p;
    p->more->commit = (struct state_commit){0}; /* the rest is set before its use */
    p->more->stored = (struct buf){0};
    return ST_OK;
}

static enum status commit_begin(struct pipe *p)
{
    TRY(p->call->given_up ? ST_TIMEOUT : ST_OK);
    TRY(pipe_need_more(p));
    struct state_commit *c = &p->more->commit;
    struct buf *stored = &p->more->stored;
    c->done = on_committed;
    c->id = pipe_id_given(&p->call->id) ? p->call->id : p->id;
    buf_done(stored);
    if (pipe_id_given(&c->id))
        TRY(answer_encode(&p->answer, stored));
    c->answer = buf_bytes(stored);
    return state_commit(&p->txn, c);
}

static void commit(struct pipe *p)
{
    enum status st = commit_begin(p);
    pipe_end_txn(p);
    if (st != ST_OK) {
        pipe_fail(p, st);
        return;
    }
    pipe_move(p, PIPE_COMMITTING);
}

static void on_confirmed(struct state_confirm *confirm, enum status st)
{
    struct pipe *p = CONTAINER_OF(confirm, struct pipe_more, confirm)->pipe;
    p->result = st;
    pipe_step(p);
}

static void handle(struct pipe *p)
{
    struct req *req = &p->req;
    enum status st = p->front;
    pipe_move(p, PIPE_RUNNING);
    if (st == ST_OK)
        st = req->route->handler(req);
    enum status made = answer_make(req, st, &p->answer);
    if (made == ST_OK && req->wrap_ttl_s != 0)
        made = wrap_answer(req, &p->answer);
    if (made != ST_OK && state_rollback(&p->txn, p->mark) != ST_OK) {
        pipe_fail(p, ST_NOMEM);
        return;
    }
    if (state_staged(&p->txn) || (must_settle_id(p) && !is_breakdown(made))) {
        if (must_record(p))
            run_recorded(p);
        else if (commits_here(p))
            commit(p);
        else
            pipe_forward(p);
    } else if (is_breakdown(made) || p->read.confirmed || pipe_is_local(p)) {
        pipe_go_outside(p);
    } else if (pipe_need_more(p) != ST_OK) {
        pipe_fail(p, ST_NOMEM);
    } else {
        pipe_move(p, PIPE_CONFIRMING);
        p->more->confirm = (struct state_confirm){.done = on_confirmed};
        state_confirm(&p->txn, &p->more->confirm);
    }
}

static void rerun(struct pipe *p)
{
    pipe_end_txn(p);
    if (++p->reruns > PIPE_RERUNS_MAX) {
        reason_set(&p->req.error, "changed by other requests again and again");
        pipe_fail(p, ST_BUSY);
        return;
    }
    atomic_fetch_add(&p->worker->reruns, 1);
    pipe_begin(p);
}

/* An earlier try of the same id was applied: its answer counts, not the one just made. */
static void answer_repeated(struct pipe *p)
{
    enum status st = ST_UNKNOWN_OUTCOME;
    answer_done(&p->answer);
    if (p->more->commit.has_response)
        st = answer_decode(p->more->commit.response, p->req.arena, &p->answer);
    else
        reason_set(&p->req.error, "the change was made; its answer was too long to be kept");
    if (st != ST_OK)
        answer_error(&p->answer, st, &p->req.error);
}

static void committed(struct pipe *p)
{
    enum status st = p->result;
    if (st != ST_OK)
        pipe_forget_reason(p);
    if (st == ST_CONFLICT) {
        p->overtaken = false; /* the transaction stages now */
        rerun(p);
    } else if (st == ST_NOT_LEADER) {
        pipe_wait(p, ST_NO_LEADER);
    } else if (st == ST_UNKNOWN_OUTCOME && p->call->forwarded) {
        pipe_hand_back(p, st);
    } else if (st == ST_UNKNOWN_OUTCOME && pipe_id_given(&p->id)) {
        p->unknown = true;
        pipe_wait(p, st);
    } else if (st != ST_OK) {
        pipe_fail(p, st);
    } else {
        p->changed = true;
        keep_share(p);
        if (p->more->commit.repeated)
            answer_repeated(p);
        else if (p->req.told != NULL)
            trace(TRACE_WARN, "router", "%s, asked by %s", p->req.told, p->call->peer);
        pipe_go_outside(p);
    }
}

static void confirmed(struct pipe *p)
{
    enum status st = p->result;
    if (st != ST_OK)
        pipe_forget_reason(p);
    if (st == ST_OK) {
        pipe_go_outside(p);
    } else if (st == ST_CONFLICT) {
        p->overtaken = true;
        rerun(p);
    } else {
        pipe_end_txn(p);
        if (st == ST_NO_LEADER || st == ST_NOT_LEADER)
            pipe_wait(p, ST_NO_LEADER);
        else
            pipe_fail(p, st);
    }
}

void pipe_step(struct pipe *p)
{
    switch (p->phase) {
    case PIPE_WAITING: pipe_choose(p); break;
    case PIPE_FORWARDING: pipe_forwarded(p); break;
    case PIPE_COLLECTING: pipe_collected(p); break;
    case PIPE_PARSING: parsed(p); break;
    case PIPE_READING: read_done(p); break;
    case PIPE_RECORDING_REQUEST: request_recorded(p); break;
    case PIPE_COMMITTING: committed(p); break;
    case PIPE_CONFIRMING: confirmed(p); break;
    case PIPE_RECEIVING: pipe_received(p); break;
    case PIPE_OUTSIDE: pipe_outside_done(p); break;
    case PIPE_RECORDING_ANSWER: pipe_answer_recorded(p); break;
    case PIPE_CHOOSING:
    case PIPE_RUNNING:
    case PIPE_DONE: ASSERT(p->phase == PIPE_WAITING); break; /* nothing ends in these */
    }
}
