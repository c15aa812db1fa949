/* From a fresh transaction to a request that may run: route, token, rights. */
#include "auth/wrapping.h"
#include "router/pipeline/pipe_phases.h"
#include "router/req_dr.h"
#include "router/request/body.h"
#include "text/cidr.h"

/* A read confirms its version of the state before the handler runs, so the handler runs once. A
 * write that staged nothing is confirmed after the handler (state.h). If this confirmation fails,
 * the write runs again like a read, so its confirmation cannot fail a second time. A request for a
 * PLACE_LEADER is confirmed before the handler too, to learn the cluster's time. */
enum pipe_phase pipe_begin(struct pipe *p)
{
    bool overtaken = p->mode == PIPE_CONFIRMED, unread = pipe_is_unread(p);
    ASSERT(p->req.txn == NULL);
    if (pipe_need_run(p) != ST_OK)
        return pipe_fail(p, ST_NOMEM);
    if (unread && overtaken)
        return PIPE_PRECHECK_READING;
    if (pipe_trusts_version(p)) {
        p->run->read = (struct state_read){
            .confirmed = true, .time_ms = p->req.host->node_ops->time_ms(p->req.host->node)};
        return PIPE_ADMITTING;
    }
    if (!unread && !pipe_is_local(p) &&
        (overtaken || stage_reads(&p->req) || pipe_has_place(p, PLACE_LEADER)))
        return PIPE_READING;
    p->run->read = (struct state_read){0};
    return unread ? PIPE_PRECHECKING : PIPE_ADMITTING;
}

static void on_read(struct state_read *read, enum status st)
{
    struct pipe *p = CONTAINER_OF(read, struct pipe_run, read)->pipe;
    p->result = st;
    pipe_step(p);
}

enum pipe_phase pipe_read(struct pipe *p)
{
    p->run->read = (struct state_read){.done = on_read};
    state_read_begin(p->worker->state, &p->run->read);
    return PIPE_PENDING;
}

enum pipe_phase pipe_read_done(struct pipe *p)
{
    enum status st = p->result;
    if (st == ST_OK)
        return p->phase == PIPE_READING ? PIPE_ADMITTING : PIPE_PRECHECKING;
    if (st == ST_NO_LEADER || st == ST_NOT_LEADER)
        return pipe_wait(p, ST_NO_LEADER);
    return pipe_fail(p, st);
}

/* Whether the log must decide which try of the request counts: an earlier try may have changed the
 * data that the handler read, or may still change them. Then the id is proposed even if the handler
 * staged nothing. Only the try that is applied first takes effect, and its reply counts. */
bool pipe_must_settle_id(const struct pipe *p)
{
    return (p->request->again && pipe_id_given(&p->request->id)) ||
           (p->effect != PIPE_UNCHANGED && pipe_id_given(&p->id));
}

bool pipe_must_record(struct pipe *p)
{
    if (!state_staged(&p->run->txn))
        return false;
    p->mode = PIPE_RECORDED;
    return state_is_read_only(&p->run->txn) && pipe_commits_here(p);
}

static void reset_reply(struct req *req)
{
    buf_done(&req->reply.data);
    buf_done(&req->reply.auth);
    req->reply = (struct req_reply){0};
    req_forget_error(req);
    req->body = NULL;
    req->told = NULL;
    req->begins_attempt = false;
    req->index = 0;
    req->watches = NULL;
}

bool pipe_awaits(const struct pipe *p)
{
    return p->req.awaits && !p->node.no_quorum && p->request->given_up == ST_OK &&
           env_mono_ms(p->worker->env) - p->begun_ms < PIPE_AWAIT_MS;
}

enum pipe_phase pipe_again(struct pipe *p)
{
    ASSERT(p->req.awaits);
    pipe_end_txn(p);
    reply_done(&p->reply);
    pipe_forget_reason(p);
    reset_reply(&p->req);
    p->verdict = ST_OK;
    p->req.awaits = false;
    return PIPE_WAITING;
}

/* Begin a transaction, and clear what an earlier run left. */
static enum status begin_txn(struct pipe *p)
{
    struct req *req = &p->req;
    const struct router_host *host = req->host;
    bool confirmed = pipe_is_confirmed(p);
    ASSERT(req->txn == NULL);

    if ((p->once & PIPE_ONCE_BEGUN) != 0)
        reset_reply(req);
    if (p->more != NULL)
        p->more->stale = p->more->facts != NULL;
    p->once |= PIPE_ONCE_BEGUN;
    req->feature = p->node.feature;
    req->now_ms = confirmed ? p->run->read.time_ms : host->node_ops->time_ms(host->node);
    TRY(state_begin(p->worker->state, req->arena, confirmed ? &p->run->read : NULL, &p->run->txn));
    if (confirmed && p->mode != PIPE_RECORDED && !pipe_must_settle_id(p))
        state_set_read_only(&p->run->txn);
    req->txn = &p->run->txn;
    req->caller = NULL;
    req->steps = (struct req_steps){0};
    p->run->mark = state_mark(&p->run->txn);
    return host->audit != NULL ? pipe_find_devices(p) : ST_OK;
}

/* Whether the route asks for no token. The route must be known. */
static bool is_anonymous(const struct pipe *p)
{
    const struct route *route = p->req.route;
    if (route == NULL || p->req.matched != ST_OK)
        return false;
    if (route_is_open(route) || route->who == WHO_WRAPPING)
        return true; /* `authorise` judges WHO_WRAPPING by the body */
    if (route->who == WHO_DR_TOKEN && p->node.secondary)
        return true; /* `authorise` asks for the DR operation token */
    bool optional = route->who == WHO_OPTIONAL || route->who == WHO_OPTIONAL_RIGHT;
    return (route->who == WHO_LISTENER && p->request->open_metrics) ||
           (optional && !stage_has_bearer(&p->req, p->request));
}

/* Find the route, and the token if the route asks for one. */
static enum status identify(struct pipe *p)
{
    struct req *req = &p->req;
    ASSERT(req->txn == &p->run->txn);
    req->token = NULL;
    req->acl = NULL;
    req->identity = NULL;
    TRY(stage_route(req, p->worker->router));
    if (!is_anonymous(p))
        return stage_authenticate(req, p->request);
    if (!pipe_has_place(p, PLACE_LEADER))
        req->bearer = stage_bearer(req, p->request); /* the handler checks the token itself */
    return ST_OK;
}

/* Refuse a token with a limited number of uses on a standby: only the active node counts uses, but
 * a standby serves routes about itself without asking the active node. */
static enum status count_use(struct pipe *p)
{
    if (p->req.token->limited && pipe_is_local(p) && !p->node.active)
        return req_fail(&p->req, ST_INVALID,
                        "a token with a limited number of uses may ask the active node only");
    TRY(stage_use(&p->req));
    p->run->mark =
        state_mark(&p->run->txn); /* the count stays staged, even when the handler fails */
    return ST_OK;
}

static enum status judge_path(struct pipe *p)
{
    if (p->devices != NULL)
        stage_note_creation(&p->req);
    return stage_authorise_path(&p->req);
}

/* Decide by the path alone whether the sender may send the body. The state of this node is enough
 * to allow the body, because the node that runs the request authorises it again. A refusal is
 * confirmed first: the token or a policy may be newer than this node's state. The node that runs
 * the request counts the use of the token. */
enum pipe_phase pipe_precheck(struct pipe *p)
{
    ASSERT(pipe_is_unread(p));
    enum status st = begin_txn(p);
    if (st != ST_OK)
        return pipe_fail(p, st);
    p->verdict = identify(p);
    bool anonymous = is_anonymous(p);
    if (p->verdict == ST_OK)
        p->verdict = !anonymous        ? judge_path(p)
                     : pipe_uploads(p) ? ST_OK /* the active node judges its signature */
                                       : ST_TOO_BIG;
    if (p->verdict == ST_OK) {
        pipe_end_txn(p);
        return pipe_take_body(p);
    }
    if (anonymous || pipe_is_confirmed(p) || pipe_is_breakdown(p->verdict))
        return pipe_go_run(p);
    pipe_end_txn(p);
    return PIPE_PRECHECK_READING;
}

static enum status admit_sender(struct pipe *p)
{
    TRY(identify(p));
    if (p->req.token != NULL)
        return count_use(p);
    return p->request->body.len > BODY_FREE_MAX ? ST_TOO_BIG : ST_OK;
}

enum pipe_phase pipe_admit(struct pipe *p)
{
    ASSERT(!pipe_is_unread(p));
    enum status st = begin_txn(p);
    if (st != ST_OK)
        return pipe_fail(p, st);
    p->verdict = admit_sender(p);
    if (pipe_must_record(p)) {
        pipe_end_txn(p);
        return PIPE_ADMITTING;
    }
    if (p->verdict == ST_OK && !is_anonymous(p))
        p->verdict = judge_path(p);
    if (p->verdict != ST_OK)
        return pipe_go_run(p);
    return p->req.data != NULL ? PIPE_AUTHORISING : PIPE_PARSING;
}

/* Find the token of a ceremony's request. A request without a valid token is throttled. */
static enum status admit_ceremony(struct pipe *p)
{
    struct req *req = &p->req;
    TRY(stage_admit(req, p->request));
    if (req->token != NULL)
        return count_use(p);
    if (p->request->closed_ceremonies)
        return ST_DENIED;
    if (stage_reads(req) || (p->once & PIPE_ONCE_THROTTLED) != 0)
        return ST_OK;
    p->once |= PIPE_ONCE_THROTTLED;
    const struct ip client = ip_port_ip(p->request->peer);
    if (!throttle_take(&req->host->ceremonies, &client, env_mono_ms(p->worker->env)))
        return req_fail(req, ST_LIMITED,
                        "too many calls without a token; one that comes with a "
                        "token which may do this is not counted");
    return ST_OK;
}

/* The field `token` of the body; empty: absent. */
static struct bytes wrapping_in_body(const struct req *req)
{
    const struct text_value *v = text_get(req->data, "token");
    return v != NULL && v->kind == TEXT_STRING ? v->text : (struct bytes){0};
}

/* Judge the sender of a wrapping token. A token that is no wrapping token stays for the handler to
 * refuse, as it refuses one that has ended. */
static enum status admit_wrapping(struct pipe *p)
{
    struct req *req = &p->req;
    const struct auth_scope scope = req_scope(req);
    struct bytes in_body = wrapping_in_body(req);
    struct wrapping *wrapping = arena_alloc(req->arena, sizeof *wrapping);
    ASSERT(req->token == NULL && req->acl == NULL);
    if (wrapping == NULL)
        return ST_NOMEM;
    if (req->bearer.len == 0)
        return ST_DENIED;
    if (in_body.len == 0 || bytes_eq_secret(in_body, req->bearer)) {
        enum status st = wrapping_load(&scope, req->bearer, wrapping);
        if (st != ST_OK)
            return st == ST_NOT_FOUND ? ST_OK : st;
        req->token = &wrapping->token; /* the handler stages the end of the token */
    } else {
        TRY(stage_authenticate(req, p->request));
        TRY(count_use(p));
    }
    TRY(stage_authorise_path(req));
    return stage_authorise_parameters(req);
}

/* Authorise by the parsed body, then decode the body. */
static enum status authorise(struct pipe *p)
{
    struct req *req = &p->req;
    if (req->token != NULL)
        TRY(stage_authorise_parameters(req));
    else if (pipe_has_who(p, WHO_CEREMONY))
        TRY(admit_ceremony(p));
    else if (pipe_has_who(p, WHO_WRAPPING))
        TRY(admit_wrapping(p));
    if (pipe_has_who(p, WHO_DR_TOKEN) && p->node.secondary)
        TRY(req_dr_authorise(req, stage_bearer(req, p->request)));
    TRY(req_need_feature(req, req->route->feature));
    if (req->method == METHOD_PATCH && !req->dialect->any_patch_type)
        TRY(body_check_patch_type(p->content_type, req_reason(req)));
    return body_decode(req);
}

enum pipe_phase pipe_authorise(struct pipe *p)
{
    ASSERT(p->verdict == ST_OK);
    p->verdict = authorise(p);
    if (p->verdict != ST_OK && pipe_awaits(p))
        return pipe_again(p);
    return pipe_go_run(p);
}

enum pipe_phase pipe_go_run(struct pipe *p)
{
    bool active = p->node.active || p->place == PIPE_HERE_ALONE;
    bool wrong = p->req.likely != NULL && !stage_reads(&p->req); /* the guess of the row */
    if (p->verdict == ST_OK && (pipe_needs_active(p) || wrong) && !active)
        return pipe_forward(p);
    return pipe_go_prepare(p);
}
