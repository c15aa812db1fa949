/* Work of a route outside of transactions, on the pool: before the first transaction, and after it.
 */
#include "router/pipeline/pipe_phases.h"

static void on_worked(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, work);
    pipe_step(p);
}

static void start(struct pipe *p, void (*run)(struct env_work *work))
{
    enum env_lane lane = p->req.route->is_slow ? LANE_SLOW : LANE_POOL;
    p->work = (struct env_work){.run = run, .done = on_worked, .lane = lane};
    env_work(p->worker->env, &p->work);
}

/* Confirm the sender's rights before `prepare` begins its work. */
enum pipe_phase pipe_go_prepare(struct pipe *p)
{
    const struct route *route = p->req.route;
    ASSERT(p->run->txn.open);
    if (p->verdict == ST_OK && p->prepared != ST_OK) {
        p->verdict = p->prepared;
        if (p->prepare_why != NULL)
            reason_set(req_reason(&p->req), "%s", p->prepare_why);
    }
    if (p->verdict != ST_OK || route->prepare == NULL || (p->once & PIPE_ONCE_PREPARED) != 0)
        return PIPE_HANDLING;
    bool confirmed = pipe_is_confirmed(p) || pipe_is_local(p);
    if (confirmed && pipe_owes_record(p))
        return pipe_record_first(p, PIPE_PREPARING);
    pipe_end_txn(p);
    if (p->request->given_up)
        return pipe_fail(p, ST_TIMEOUT);
    return confirmed ? PIPE_PREPARING : PIPE_READING;
}

static void run_prepare(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, work);
    p->result = p->req.route->prepare(&p->req);
}

enum pipe_phase pipe_prepare(struct pipe *p)
{
    ASSERT((p->once & PIPE_ONCE_PREPARED) == 0);
    ASSERT(p->req.prepared == NULL && !pipe_owes_record(p));
    start(p, run_prepare);
    return PIPE_PENDING;
}

/* Begin the transaction after `prepare`. A read continues with the version of the state that was
 * confirmed before `prepare`. A write begins a new transaction. A request whose `prepare` failed
 * does too: the use of its token counts (PROTOCOL R3), and an earlier try of its id may have taken
 * effect (R14). */
enum pipe_phase pipe_prepare_done(struct pipe *p)
{
    ASSERT(p->req.reply.kind == REPLY_NONE); /* the handler makes the reply */
    ASSERT(p->prepared == ST_OK && p->prepare_why == NULL);
    if (p->request->given_up)
        return pipe_fail(p, ST_TIMEOUT);
    p->once |= PIPE_ONCE_PREPARED;
    p->prepared = p->result;
    const char *why = req_error(&p->req)->text;
    if (p->result != ST_OK && why[0] != '\0') {
        p->prepare_why = arena_str(p->req.arena, bytes_str(why));
        if (p->prepare_why == NULL)
            return pipe_fail(p, ST_NOMEM);
    }
    return stage_reads(&p->req) && pipe_is_confirmed(p) ? PIPE_ADMITTING : pipe_begin(p);
}

bool pipe_outside_is_due(const struct pipe *p)
{
    return p->verdict == ST_OK && p->req.route->outside != NULL && !p->req.steps.skip_outside &&
           p->reply.http < 300 && p->request->answer == NULL &&
           (p->effect == PIPE_CHANGED || !p->request->given_up);
}

enum pipe_phase pipe_go_outside(struct pipe *p)
{
    pipe_keep_facts(p);
    if (pipe_outside_is_due(p) && pipe_owes_record(p))
        return pipe_record_first(p, PIPE_OUTSIDE);
    pipe_end_txn(p);
    if (!pipe_outside_is_due(p))
        return pipe_end(p);
    return pipe_uploads(p) ? PIPE_RECEIVING : PIPE_OUTSIDE;
}

static void run_outside(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, work);
    p->result = p->req.route->outside(&p->req);
}

static void on_waited(struct env_task *task)
{
    struct pipe *p = CONTAINER_OF(task, struct pipe, wait.task);
    ASSERT(p->phase == PIPE_OUTSIDE);
    start(p, run_outside);
}

enum pipe_phase pipe_outside(struct pipe *p)
{
    ASSERT(p->verdict == ST_OK);
    if (p->request->watch != NULL && p->req.route->ends_with_client)
        p->request->watch(p->request);
    if (p->req.route->waits != NULL) {
        p->wait = (struct req_wait){.env = p->worker->env, .task = {.run = on_waited}};
        p->req.route->waits(&p->req, &p->wait);
    } else {
        start(p, run_outside);
    }
    return PIPE_PENDING;
}

/* Make a file the whole body of the reply. */
static void reply_with_file(struct pipe *p)
{
    struct req_files *files = &p->req.files;
    ASSERT(p->phase == PIPE_OUTSIDE);
    buf_done(&p->reply.body);
    p->reply.http = 200;
    p->reply.content_type = files->reply_type;
    p->reply.file = (struct reply_file){files->reply, files->reply_bytes, p->worker->env};
    files->reply = NULL;
}

/* Make the lines of the log, from now on, the whole body of the reply. */
static void reply_with_log(struct pipe *p)
{
    struct req_files *files = &p->req.files;
    ASSERT(p->phase == PIPE_OUTSIDE && files->reply == NULL);
    buf_done(&p->reply.body);
    p->reply.http = 200;
    p->reply.content_type = files->reply_type;
    p->reply.log = (struct reply_log){files->tail, p->worker->env, &p->req.host->leaving};
    files->tail = NULL;
}

/* Make the reply from the step outside, if the handler made none. */
static enum status reply_outside(struct pipe *p)
{
    /* the handler made no reply */
    bool silent = p->reply.http == p->req.dialect->silent_http && p->reply.content_type == NULL;
    bool replies = silent && (p->req.reply.kind != REPLY_NONE || p->req.files.reply != NULL ||
                              p->req.files.tail != NULL);
    /* with `finish`, that step replies: its transaction can wrap the reply */
    ASSERT(!replies || p->req.route->finish == NULL);
    if (p->req.files.reply != NULL)
        reply_with_file(p);
    else if (p->req.files.tail != NULL)
        reply_with_log(p);
    else if (p->req.reply.kind != REPLY_NONE && silent)
        return reply_make(&p->req, ST_OK, &p->reply);
    return ST_OK;
}

enum pipe_phase pipe_outside_done(struct pipe *p)
{
    enum status st = p->result;
    ASSERT(p->phase == PIPE_OUTSIDE);
    if (st == ST_NOT_LEADER) {
        p->committed = 0; /* nothing was done: the request can go to the present leader */
        return pipe_wait(p, ST_NO_LEADER);
    }
    if (st == ST_OK && !stage_reads(&p->req))
        p->effect = PIPE_CHANGED;
    if (st == ST_OK)
        st = reply_outside(p);
    if (st != ST_OK)
        return pipe_fail(p, st);
    return p->req.route->finish != NULL ? pipe_go_finish(p) : pipe_end(p);
}
