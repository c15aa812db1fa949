/* Work of a route outside of a transaction: on the pool, after a body that streams has arrived.
 */
#include "router/pipe.h"

static void on_outside(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, work);
    pipe_step(p);
}

static void run_outside(struct env_work *work)
{
    struct pipe *p = CONTAINER_OF(work, struct pipe, work);
    p->result = p->req.route->outside(&p->req);
}

void pipe_start_outside(struct pipe *p)
{
    pipe_move(p, PIPE_OUTSIDE);
    p->work = (struct env_work){.run = run_outside, .done = on_outside, .lane = LANE_POOL};
    env_work(p->worker->env, &p->work);
}

static void on_received(struct router_receive *receive, enum status st)
{
    struct pipe *p = CONTAINER_OF(receive, struct pipe_more, receive)->pipe;
    p->result = st;
    pipe_step(p);
}

/* The sender was authorised: the body of any other is never read. */
static void receive(struct pipe *p)
{
    if (pipe_need_more(p) != ST_OK) {
        pipe_fail(p, ST_NOMEM);
        return;
    }
    pipe_move(p, PIPE_RECEIVING);
    p->more->receive =
        (struct router_receive){.env = p->worker->env, .host = p->req.host, .done = on_received};
    if (p->call->receive(p->call, &p->more->receive) != ST_OK)
        pipe_fail(p, ST_NOMEM);
}

void pipe_received(struct pipe *p)
{
    struct req *req = &p->req;
    req->files.upload = p->more->receive.file;
    req->files.upload_bytes = p->more->receive.bytes;
    if (p->result == ST_OK && !p->call->given_up)
        pipe_start_outside(p);
    else
        pipe_fail_body(p, p->result);
}

/* Whether what was committed under our id may have been followed by its step outside already: not
 * if the try was our own, of which we had not heard; and to read twice does no harm. */
static bool went_outside(const struct pipe *p)
{
    return p->more != NULL && p->more->commit.repeated && !p->unknown && !stage_reads(&p->req);
}

void pipe_go_outside(struct pipe *p)
{
    bool due = p->front == ST_OK && p->req.route->outside != NULL && p->answer.http < 300 &&
               (p->changed || !p->call->given_up);
    pipe_end_txn(p);
    if (due && went_outside(p)) {
        pipe_fail(p, ST_UNKNOWN_OUTCOME);
        return;
    }
    if (!due) {
        pipe_finish(p);
        return;
    }
    if (pipe_has_flag(p, ROUTE_UPLOAD))
        receive(p);
    else
        pipe_start_outside(p);
}

/* A file is the whole body of the answer. */
static void answer_with_file(struct pipe *p)
{
    struct req_files *files = &p->req.files;
    buf_done(&p->answer.body);
    p->answer.http = 200;
    p->answer.content_type = files->reply_type;
    p->answer.file = (struct answer_file){files->reply, files->reply_bytes, p->worker->env};
    files->reply = NULL;
}

void pipe_outside_done(struct pipe *p)
{
    enum status st = p->result;
    if (p->plain) {
        (void)answer_make(&p->req, st, &p->answer); /* the answer says it */
        pipe_finish(p);
        return;
    }
    if (st == ST_OK && p->req.files.reply != NULL) {
        answer_with_file(p);
    } else if (st == ST_OK && p->req.reply.kind != REPLY_NONE && p->answer.http == 204) {
        buf_done(&p->answer.body); /* the step outside made the reply */
        st = answer_make(&p->req, st, &p->answer);
    }
    if (st == ST_OK)
        pipe_finish(p);
    else if (st == ST_NOT_LEADER)
        pipe_wait(p, ST_NO_LEADER); /* nothing was done: where the leader is now it can be */
    else
        pipe_fail(p, st);
}
