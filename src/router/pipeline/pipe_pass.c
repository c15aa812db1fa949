/* Requests that no audit device of this node takes (PROTOCOL R20).
 *
 * A standby gives such a request to the active node, which records it and runs it. A reply about
 * the node that the client asked goes along: the active node authorises and records the request,
 * and sends that reply in place of its own. So the status of a node's devices, and its metrics, can
 * be read through a node on which no device works. */
#include "audit/audit_entry.h"
#include "router/pipeline/pipe_phases.h"

/* Whether the reply tells about the node that the client asked. */
static bool pipe_is_about_node(const struct pipe *p)
{
    return pipe_has_place(p, PLACE_NODE) || pipe_has_place(p, PLACE_STAYS);
}

/* Whether a reply has nothing but its data. */
static bool is_plain(const struct pipe *p)
{
    const struct req_reply *reply = &p->req.reply;
    bool gives = reply->wrapping != NULL || reply->lease_id != NULL || reply->auth.len != 0;
    return p->failure == ST_OK && p->reply.http == 200 && reply->kind != REPLY_NONE && !gives &&
           reply->encoding == NULL && reply->n_warnings == 0 && p->reply.file.file == NULL &&
           p->reply.log.tail == NULL;
}

/* Whether the handler of the route is all that makes the reply, once the request is authorised. */
static bool is_carried(const struct pipe *p)
{
    const struct route *route = p->req.route;
    return route->prepare == NULL && route->finish == NULL && p->req.method == METHOD_GET &&
           p->request->body.len == 0 && p->node.feature >= AUDIT_FEATURE;
}

bool pipe_keep_answer(struct pipe *p)
{
    const struct req_reply *reply = &p->req.reply;
    ASSERT(p->phase != PIPE_FORWARDING);
    if (p->request->forwarded || !pipe_is_about_node(p) || !is_carried(p) || !is_plain(p) ||
        pipe_need_more(p) != ST_OK)
        return false;
    struct bytes data = reply_bytes(&p->reply);
    if (reply->kind == REPLY_DATA) /* without the envelope, which has an id of this node */
        data = reply->borrowed.len != 0 ? reply->borrowed : buf_bytes(&reply->data);
    if (data.len > REPLY_ANSWER_MAX)
        return false;
    struct reply_answer *answer = arena_alloc(p->req.arena, sizeof *answer);
    char *copy = arena_str(p->req.arena, data);
    if (answer == NULL || copy == NULL)
        return false;
    *answer = (struct reply_answer){reply->kind, reply->content_type, bytes_of(copy, data.len)};
    p->more->answer = answer;
    return true;
}

/* Whether only the step outside is missing for a reply about this node. The step of such a read
 * changes nothing, so it may run before the request is recorded. */
static bool lacks_outside(const struct pipe *p)
{
    return p->phase == PIPE_RECORDING_REQUEST && p->after_record == PIPE_OUTSIDE &&
           stage_reads(&p->req) && is_carried(p);
}

bool pipe_may_pass(struct pipe *p)
{
    ASSERT(p->devices != NULL);
    bool begun = (p->once & PIPE_ONCE_RECORDED) != 0 || p->effect != PIPE_UNCHANGED;
    bool ours = p->node.active || p->request->forwarded || pipe_has_place(p, PLACE_LEADER);
    if (p->place != PIPE_HERE || begun || ours || p->request->given_up || p->request->streamed)
        return false;
    return !pipe_is_about_node(p) || lacks_outside(p) || pipe_keep_answer(p);
}

enum pipe_phase pipe_pass(struct pipe *p)
{
    ASSERT(p->effect == PIPE_UNCHANGED && p->place == PIPE_HERE);
    p->once |= PIPE_ONCE_MUTE;
    if (pipe_is_about_node(p) && lacks_outside(p))
        return pipe_go_outside(p);
    p->place = PIPE_ACTIVE_NODE;
    p->failure = p->verdict = ST_OK;
    pipe_forget_reason(p);
    return pipe_forward(p);
}

void pipe_pass_over(struct pipe *p)
{
    p->once &= ~(unsigned)PIPE_ONCE_MUTE;
    if (p->more != NULL)
        p->more->answer = NULL;
}

enum status pipe_take_answer(struct pipe *p)
{
    const struct reply_answer *answer = p->request->answer;
    struct req_reply *reply = &p->req.reply;
    ASSERT(p->request->forwarded && reply->kind == REPLY_NONE);
    if (!pipe_is_about_node(p))
        return req_fail(&p->req, ST_INVALID, "the reply of another node is not taken here");
    reply->kind = answer->kind;
    reply->content_type = answer->type;
    if (answer->kind == REPLY_DATA)
        reply->borrowed = answer->data;
    else
        buf_add(&reply->data, answer->data);
    return buf_status(&reply->data);
}
