/* The end of a request: recording (PROTOCOL R20) and sending. */
#include "base/plant.h"
#include "router/pipeline/pipe_phases.h"
#include "router/pipeline/request_log.h"

#include "base/fs.h"
#include "base/trace_tail.h"

/* End the transaction and run its cleanups. */
void pipe_end_txn(struct pipe *p)
{
    ASSERT(p->req.txn == NULL || p->req.txn == &p->run->txn);
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
    p->req.identity = NULL;
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
    if (p->failure == ST_BUSY && p->reply.http == 503)
        (void)reply_add_header(&p->reply, p->req.arena, BYTES("Retry-After"), BYTES("1"));
    if (!request->forwarded)
        quota_tell(&p->quota, p->req.arena, &p->reply);
    p->req.dialect->add_headers(&p->req, request, &p->reply);
}

static enum router_class class_of(const struct pipe *p)
{
    if (p->forward != NULL)
        return ROUTER_FORWARDED;
    if (pipe_has_flag(p, ROUTE_LONG) || pipe_uploads(p))
        return ROUTER_LONG;
    if (pipe_has_place(p, PLACE_NODE))
        return ROUTER_NODE;
    if (p->req.method == METHOD_LIST || p->req.method == METHOD_SCAN)
        return ROUTER_LIST;
    return stage_reads(&p->req) ? ROUTER_READ : ROUTER_WRITE;
}

/* The end of a token's id, or of a bearer that was not looked up here. */
void pipe_set_payer(struct pipe *p)
{
    const struct auth_token *token = p->req.token;
    struct bytes id = token != NULL && token->id[0] != '\0' ? bytes_str(token->id) : p->req.bearer;
    size_t n = MIN(id.len, sizeof p->request->payer);
    p->request->payer = 0;
    if (n != 0 && (token != NULL || (p->forward != NULL && p->reply.http < 400)))
        memcpy(&p->request->payer, id.data + id.len - n, n);
}

void pipe_hold_reply(struct pipe *p)
{
    struct router_request *request = p->request;
    struct buf *body = &p->reply.body;
    if (body->cap <= REPLY_UNHELD_MAX || request->room == NULL)
        return;
    pipe_set_payer(p);
    size_t parsed = p->unrecorded ? 0 : body->len; /* by the audit record */
    request->room->hold(request, body->cap + parsed + arena_held(p->req.arena));
}

enum status pipe_find_room(struct pipe *p)
{
    struct router_request *request = p->request;
    if (request->room == NULL || request->forwarded)
        return ST_OK;
    pipe_set_payer(p);
    return request->room->find(request);
}

enum pipe_phase pipe_await_room(struct pipe *p, enum status st)
{
    ASSERT(st != ST_OK);
    ASSERT(p->effect == PIPE_UNCHANGED);
    pipe_end_txn(p);
    p->no_room = true;
    bool late = env_mono_ms(p->worker->env) >= p->deadline_ms || p->request->given_up;
    if (st == ST_BUSY && !late)
        return PIPE_WAITING;
    reason_set(req_reason(&p->req), "replies that clients have not read take too much memory");
    return pipe_fail(p, ST_BUSY);
}

void pipe_release(struct pipe *p)
{
    struct router_worker *worker = p->worker;
    if (p->req.txn != NULL || p->req.cleanups != NULL)
        pipe_end_txn(p);
    if (p->devices != NULL)
        pipe_forget_facts(p);
    if (p->more != NULL) {
        state_commit_done(&p->more->commit);
        buf_done(&p->more->stored);
    }
    fs_close(p->req.files.upload);
    fs_close(p->req.files.reply);
    tail_close(p->req.files.tail);
    buf_done(&p->req.reply.data);
    buf_done(&p->req.reply.auth);
    stage_forget_token(&p->req);
    ASSERT(worker->running > 0);
    if (--worker->running == 0)
        audit_rest(&worker->audit);
    list_remove(&p->link);
}

enum pipe_phase pipe_respond(struct pipe *p)
{
    struct router_worker *worker = p->worker;
    struct router_request *request = p->request;

    histogram_add(&worker->latency[class_of(p)], env_mono_ns(worker->env) - p->begun_ns);

    request_log(p);
    finish_headers(p);
    pipe_set_payer(p);
    struct router_reply reply = p->reply;
    struct parsed *parsed = p->parsed;

    pipe_release(p);
    if (request->resumed != NULL)
        pipe_end_parked(p);
    request->respond(request, &reply); /* last touch: the arena, and so p, may be gone */
    buf_done(&reply.body);
    shared_unref(reply.shared);
    parsed_free(worker->env, parsed);
    return PIPE_PENDING;
}

/* Without the list of devices no reply but an error may leave. */
static enum pipe_phase fail_devices(struct pipe *p, enum status st)
{
    p->unrecorded = true;
    reply_done(&p->reply);
    reply_error(&p->reply, p->req.dialect, st, req_error(&p->req));
    return PIPE_DONE;
}

/* Whether an earlier try may have taken effect, and nothing has told yet. */
static bool is_tried(const struct pipe *p)
{
    ASSERT(!p->request->again || p->request->forwarded); /* only a node sets `again` */
    bool tried = p->effect == PIPE_UNKNOWN || (p->request->again && pipe_id_given(&p->request->id));
    return tried && p->effect != PIPE_CHANGED;
}

/* The error that replaces a reply without a record. It says what is known about the change. */
static enum status unrecorded_error(struct pipe *p)
{
    struct reason *why = req_reason(&p->req);
    bool unchanged = p->effect == PIPE_UNCHANGED && !p->repeated;
    ASSERT(p->reply.retry == ST_OK);
    if (p->effect == PIPE_UNKNOWN || p->failure == ST_UNKNOWN_OUTCOME) {
        reason_set(why, "the change may or may not have been made; the reply could not be recorded "
                        "by any audit device");
        return ST_UNKNOWN_OUTCOME;
    } else if (unchanged && (p->once & PIPE_ONCE_RECORDED) == 0) {
        reason_set(why, "the request could not be recorded by any audit device");
    } else if (unchanged) {
        reason_set(why, "nothing was changed; the reply could not be recorded by any audit device");
    } else if (p->reply.http < 400) {
        reason_set(why, "the change was made, but it could not be recorded by any audit device");
    } else {
        reason_set(why,
                   "the request ended with status %d, but that could not be recorded by any "
                   "audit device",
                   p->reply.http);
    }
    return ST_INTERNAL;
}

/* No device of this node takes the request, and no other node does. The records are not offered
 * again: a device that was late may still write the first ones. */
static enum pipe_phase fail_mute(struct pipe *p)
{
    enum status st = unrecorded_error(p);
    p->unrecorded = true;
    reply_done(&p->reply);
    reply_error(&p->reply, p->req.dialect, st, req_error(&p->req));
    return PIPE_DONE;
}

/* The client has heard an error in place of this reply: record both. */
static void make_late(struct pipe *p)
{
    bool unknown = p->request->given_up == ST_UNKNOWN_OUTCOME;
    int http = p->reply.http;
    ASSERT(p->request->given_up != ST_OK);
    ASSERT(http != 0 && p->reply.retry == ST_OK);
    reason_set(req_reason(&p->req),
               "no reply in time: the client heard that %s; later the request ended "
               "with status %d",
               unknown ? "the outcome is unknown" : "nothing was changed", http);
    p->failure = p->request->given_up;
    reply_done(&p->reply);
    reply_error(&p->reply, p->req.dialect, p->failure, req_error(&p->req));
    if (unknown)
        p->reply.http = REPLY_LATE_HTTP;
}

enum pipe_phase pipe_end(struct pipe *p)
{
    if (pipe_must_hold(p))
        return PIPE_HOLDING;
    if (p->req.host->audit == NULL || p->unrecorded || p->reply.retry != ST_OK)
        return PIPE_DONE;
    if ((p->once & PIPE_ONCE_MUTE) != 0 && p->place == PIPE_ACTIVE_NODE)
        return fail_mute(p);
    if (p->request->given_up != ST_OK)
        make_late(p);
    enum status st = (p->once & PIPE_ONCE_DEVICES) == 0 ? pipe_find_devices(p) : ST_OK;
    if (st != ST_OK)
        return fail_devices(p, st);
    return pipe_is_recorded(p) ? PIPE_RECORDING_REPLY : PIPE_DONE;
}

bool pipe_is_open(const struct pipe *p)
{
    return is_tried(p) && (p->mode == PIPE_RECORDED || !stage_reads(&p->req));
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
    p->failure = st;
    reply_done(&p->reply);
    reply_error(&p->reply, p->req.dialect, st, req_error(&p->req));
    return pipe_end(p);
}

enum pipe_phase pipe_record_first(struct pipe *p, enum pipe_phase next)
{
    ASSERT(pipe_owes_record(p));
    p->after_record = next;
    return PIPE_RECORDING_REQUEST;
}

/* Nothing was done yet, and nothing will be. */
static enum pipe_phase fail_record(struct pipe *p)
{
    if (pipe_may_pass(p))
        return pipe_pass(p);
    p->unrecorded = true;
    pipe_end_txn(p);
    reason_set(req_reason(&p->req), "the request could not be recorded by any audit device");
    return pipe_fail(p, ST_INTERNAL);
}

enum pipe_phase pipe_record_request(struct pipe *p)
{
    ASSERT(pipe_owes_record(p));
    return pipe_offer_request(p) == ST_OK ? PIPE_PENDING : fail_record(p);
}

/* Decide again: the client may have been told meanwhile that nothing has changed. */
enum pipe_phase pipe_record_request_done(struct pipe *p)
{
    ASSERT(p->phase == PIPE_RECORDING_REQUEST);
    if (p->result != ST_OK)
        return fail_record(p);
    p->once |= PIPE_ONCE_RECORDED;
    switch (p->after_record) {
    case PIPE_PREPARING: return pipe_go_prepare(p);
    case PIPE_COMMITTING: return pipe_go_commit(p);
    case PIPE_STATELESS: return p->request->given_up ? pipe_fail(p, ST_TIMEOUT) : PIPE_STATELESS;
    case PIPE_STATELESS_OUTSIDE: return pipe_go_stateless(p);
    default: return pipe_go_outside(p);
    }
}

static enum pipe_phase fail_record_reply(struct pipe *p)
{
    /* A read may have staged a change in an earlier try, even if it staged none in this one. */
    if (p->request->forwarded && is_tried(p)) {
        p->unrecorded = true;
        return pipe_hand_back(p, ST_UNKNOWN_OUTCOME);
    }
    if (pipe_may_pass(p))
        return pipe_pass(p);
    enum status st = unrecorded_error(p);
    reply_done(&p->reply);
    reply_error(&p->reply, p->req.dialect, st, req_error(&p->req));
    return PIPE_DONE;
}

enum pipe_phase pipe_record_reply(struct pipe *p)
{
    ASSERT(pipe_is_recorded(p));
    return pipe_offer_reply(p) == ST_OK ? PIPE_PENDING : fail_record_reply(p);
}

enum pipe_phase pipe_record_reply_done(struct pipe *p)
{
    if (p->result != ST_OK)
        return fail_record_reply(p);
    if (planted(PLANT_AUDIT_TWICE) && !p->node.active && (p->once & PIPE_ONCE_RECORDED) == 0) {
        p->once |= PIPE_ONCE_RECORDED;
        return PIPE_RECORDING_REPLY;
    }
    return PIPE_DONE;
}
