/* The end of a request: recording (PROTOCOL R20) and sending. */
#include "router/pipeline/pipe_phases.h"
#include "router/pipeline/request_log.h"

#include "base/fs.h"

/* End the transaction and run its cleanups. */
void pipe_end_txn(struct pipe *p)
{
    if (p->req.txn != NULL)
        state_end(&p->run->txn);
    while (p->req.cleanups != NULL) {
        struct req_cleanup *cleanup = p->req.cleanups;
        p->req.cleanups = cleanup->next;
        cleanup->run(cleanup);
    }
    p->req.txn = NULL;
    p->req.mount = NULL; /* the transaction held these pointers */
    p->req.acl = NULL;
    p->req.rule = NULL;
}

/* Add headers to the reply; without memory the reply lacks some. */
static void finish_headers(struct pipe *p)
{
    const struct router_request *request = p->request;
    const struct router_verdict *verdict = request->verdict;
    for (size_t i = 0; verdict != NULL && i < verdict->n_headers; i++)
        (void)reply_add_header(&p->reply, p->req.arena, verdict->headers[i].name,
                               verdict->headers[i].value);
    if (!request->forwarded)
        quota_tell(&p->quota, p->req.arena, &p->reply);
    p->req.dialect->add_headers(&p->req, request, &p->reply);
}

static enum router_class class_of(const struct pipe *p)
{
    if (p->forward != NULL)
        return ROUTER_FORWARDED;
    if (pipe_has_flag(p, ROUTE_LONG | ROUTE_UPLOAD))
        return ROUTER_LONG;
    if (pipe_has_flag(p, ROUTE_NODE))
        return ROUTER_NODE;
    if (p->req.method == METHOD_LIST || p->req.method == METHOD_SCAN)
        return ROUTER_LIST;
    return stage_reads(&p->req) ? ROUTER_READ : ROUTER_WRITE;
}

enum pipe_phase pipe_respond(struct pipe *p)
{
    struct router_worker *worker = p->worker;
    struct router_request *request = p->request;

    histogram_add(&worker->latency[class_of(p)], env_mono_ns(worker->env) - p->begun_ns);

    request_log(p);
    finish_headers(p);
    struct router_reply reply = p->reply;
    struct parsed *parsed = p->parsed;

    if (p->req.txn != NULL || p->req.cleanups != NULL)
        pipe_end_txn(p);
    if (p->more != NULL) {
        state_commit_done(&p->more->commit);
        buf_done(&p->more->stored);
    }
    fs_close(p->req.files.upload);
    fs_close(p->req.files.reply);
    buf_done(&p->req.reply.data);
    buf_done(&p->req.reply.auth);
    stage_forget_token(&p->req);
    ASSERT(worker->running > 0);
    worker->running--;
    list_remove(&p->link);
    request->respond(request, &reply); /* last touch: the arena, and so p, may be gone */
    buf_done(&reply.body);
    parsed_free(worker->env, parsed);
    return PIPE_PENDING;
}

enum pipe_phase pipe_end(struct pipe *p)
{
    bool records = (p->once & PIPE_ONCE_RECORDED) != 0 && p->reply.retry == ST_OK;
    return records ? PIPE_RECORDING_REPLY : PIPE_DONE;
}

bool pipe_is_open(const struct pipe *p)
{
    ASSERT(!p->request->again || p->request->forwarded); /* only a node sets `again` */
    bool tried = p->effect == PIPE_UNKNOWN || (p->request->again && pipe_id_given(&p->request->id));
    return tried && p->effect != PIPE_CHANGED &&
           (p->mode == PIPE_RECORDED || !stage_reads(&p->req));
}

/* If an earlier try may have taken effect, a failure of this node leaves the outcome open: the node
 * that forwarded the request tries again, and a client gets ST_UNKNOWN_OUTCOME. */
enum pipe_phase pipe_fail(struct pipe *p, enum status st)
{
    ASSERT(st != ST_OK);
    if (st != ST_UNKNOWN_OUTCOME && status_http(st) >= 500 && pipe_is_open(p)) {
        if (p->request->forwarded)
            return pipe_hand_back(p, ST_UNKNOWN_OUTCOME);
        st = ST_UNKNOWN_OUTCOME;
        pipe_forget_reason(p);
    }
    reply_done(&p->reply);
    reply_error(&p->reply, p->req.dialect, st, &p->req.error);
    return pipe_end(p);
}

static void on_recorded(struct audit_op *op, enum status st)
{
    struct pipe *p = CONTAINER_OF(op, struct pipe_more, audit)->pipe;
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
        .peer = p->request->peer,
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
    if (kind == AUDIT_REPLY)
        facts.status = p->reply.http;
    return facts;
}

/* Offer a record to the audit devices. ST_OK: pipe_step is called when a device has accepted the
 * record or all have refused. Other statuses: as audit_record. */
static enum status record(struct pipe *p, enum audit_kind kind, const char *error)
{
    struct audit_facts facts = facts_of(p, kind);
    facts.error = error;
    TRY(pipe_need_more(p));
    p->more->audit = (struct audit_op){.done = on_recorded};
    return audit_record(&p->worker->audit, p->worker->cipher, &facts, &p->more->audit);
}

enum pipe_phase pipe_go_record(struct pipe *p)
{
    bool active = p->node.active || p->place == PIPE_HERE_ALONE;
    if (p->verdict == ST_OK && pipe_has_flag(p, ROUTE_ACTIVE) && !active)
        return pipe_forward(p);
    if ((p->once & PIPE_ONCE_RECORDED) != 0 || !audit_enabled(&p->worker->audit))
        return pipe_go_prepare(p);
    return PIPE_RECORDING_REQUEST;
}

static enum pipe_phase fail_record(struct pipe *p)
{
    reason_set(&p->req.error, "the request could not be recorded by any audit device");
    return pipe_fail(p, ST_INTERNAL);
}

enum pipe_phase pipe_record_request(struct pipe *p)
{
    enum status st = p->verdict;
    ASSERT((p->once & PIPE_ONCE_RECORDED) == 0);
    st = record(p, AUDIT_REQUEST,
                st != ST_OK ? reply_error_text(p->req.dialect, st, &p->req.error) : NULL);
    return st == ST_OK ? PIPE_PENDING : fail_record(p);
}

enum pipe_phase pipe_record_request_done(struct pipe *p)
{
    if (p->result != ST_OK)
        return fail_record(p);
    p->once |= PIPE_ONCE_RECORDED;
    return pipe_go_prepare(p);
}

static enum pipe_phase fail_record_reply(struct pipe *p)
{
    reason_set(&p->req.error, p->effect == PIPE_CHANGED
                                  ? "the change was made, but it could not be recorded by any "
                                    "audit device"
                                  : "the reply could not be recorded by any audit device");
    reply_done(&p->reply);
    reply_error(&p->reply, p->req.dialect, ST_INTERNAL, &p->req.error);
    return PIPE_DONE;
}

enum pipe_phase pipe_record_reply(struct pipe *p)
{
    ASSERT((p->once & PIPE_ONCE_RECORDED) != 0);
    const char *error = p->reply.http >= 400 ? p->req.error.text : NULL;
    return record(p, AUDIT_REPLY, error) == ST_OK ? PIPE_PENDING : fail_record_reply(p);
}

enum pipe_phase pipe_record_reply_done(struct pipe *p)
{
    return p->result == ST_OK ? PIPE_DONE : fail_record_reply(p);
}
