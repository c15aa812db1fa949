#include "router/body.h"
#include "router/stages.h"
#include "router/worker.h"

#include "base/mem.h"
#include "base/trace.h"

#include <string.h>

/* A call on its way.
 *
 *   CHOOSING ──┬─▶ FORWARDING ──────────────────────────────┐
 *      ▲       ├─▶ PARSING ─▶ READING ─┐                    │
 *      │       │      └──────────────▶ RUNNING ◀─┐          │
 *   WAITING ◀──┘                         │       │ conflict │
 *      ▲                        RECORDING_REQUEST│          │
 *      │ not the leader                  │       │          │
 *      └──────────────────── COMMITTING ◀┤───────┤          │
 *                                │    CONFIRMING ┘          │
 *                                ▼       ▼                  │
 *                                OUTSIDE                    │
 *                                   ▼                       ▼
 *                             RECORDING_ANSWER ─────────▶ DONE
 *
 * Phases in which nothing has to be waited for are passed through at once. */
enum pipe_phase {
    PIPE_CHOOSING,
    PIPE_WAITING,
    PIPE_FORWARDING,
    PIPE_PARSING,
    PIPE_READING,
    PIPE_RUNNING,
    PIPE_RECORDING_REQUEST,
    PIPE_COMMITTING,
    PIPE_CONFIRMING,
    PIPE_OUTSIDE,
    PIPE_RECORDING_ANSWER,
    PIPE_DONE,
};

enum {
    PIPE_RERUNS_MAX = 100,
    PIPE_WAIT_MS = 25,        /* between looks for an active node */
    PIPE_PATIENCE_MS = 10000, /* how long one is looked for */
    PIPE_TRY_MS = 3000,       /* for one try that may be followed by another */
    PIPE_ONLY_TRY_MS = 60000, /* for one that may not */
    PIPE_RETRY_BYTES_MAX = 1024 * 1024,
};

struct pipe {
    struct req req;
    struct router_worker *worker;
    struct router_call *call;
    enum pipe_phase phase;
    enum status result; /* of the phase that ended */
    enum status front;  /* what the stages before the handler came to */
    uint64_t deadline_ms;
    unsigned reruns;
    bool recorded; /* the request record was accepted */
    bool changed;  /* writes were committed */
    bool unknown;  /* a try may have taken effect */
    struct node_status node;
    struct rlog_request_id id;
    struct router_answer answer;
    struct buf stored; /* the answer as kept with the id */
    struct state_txn txn;
    struct state_mark mark;
    struct state_read read;
    struct state_commit commit;
    struct state_confirm confirm;
    struct audit_op audit;
    struct env_work parse, outside;
    struct bytes content_type;
    struct reason parse_why;
    struct env_timer timer;
    struct router_forward forward;
};

static void choose(struct pipe *p);
static void begin(struct pipe *p);
static void run(struct pipe *p);
static void handle(struct pipe *p);
static void finish(struct pipe *p);
static void pipe_step(struct pipe *p);

static void move(struct pipe *p, enum pipe_phase phase)
{
    ASSERT(p->phase != PIPE_DONE);
    p->phase = phase;
}

static bool id_given(const struct rlog_request_id *id)
{
    static const uint8_t none[sizeof id->bytes];
    return memcmp(id->bytes, none, sizeof none) != 0;
}

/* What a transaction leaves behind once it has ended. */
static void end_txn(struct pipe *p)
{
    state_end(&p->txn);
    while (p->req.cleanups != NULL) {
        struct req_cleanup *cleanup = p->req.cleanups;
        p->req.cleanups = cleanup->next;
        cleanup->run(cleanup);
    }
    p->req.txn = NULL;
}

static void respond(struct pipe *p)
{
    struct router_worker *worker = p->worker;
    struct router_call *call = p->call;
    struct router_answer answer = p->answer;

    move(p, PIPE_DONE);
    end_txn(p);
    if (p->commit.done != NULL)
        state_commit_done(&p->commit);
    buf_done(&p->stored);
    buf_done(&p->req.reply.data);
    ASSERT(worker->running > 0);
    worker->running--;
    call->respond(call, &answer); /* last touch: the arena, and so p, may be gone */
    buf_done(&answer.body);
}

static void fail(struct pipe *p, enum status st)
{
    answer_done(&p->answer);
    answer_error(&p->answer, st, &p->req.error);
    finish(p);
}

/* Recording (PROTOCOL R20) */

static void on_recorded(struct audit_op *op, enum status st)
{
    struct pipe *p = CONTAINER_OF(op, struct pipe, audit);
    p->result = st;
    pipe_step(p);
}

static struct audit_facts facts_of(const struct pipe *p, enum audit_kind kind)
{
    const struct req *req = &p->req;
    const struct auth_token *token = req->token;
    struct audit_facts facts = {
        .kind = kind,
        .time_ms = req->now_ms,
        .request_id = req->request_id,
        .operation = stage_operation(req->method),
        .ns = req->ns,
        .peer = p->call->peer,
        .path = req->path,
        .token = req->bearer,
        .mount_type = req->api != NULL ? req->api->type : NULL,
    };
    if (token != NULL) {
        facts.accessor = token->accessor;
        facts.display_name = token->display_name;
        facts.token_type = token->type;
        facts.policies = token->policies.items;
        facts.n_policies = token->policies.n;
    }
    if (kind == AUDIT_RESPONSE)
        facts.status = p->answer.http;
    return facts;
}

static bool record(struct pipe *p, enum audit_kind kind, const char *error)
{
    struct audit_facts facts = facts_of(p, kind);
    facts.error = error;
    p->audit = (struct audit_op){.done = on_recorded};
    p->result = audit_record(&p->worker->audit, p->worker->seat, &facts, &p->audit);
    return p->result == ST_OK;
}

static void answer_recorded(struct pipe *p)
{
    if (p->result != ST_OK) {
        reason_set(&p->req.error, p->changed
                                      ? "the change was made, but it could not be recorded by any "
                                        "audit device"
                                      : "the answer could not be recorded by any audit device");
        answer_done(&p->answer);
        answer_error(&p->answer, ST_INTERNAL, &p->req.error);
    }
    respond(p);
}

static void finish(struct pipe *p)
{
    if (!p->recorded || p->answer.retry != ST_OK) {
        respond(p);
        return;
    }
    move(p, PIPE_RECORDING_ANSWER);
    if (!record(p, AUDIT_RESPONSE, p->answer.http >= 400 ? p->req.error.text : NULL))
        answer_recorded(p);
}

/* Waiting and forwarding (PROTOCOL R4, R14) */

static void on_timer(struct env_timer *timer)
{
    struct pipe *p = CONTAINER_OF(timer, struct pipe, timer);
    p->result = ST_OK;
    pipe_step(p);
}

/* To the node that forwarded the call: it knows the client and looks for the leader. */
static void hand_back(struct pipe *p, enum status st)
{
    ASSERT(p->call->forwarded);
    answer_done(&p->answer);
    p->answer.retry = st;
    finish(p);
}

/* Nobody could take the call now: look again, or give up. */
static void wait(struct pipe *p, enum status st)
{
    uint64_t now_ms = env_mono_ms(p->worker->env);
    if (p->call->forwarded) {
        hand_back(p, ST_NOT_LEADER);
        return;
    }
    answer_done(&p->answer);
    if (now_ms >= p->deadline_ms) {
        fail(p, p->unknown ? ST_UNKNOWN_OUTCOME : st);
        return;
    }
    move(p, PIPE_WAITING);
    env_timer_set(p->worker->env, &p->timer, now_ms + PIPE_WAIT_MS);
}

static void on_forwarded(struct router_forward *f, enum status st)
{
    struct pipe *p = CONTAINER_OF(f, struct pipe, forward);
    p->result = st;
    pipe_step(p);
}

/* An id makes a second try of a write harmless, but not of what is done outside the state. */
static bool is_repeatable(const struct pipe *p)
{
    const struct route *route = p->req.route;
    return p->call->body.len <= PIPE_RETRY_BYTES_MAX && (route == NULL || route->outside == NULL);
}

static void forwarded(struct pipe *p)
{
    enum status st = p->result;
    if (st == ST_OK) {
        p->answer = p->forward.answer;
        finish(p);
        return;
    }
    bool untouched = st == ST_NOT_LEADER || st == ST_NO_LEADER;
    if (!untouched && !stage_reads(&p->req)) {
        p->unknown = true;
        if (!is_repeatable(p)) {
            fail(p, ST_UNKNOWN_OUTCOME);
            return;
        }
    }
    wait(p, ST_NO_LEADER);
}

/* The client asked to be sent there itself. */
static void redirect(struct pipe *p)
{
    const struct router_call *call = p->call;
    bool query = call->query.len != 0;
    if (p->node.leader_address[0] == '\0') {
        fail(p, ST_NO_LEADER);
        return;
    }
    const char *to =
        arena_format(p->req.arena, "%s%.*s%s%.*s", p->node.leader_address, (int)call->path.len,
                     (const char *)call->path.data, query ? "?" : "", (int)call->query.len,
                     query ? (const char *)call->query.data : "");
    if (to == NULL) {
        fail(p, ST_NOMEM);
        return;
    }
    p->answer.http = 307;
    p->answer.headers[p->answer.n_headers++] =
        (struct http_header){BYTES("Location"), bytes_str(to)};
    finish(p);
}

static bool asks_redirect(const struct router_call *call)
{
    return call->header(call, "x-secrets-no-request-forwarding").data != NULL ||
           call->header(call, "x-vault-no-request-forwarding").data != NULL;
}

static void forward(struct pipe *p)
{
    struct router_host *host = p->req.host;
    end_txn(p);
    answer_done(&p->answer);
    if (!p->call->forwarded && asks_redirect(p->call)) {
        redirect(p);
        return;
    }
    if (p->call->forwarded || !p->node.has_leader) {
        wait(p, ST_NO_LEADER);
        return;
    }
    if (!id_given(&p->id) && !stage_reads(&p->req)) {
        env_random(p->worker->env, p->id.bytes, sizeof p->id.bytes);
        p->id.issued = p->node.version;
    }
    move(p, PIPE_FORWARDING);
    atomic_fetch_add(&p->worker->forwards, 1);
    /* An active node that hangs must not cost all of the patience: another takes its place. */
    uint64_t try_ms = is_repeatable(p) ? PIPE_TRY_MS : PIPE_ONLY_TRY_MS;
    p->forward = (struct router_forward){.call = p->call,
                                         .id = p->id,
                                         .deadline_ms = env_mono_ms(p->worker->env) + try_ms,
                                         .done = on_forwarded};
    host->forward(host, p->worker->env, &p->forward);
}

/* Choosing where to run */

static bool leads(const struct node_status *node)
{
    return node->leader_name[0] != '\0' && strcmp(node->leader_name, node->name) == 0;
}

static bool has_flag(const struct pipe *p, unsigned flag)
{
    return p->req.route != NULL && (p->req.route->flags & flag) != 0;
}

/* A route about the node that needs no state. */
static void run_plain(struct pipe *p)
{
    struct req *req = &p->req;
    enum status st = req->route->handler(req);
    answer_make(req, st, &p->answer);
    finish(p);
}

static void on_parsed(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, parse);
    pipe_step(p);
}

static void run_parse(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, parse);
    const struct router_call *call = p->call;
    p->result =
        body_parse(p->req.arena, p->req.method, call->body, call->header(call, "content-type"),
                   p->req.query, &p->req.data, &p->parse_why);
}

static void parsed(struct pipe *p)
{
    if (p->result != ST_OK) {
        p->req.error = p->parse_why;
        fail(p, p->result);
        return;
    }
    begin(p);
}

/* This node runs the call: read the body, once. */
static void run_here(struct pipe *p)
{
    if (p->req.data != NULL) {
        begin(p);
        return;
    }
    move(p, PIPE_PARSING);
    p->content_type = p->call->header(p->call, "content-type");
    p->parse = (struct env_work){.run = run_parse, .done = on_parsed, .lane = LANE_POOL};
    if (p->call->body.len > BODY_POOL_BYTES) {
        env_work(p->worker->env, &p->parse);
        return;
    }
    run_parse(&p->parse);
    parsed(p);
}

static void choose(struct pipe *p)
{
    const struct route *route = p->req.route;
    struct router_host *host = p->req.host;

    move(p, PIPE_CHOOSING);
    host->status(host, &p->node);
    if (has_flag(p, ROUTE_NODE) && route->auth == AUTH_NONE)
        run_plain(p);
    else if (has_flag(p, ROUTE_LEADER) && !leads(&p->node))
        forward(p);
    else if (has_flag(p, ROUTE_LEADER))
        run_here(p);
    else if (!p->node.initialized || p->node.sealed)
        fail(p, ST_SEALED);
    else if (p->node.active || has_flag(p, ROUTE_NODE))
        run_here(p);
    else if (p->node.perf_standby && stage_reads(&p->req) && !has_flag(p, ROUTE_ACTIVE))
        run_here(p);
    else
        forward(p);
}

/* Running */

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
        wait(p, ST_NO_LEADER);
    else
        fail(p, p->result);
}

/* Reads are confirmed before they run, so that they run once; writes after (state.h). */
static void begin(struct pipe *p)
{
    if (stage_reads(&p->req) && !has_flag(p, ROUTE_NODE)) {
        move(p, PIPE_READING);
        p->read = (struct state_read){.done = on_read};
        state_read_begin(p->worker->state, &p->read);
        return;
    }
    p->read = (struct state_read){0};
    run(p);
}

/* Everything before the handler, in a fresh transaction. */
static enum status run_stages(struct pipe *p)
{
    struct req *req = &p->req;
    bool open = has_flag(p, ROUTE_OPEN_METRICS) && p->call->open_metrics;

    TRY(stage_route(req, p->worker->router));
    bool free = req->matched == ST_OK && (req->route->auth == AUTH_NONE || open);
    if (!free) {
        TRY(stage_authenticate(req, p->call));
        p->mark = state_mark(&p->txn);
        TRY(stage_authorise(req));
    }
    if (req->method == METHOD_PATCH)
        TRY(body_check_patch_type(p->content_type, &req->error));
    return body_decode(req);
}

static void reset_reply(struct req *req)
{
    buf_done(&req->reply.data);
    req->reply = (struct req_reply){0};
    req->error.text[0] = '\0';
    req->body = NULL;
}

static void run(struct pipe *p)
{
    struct req *req = &p->req;
    struct router_host *host = req->host;

    move(p, PIPE_RUNNING);
    reset_reply(req);
    req->now_ms = p->read.confirmed ? p->read.time_ms : host->time_ms(host);
    enum status st =
        state_begin(p->worker->state, req->arena, p->read.confirmed ? &p->read : NULL, &p->txn);
    if (st != ST_OK) {
        fail(p, st);
        return;
    }
    req->txn = &p->txn;
    p->mark = state_mark(&p->txn);
    p->front = run_stages(p);
    if (p->front == ST_OK && has_flag(p, ROUTE_ACTIVE) && !p->node.active) {
        forward(p);
        return;
    }
    if (p->recorded || !audit_enabled(&p->worker->audit)) {
        handle(p);
        return;
    }
    move(p, PIPE_RECORDING_REQUEST);
    if (!record(p, AUDIT_REQUEST,
                p->front != ST_OK ? answer_error_text(p->front, &req->error) : NULL))
        pipe_step(p);
}

static void request_recorded(struct pipe *p)
{
    if (p->result != ST_OK) {
        reason_set(&p->req.error, "the request could not be recorded by any audit device");
        fail(p, ST_INTERNAL);
        return;
    }
    p->recorded = true;
    handle(p);
}

static void on_outside(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, outside);
    pipe_step(p);
}

static void run_outside(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, outside);
    p->result = p->req.route->outside(&p->req);
}

/* The transaction is over: what the route does outside of it, then the answer. */
static void go_outside(struct pipe *p)
{
    bool due = p->front == ST_OK && p->req.route->outside != NULL && p->answer.http < 300 &&
               !p->commit.repeated;
    end_txn(p);
    if (!due) {
        finish(p);
        return;
    }
    move(p, PIPE_OUTSIDE);
    p->outside = (struct env_work){.run = run_outside, .done = on_outside, .lane = LANE_POOL};
    env_work(p->worker->env, &p->outside);
}

static void outside_done(struct pipe *p)
{
    enum status st = p->result;
    if (st == ST_OK)
        finish(p);
    else if (st == ST_NOT_LEADER)
        wait(p, ST_NO_LEADER); /* nothing was done: where the leader is now it can be */
    else
        fail(p, st);
}

/* A failure of this node rather than a statement about the state: there is nothing to confirm. */
static bool is_breakdown(enum status st)
{
    return st == ST_NOMEM || st == ST_IO || st == ST_CORRUPT || st == ST_INTERNAL ||
           st == ST_CRYPTO || st == ST_SEALED || st == ST_BUSY || st == ST_CLOSED;
}

static void on_committed(struct state_commit *commit, enum status st)
{
    struct pipe *p = CONTAINER_OF(commit, struct pipe, commit);
    p->result = st;
    pipe_step(p);
}

static void commit(struct pipe *p)
{
    enum status st = ST_OK;
    p->commit.done = on_committed;
    p->commit.id = id_given(&p->call->id) ? p->call->id : p->id;
    buf_done(&p->stored);
    if (id_given(&p->commit.id))
        st = answer_encode(&p->answer, &p->stored);
    p->commit.answer = buf_bytes(&p->stored);
    if (st == ST_OK)
        st = state_commit(&p->txn, &p->commit);
    end_txn(p);
    if (st != ST_OK) {
        fail(p, st);
        return;
    }
    move(p, PIPE_COMMITTING);
}

static void on_confirmed(struct state_confirm *confirm, enum status st)
{
    struct pipe *p = CONTAINER_OF(confirm, struct pipe, confirm);
    p->result = st;
    pipe_step(p);
}

static void handle(struct pipe *p)
{
    struct req *req = &p->req;
    enum status st = p->front;
    move(p, PIPE_RUNNING);
    if (st == ST_OK)
        st = req->route->handler(req);
    enum status made = answer_make(req, st, &p->answer);
    if (made == ST_UNSUPPORTED && req->matched == ST_UNSUPPORTED) {
        char *methods = arena_alloc(req->arena, ROUTE_METHODS_TEXT);
        if (methods != NULL) { /* without memory the answer lacks a header */
            route_methods_text(req->allowed, methods);
            p->answer.headers[p->answer.n_headers++] =
                (struct http_header){BYTES("Allow"), bytes_str(methods)};
        }
    }
    if (made != ST_OK && state_rollback(&p->txn, p->mark) != ST_OK) {
        fail(p, ST_NOMEM);
        return;
    }
    if (state_staged(&p->txn)) {
        if (p->node.active || has_flag(p, ROUTE_LEADER))
            commit(p);
        else
            forward(p);
    } else if (is_breakdown(made) || p->read.confirmed || has_flag(p, ROUTE_NODE)) {
        go_outside(p);
    } else {
        move(p, PIPE_CONFIRMING);
        p->confirm = (struct state_confirm){.done = on_confirmed};
        state_confirm(&p->txn, &p->confirm);
    }
}

static void rerun(struct pipe *p)
{
    end_txn(p);
    if (++p->reruns > PIPE_RERUNS_MAX) {
        reason_set(&p->req.error, "changed by other requests again and again");
        fail(p, ST_BUSY);
        return;
    }
    atomic_fetch_add(&p->worker->reruns, 1);
    begin(p);
}

/* An earlier try of the same id was applied: its answer counts, not the one just made. */
static void answer_repeated(struct pipe *p)
{
    enum status st = ST_UNKNOWN_OUTCOME;
    answer_done(&p->answer);
    if (p->commit.has_response)
        st = answer_decode(p->commit.response, p->req.arena, &p->answer);
    else
        reason_set(&p->req.error, "the change was made; its answer was too long to be kept");
    if (st != ST_OK)
        answer_error(&p->answer, st, &p->req.error);
}

static void committed(struct pipe *p)
{
    enum status st = p->result;
    if (st == ST_CONFLICT) {
        rerun(p);
    } else if (st == ST_NOT_LEADER) {
        wait(p, ST_NO_LEADER);
    } else if (st == ST_UNKNOWN_OUTCOME && p->call->forwarded) {
        hand_back(p, st);
    } else if (st == ST_UNKNOWN_OUTCOME && id_given(&p->id)) {
        p->unknown = true;
        wait(p, st);
    } else if (st != ST_OK) {
        fail(p, st);
    } else {
        p->changed = true;
        if (p->commit.repeated)
            answer_repeated(p);
        go_outside(p);
    }
}

static void confirmed(struct pipe *p)
{
    enum status st = p->result;
    if (st == ST_OK) {
        go_outside(p);
    } else if (st == ST_CONFLICT) {
        rerun(p);
    } else {
        end_txn(p);
        if (st == ST_NO_LEADER || st == ST_NOT_LEADER)
            wait(p, ST_NO_LEADER);
        else
            fail(p, st);
    }
}

static void pipe_step(struct pipe *p)
{
    switch (p->phase) {
    case PIPE_WAITING: choose(p); break;
    case PIPE_FORWARDING: forwarded(p); break;
    case PIPE_PARSING: parsed(p); break;
    case PIPE_READING: read_done(p); break;
    case PIPE_RECORDING_REQUEST: request_recorded(p); break;
    case PIPE_COMMITTING: committed(p); break;
    case PIPE_CONFIRMING: confirmed(p); break;
    case PIPE_OUTSIDE: outside_done(p); break;
    case PIPE_RECORDING_ANSWER: answer_recorded(p); break;
    case PIPE_CHOOSING:
    case PIPE_RUNNING:
    case PIPE_DONE: ASSERT(p->phase == PIPE_WAITING); break; /* nothing ends in these */
    }
}

/* Without room for a pipe: answer at once. */
static void refuse(struct router_call *call, enum status st)
{
    struct router_answer answer = {0};
    answer_error(&answer, st, NULL);
    call->respond(call, &answer);
    buf_done(&answer.body);
}

void router_handle(struct router_worker *worker, struct router_call *call)
{
    const struct router *router = worker->router;
    atomic_fetch_add(&worker->calls, 1);
    if (worker->running >= worker->inflight_max) {
        atomic_fetch_add(&worker->refused, 1);
        refuse(call, ST_BUSY);
        return;
    }
    struct pipe *p = arena_zalloc(call->arena, sizeof *p);
    char *request_id = arena_alloc(call->arena, AUTH_UUID_LEN + 1);
    if (p == NULL || request_id == NULL) {
        refuse(call, ST_NOMEM);
        return;
    }
    worker->running++;
    auth_uuid(worker->env, request_id);
    p->worker = worker;
    p->call = call;
    p->deadline_ms = env_mono_ms(worker->env) + PIPE_PATIENCE_MS;
    p->timer.fire = on_timer;
    p->req = (struct req){.arena = call->arena,
                          .env = worker->env,
                          .seat = worker->seat,
                          .host = router->options.host,
                          .request_id = request_id};
    enum status st = stage_target(&p->req, router, call);
    if (st != ST_OK)
        fail(p, st);
    else
        choose(p);
}
