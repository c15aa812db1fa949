/* Runs the handler, then commits or confirms its transaction. When another request changed data
 * that the handler read, both steps run again. */
#include "base/plant.h"
#include "router/pipeline/pipe_phases.h"

void pipe_forget_reason(struct pipe *p)
{
    req_forget_error(&p->req);
}

bool pipe_is_breakdown(enum status st)
{
    return st == ST_NOMEM || st == ST_IO || st == ST_CORRUPT || st == ST_INTERNAL ||
           st == ST_CRYPTO || st == ST_SEALED || st == ST_BUSY || st == ST_CLOSED;
}

static void on_committed(struct state_commit *commit, enum status st)
{
    struct pipe *p = CONTAINER_OF(commit, struct pipe_more, commit)->pipe;
    p->result = st;
    pipe_step(p);
}

enum status pipe_commit_begin(struct pipe *p, const struct rlog_request_id *id)
{
    TRY(pipe_need_more(p));
    struct state_commit *c = &p->more->commit;
    struct buf *stored = &p->more->stored;
    ASSERT(p->run->txn.open);
    c->done = on_committed;
    c->id = *id;
    buf_done(stored);
    if (pipe_id_given(&c->id))
        TRY(reply_encode(&p->reply, stored));
    c->answer = buf_bytes(stored);
    return state_commit(&p->run->txn, c);
}

static void on_confirmed(struct state_confirm *confirm, enum status st)
{
    struct pipe *p = CONTAINER_OF(confirm, struct pipe_more, confirm)->pipe;
    p->result = st;
    pipe_step(p);
}

enum status pipe_confirm_begin(struct pipe *p)
{
    TRY(pipe_need_more(p));
    p->more->confirm = (struct state_confirm){.done = on_confirmed};
    state_confirm(&p->run->txn, &p->more->confirm);
    return ST_OK;
}

bool pipe_may_rerun(struct pipe *p)
{
    pipe_end_txn(p);
    if (++p->reruns > PIPE_RERUNS_MAX) {
        reason_set(req_reason(&p->req), "changed by other requests again and again");
        return false;
    }
    atomic_fetch_add(&p->worker->reruns, 1);
    return true;
}

/* Run the handler, unless the request is refused, and make the reply. */
static enum status run_handler(struct pipe *p)
{
    struct req *req = &p->req;
    enum status st = p->verdict;
    ASSERT(req_in_txn(req));
    if (st == ST_OK) {
        p->once |= PIPE_ONCE_HANDLED;
        st = p->request->answer != NULL ? pipe_take_answer(p) : req->route->handler(req);
    }
    st = reply_make(req, st, &p->reply);
    if (st == ST_OK && req->dialect->finish != NULL)
        st = req->dialect->finish(req, &p->reply);
    if (st == ST_OK)
        pipe_hold_reply(p);
    p->failure = st;
    return st;
}

enum pipe_phase pipe_go_commit(struct pipe *p)
{
    if (pipe_must_record(p)) {
        pipe_end_txn(p);
        return PIPE_ADMITTING;
    }
    if (!pipe_commits_here(p)) {
        (void)pipe_keep_answer(p); /* without it the active node tells about itself */
        return pipe_forward(p);
    }
    if (pipe_owes_record(p) && !planted(PLANT_AUDIT_AFTER))
        return pipe_record_first(p, PIPE_COMMITTING);
    return p->request->given_up ? pipe_fail(p, ST_TIMEOUT) : PIPE_COMMITTING;
}

/* Drop what the refused request staged, except what must be recorded all the same. */
enum status pipe_roll_back(struct pipe *p)
{
    const struct req_steps *steps = &p->req.steps;
    ASSERT(p->run->txn.open);
    return state_rollback(&p->run->txn, steps->keeps ? steps->kept : p->run->mark);
}

enum pipe_phase pipe_handle(struct pipe *p)
{
    ASSERT(p->verdict != ST_OK || p->req.data != NULL); /* the body was parsed */
    ASSERT(p->run->txn.open);
    bool reads = p->verdict == ST_OK && stage_reads(&p->req) && p->effect == PIPE_UNCHANGED;
    enum status st = reads ? pipe_find_room(p) : ST_OK;
    if (st != ST_OK)
        return pipe_await_room(p, st);
    st = run_handler(p);
    if (st != ST_OK && pipe_awaits(p))
        return pipe_again(p);
    if (p->req.block.index != 0 && pipe_must_wait(p, st))
        return PIPE_PARKING;
    bool drops = st != ST_OK || (pipe_keeps_unwrap(&p->req) && !pipe_commits_here(p));
    if (drops && pipe_roll_back(p) != ST_OK)
        return pipe_fail(p, ST_NOMEM);
    if (state_staged(&p->run->txn) || (pipe_must_settle_id(p) && !pipe_is_breakdown(st)))
        return pipe_go_commit(p);
    if (pipe_is_breakdown(st) && pipe_is_open(p))
        return pipe_fail(p, st);
    if (pipe_is_breakdown(st) || pipe_is_confirmed(p) || pipe_is_local(p))
        return pipe_go_outside(p);
    return PIPE_CONFIRMING;
}

enum pipe_phase pipe_commit(struct pipe *p)
{
    ASSERT(pipe_commits_here(p));
    pipe_keep_facts(p);
    enum status st =
        pipe_commit_begin(p, pipe_id_given(&p->request->id) ? &p->request->id : &p->id);
    pipe_end_txn(p);
    return st == ST_OK ? PIPE_PENDING : pipe_fail(p, st);
}

/* Reserve a share of the throttle for the client that began an attempt, so that other clients
 * cannot keep this client from continuing the attempt. */
static void keep_share(struct pipe *p)
{
    if ((p->once & PIPE_ONCE_THROTTLED) == 0 || !p->req.begins_attempt)
        return;
    const struct ip client = ip_port_ip(p->request->peer);
    throttle_hold(&p->req.host->ceremonies, &client);
}

/* Reply with the stored reply of an earlier try of the same id: the log applied the earlier try, so
 * the reply of this try does not count. */
static void reply_repeated(struct pipe *p)
{
    ASSERT(p->more->commit.repeated);
    enum status st = ST_UNKNOWN_OUTCOME;
    p->repeated = true;
    reply_done(&p->reply);
    if (p->more->commit.has_response)
        st = reply_decode(p->more->commit.response, p->req.arena, &p->reply);
    else
        reason_set(req_reason(&p->req), "the change was made; its reply was too long to be kept");
    p->failure = st;
    if (st != ST_OK)
        reply_error(&p->reply, p->req.dialect, st, req_error(&p->req));
}

/* Write the version of the commit into the reply, and into the data that its audit record shows: a
 * text that is no JSON would be one hidden text there. */
static enum status put_version(struct pipe *p)
{
    uint64_t version = p->more->commit.version;
    p->req.index = version;
    TRY(reply_put_version(&p->reply.body, version));
    return reply_put_version(&p->req.reply.data, version);
}

/* The transaction is applied; of a repeated request the version is that of the first try. If an
 * earlier try that another node ran was applied, that node may have done the step outside already:
 * for a write the outcome is unknown. A read may repeat the step. */
static enum pipe_phase applied(struct pipe *p)
{
    ASSERT(p->phase == PIPE_COMMITTING);
    bool repeated = p->more->commit.repeated, ours = p->effect != PIPE_UNCHANGED;
    p->effect = PIPE_CHANGED;
    p->committed = p->more->commit.version;
    keep_share(p);
    if (repeated)
        reply_repeated(p);
    else if (p->req.told != NULL)
        trace(TRACE_WARN, "router", "%s, asked by %s", p->req.told, p->request->peer);
    if (pipe_has_index(p, INDEX_VERSION) && p->failure == ST_OK && put_version(p) != ST_OK)
        return pipe_fail(p, ST_NOMEM);
    if (repeated && !ours && !stage_reads(&p->req) && pipe_outside_is_due(p))
        return pipe_fail(p, ST_UNKNOWN_OUTCOME);
    return pipe_go_outside(p);
}

static enum pipe_phase rerun(struct pipe *p, enum pipe_mode mode)
{
    p->mode = mode;
    return pipe_may_rerun(p) ? pipe_begin(p) : pipe_fail(p, ST_BUSY);
}

enum pipe_phase pipe_commit_done(struct pipe *p)
{
    enum status st = p->result;
    ASSERT(p->more->pipe == p);
    if (st == ST_OK)
        return applied(p);
    pipe_forget_reason(p);
    if (st == ST_CONFLICT) /* run again, to stage or to settle the id */
        return rerun(p, p->mode == PIPE_RECORDED ? PIPE_RECORDED : PIPE_BY_METHOD);
    if (st == ST_NOT_LEADER)
        return pipe_wait(p, ST_NO_LEADER);
    if (st != ST_UNKNOWN_OUTCOME)
        return pipe_fail(p, st);
    if (p->request->forwarded)
        return pipe_hand_back(p, st);
    p->effect = MAX(p->effect, PIPE_UNKNOWN);
    return pipe_id_given(&p->id) ? pipe_wait(p, st) : pipe_fail(p, st);
}

enum pipe_phase pipe_confirm(struct pipe *p)
{
    enum status st = pipe_confirm_begin(p);
    return st == ST_OK ? PIPE_PENDING : pipe_fail(p, st);
}

enum pipe_phase pipe_confirm_done(struct pipe *p)
{
    enum status st = p->result;
    ASSERT(p->phase == PIPE_CONFIRMING);
    if (st == ST_OK)
        return pipe_go_outside(p);
    pipe_forget_reason(p);
    if (st == ST_CONFLICT)
        return rerun(p, PIPE_CONFIRMED);
    pipe_end_txn(p);
    if (st == ST_NO_LEADER || st == ST_NOT_LEADER)
        return pipe_wait(p, ST_NO_LEADER);
    return pipe_fail(p, st);
}
