/* The second transaction of a route: `finish` stores the result of the step outside.
 *
 * The transaction is not authorised again, because the work is done: the rights of the sender were
 * preconditions of the first transaction. When another request changes the data that `finish` read,
 * only `finish` runs again. When this node is too busy for the transaction, `finish` runs again after
 * a pause: the node lacks the keys of a state that was just restored or synced, or too many writes
 * or pins are under way. When the result cannot be stored, the error tells the client that the work
 * was done. */
#include "router/pipeline/pipe_phases.h"

/* The first run of a transaction of `finish` comes. */
static enum pipe_phase go_part(struct pipe *p)
{
    p->reruns = 0;
    p->finish_until_ms = env_mono_ms(p->worker->env) + PIPE_PATIENCE_MS;
    return PIPE_FINISHING;
}

enum pipe_phase pipe_go_finish(struct pipe *p)
{
    /* router_worker_new checked that the route has `outside` */
    ASSERT(p->req.route->outside != NULL);
    ASSERT(pipe_commits_here(p));
    if (p->more != NULL) { /* the first transaction has committed */
        state_commit_done(&p->more->commit);
        p->more->commit = (struct state_commit){0};
    }
    p->req.steps.finished = 0;
    return go_part(p);
}

/* Reply that the work outside was done, but its result is not stored. The data that the first
 * transaction stored remain. */
static enum pipe_phase fail_finish(struct pipe *p, enum status st)
{
    struct reason why = *req_error(&p->req);
    pipe_end_txn(p);
    reason_set(req_reason(&p->req),
               "the work outside the state was done, but its result could not be stored: %s",
               why.text[0] != '\0' ? why.text : status_text(st));
    return pipe_fail(p, ST_UNKNOWN_OUTCOME);
}

/* A run of `finish` failed. Any other node, and a repeated request, would do the work once more. So
 * a busy node tries again for a time, even if the client has gone. */
static enum pipe_phase try_again(struct pipe *p, enum status st)
{
    if (st != ST_BUSY || env_mono_ms(p->worker->env) >= p->finish_until_ms)
        return fail_finish(p, st);
    pipe_end_txn(p);
    return PIPE_FINISH_WAITING;
}

enum pipe_phase pipe_finish_wait_done(struct pipe *p)
{
    ASSERT(p->phase == PIPE_FINISH_WAITING);
    return PIPE_FINISHING;
}

/* Begin the second transaction and clear the results of an earlier run of `finish`. Look the mount
 * up again: another request may have removed the mount. */
static enum status begin_finish(struct pipe *p)
{
    struct req *req = &p->req;
    const struct route *route = req->route;
    buf_done(&req->reply.data);
    buf_done(&req->reply.auth);
    req->reply = (struct req_reply){0};
    pipe_forget_reason(p);
    req->now_ms = req->host->node_ops->time_ms(req->host->node);
    TRY(pipe_need_run(p));
    ASSERT(!p->run->txn.open);
    TRY(state_begin(p->worker->state, req->arena, NULL, &p->run->txn));
    req->txn = &p->run->txn;
    req->caller = NULL;       /* this transaction does not read the token */
    if (req->steps.replied) { /* an earlier run made a reply, which does not count */
        reply_done(&p->reply);
        TRY(reply_make(req, ST_OK, &p->reply));
    }
    req->steps = (struct req_steps){.finished = req->steps.finished};
    p->run->mark = state_mark(&p->run->txn);
    TRY(stage_route(req, p->worker->router));
    bool same = req->route == route;
    req->route = route;
    return same ? ST_OK : ST_NOT_FOUND;
}

/* Make the reply, which `finish` may give if the handler and the step outside gave none, and wrap
 * it if the client asked: the wrapping is part of this transaction. */
static enum status make_reply(struct pipe *p)
{
    struct req *req = &p->req;
    ASSERT(p->reply.http == 204 && !req->steps.replied);
    TRY(reply_make(req, ST_OK, &p->reply));
    req->steps.replied = true;
    return req->dialect->finish != NULL ? req->dialect->finish(req, &p->reply) : ST_OK;
}

enum pipe_phase pipe_finish(struct pipe *p)
{
    ASSERT(p->phase == PIPE_FINISHING);
    enum status st = begin_finish(p);
    if (st != ST_OK)
        return try_again(p, st);
    p->verdict = p->req.route->finish(&p->req);
    bool replies = p->req.reply.kind != REPLY_NONE || p->req.reply.insist; /* or warns */
    if (p->verdict == ST_OK && replies)
        p->verdict = make_reply(p);
    if (p->verdict != ST_OK && pipe_roll_back(p) != ST_OK)
        return fail_finish(p, ST_NOMEM);
    if (pipe_is_breakdown(p->verdict))
        return try_again(p, p->verdict);
    return state_staged(&p->run->txn) ? PIPE_FINISH_COMMITTING : PIPE_FINISH_CONFIRMING;
}

/* The writes of `finish` are committed, or its reads confirmed. */
static enum pipe_phase finished(struct pipe *p)
{
    struct req_steps *steps = &p->req.steps;
    pipe_end_txn(p);
    p->failure = ST_OK;
    if (p->verdict != ST_OK)
        return pipe_fail(p, p->verdict);
    if (!steps->again)
        return pipe_end(p);
    steps->finished++;
    return steps->finished < REQ_FINISHES_MAX ? go_part(p) : fail_finish(p, ST_TOO_BIG);
}

static enum pipe_phase finish_rerun(struct pipe *p)
{
    return pipe_may_rerun(p) ? PIPE_FINISHING : fail_finish(p, ST_BUSY);
}

enum pipe_phase pipe_finish_commit(struct pipe *p)
{
    static const struct rlog_request_id none; /* no request id: the first transaction settled it */
    enum status st = pipe_commit_begin(p, &none);
    pipe_end_txn(p);
    return st == ST_OK ? PIPE_PENDING : try_again(p, st);
}

enum pipe_phase pipe_finish_commit_done(struct pipe *p)
{
    if (p->result == ST_CONFLICT)
        return finish_rerun(p);
    if (p->result != ST_OK)
        return try_again(p, p->result);
    p->effect = PIPE_CHANGED;
    p->committed = p->more->commit.version;
    return finished(p);
}

enum pipe_phase pipe_finish_confirm(struct pipe *p)
{
    enum status st = pipe_confirm_begin(p);
    return st == ST_OK ? PIPE_PENDING : try_again(p, st);
}

enum pipe_phase pipe_finish_confirm_done(struct pipe *p)
{
    if (p->result == ST_CONFLICT)
        return finish_rerun(p);
    return p->result == ST_OK ? finished(p) : try_again(p, p->result);
}
