/* Actions on runs, their events, and comments. Which action a status allows, the table says
 * (platform_run_table.c). */
#include "api/platform/platform.h"
#include "api/platform/platform_lock.h"
#include "api/platform/platform_rows.h"
#include "api/platform/platform_run.h"

enum { COMMENT_MAX = 1000, COMMENTS_MAX = 200 };

/* Comments */

static const struct platform_attr comment_attrs[] = {
    {.name = "body", .traits = PLATFORM_REQUIRED, .max = COMMENT_MAX},
};
static const struct platform_kind comment_kind = {.type = "comments",
                                                  .prefix = "wsc-",
                                                  .noun = "comment",
                                                  .attrs = comment_attrs,
                                                  .n = ARRAY_LEN(comment_attrs)};

static enum status show_comment_more(struct platform_view *view,
                                     const struct platform_object *object)
{
    text_member_time(view->w, "created-at", object->created_ms);
    return ST_OK;
}

static enum status show_comment_relations(struct platform_view *view,
                                          const struct platform_object *object)
{
    platform_put_one(view, "created-by", "users", platform_text(object->links, "created-by"));
    platform_put_one(view, "run", "runs", object->parent);
    return ST_OK;
}
static const struct platform_resource comment_shown = {.kind = &comment_kind,
                                                       .path = "comments/",
                                                       .more = show_comment_more,
                                                       .relations = show_comment_relations};

/* Find the run of the path, in whose workspace the sender has the rights. */
static enum status find_run(struct req *req, struct platform_who *who, unsigned rights,
                            struct platform_flow *ret_flow)
{
    struct platform_place place;
    TRY(platform_who(req, who));
    TRY(platform_flow_load(req->txn, req->now_ms, req_param(req, "id"), ret_flow));
    TRY(platform_ws_find(req, who, ret_flow->run.parent, rights, &place));
    ret_flow->actor = who->owner == PLATFORM_USER ? who->id : "";
    return ST_OK;
}

static enum status add_comment(struct req *req, const struct platform_who *who,
                               const struct platform_object *run, const char *body,
                               struct platform_object *ret_comment)
{
    size_t n;
    TRY(platform_object_count(req->txn, run->id, "comments", &n));
    if (n >= COMMENTS_MAX)
        return req_fail(req, ST_REFUSED, "a run has at most %d comments", COMMENTS_MAX);
    TRY(platform_object_new(req, "comments", comment_kind.prefix, ret_comment));
    ret_comment->parent = run->id;
    TRY(platform_set_text(req->arena, ret_comment->attrs, "body", body));
    TRY(platform_set_text(req->arena, ret_comment->links, "created-by",
                          who->owner == PLATFORM_USER ? who->id : ""));
    return platform_object_add(req->txn, ret_comment);
}

static enum status comment_create(struct req *req)
{
    struct platform_who who;
    struct platform_flow flow;
    struct platform_input input;
    struct platform_object comment;
    TRY(find_run(req, &who, PLATFORM_WS_PLAN, &flow));
    TRY(platform_input_read(req, &comment_kind, false, &input));
    TRY(platform_object_new(req, "comments", comment_kind.prefix, &comment));
    TRY(platform_input_apply(req, &comment_kind, &input, true, comment.attrs));
    TRY(add_comment(req, &who, &flow.run, platform_text(comment.attrs, "body"), &comment));
    return platform_reply_one(req, &who, &comment_shown, &comment, 201);
}

static enum status comments_list(struct req *req)
{
    struct platform_who who;
    struct platform_flow flow;
    struct platform_objects all;
    TRY(find_run(req, &who, PLATFORM_WS_SEE, &flow));
    TRY(platform_object_children(req->txn, flow.run.id, "comments", &all));
    platform_sort_by_time(&all);
    return platform_reply_list(req, &who, &comment_shown, &all, false);
}

static enum status comment_read(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_object comment, run;
    TRY(platform_who(req, &who));
    TRY(platform_object_load(req->txn, "comments", req_param(req, "id"), &comment));
    TRY(platform_object_load(req->txn, "runs", comment.parent, &run));
    TRY(platform_ws_find(req, &who, run.parent, PLATFORM_WS_SEE, &place));
    return platform_reply_one(req, &who, &comment_shown, &comment, 0);
}

/* Events: part of the record of the run. */

static const struct platform_attr event_attrs[] = {
    {.name = "action", .traits = PLATFORM_SHOWN},
    {.name = "description", .traits = PLATFORM_SHOWN},
};
static const struct platform_kind event_kind = {
    .type = "run-events", .noun = "run event", .attrs = event_attrs, .n = ARRAY_LEN(event_attrs)};

static enum status show_event_more(struct platform_view *view, const struct platform_object *object)
{
    text_member_time(view->w, "created-at", object->created_ms);
    return ST_OK;
}

static enum status show_event_relations(struct platform_view *view,
                                        const struct platform_object *object)
{
    platform_put_one(view, "run", "runs", object->parent);
    platform_put_one(view, "actor", "users", platform_text(object->links, "by"));
    return ST_OK;
}
static const struct platform_resource event_shown = {
    .kind = &event_kind, .more = show_event_more, .relations = show_event_relations};

static enum status event_of(struct req *req, const struct platform_object *run, size_t number,
                            const struct text_value *event, struct platform_object *ret_event)
{
    TRY(platform_object_new(req, "run-events", "re-", ret_event));
    ret_event->id = arena_format(req->arena, "re-%s%zu", run->id + 4, number);
    if (ret_event->id == NULL)
        return ST_NOMEM;
    ret_event->parent = run->id;
    ret_event->created_ms = platform_number(event, "at");
    TRY(platform_set_text(req->arena, ret_event->attrs, "action", platform_text(event, "action")));
    TRY(platform_set_text(req->arena, ret_event->attrs, "description",
                          platform_text(event, "text")));
    return platform_set_text(req->arena, ret_event->links, "by", platform_text(event, "by"));
}

static enum status events_list(struct req *req)
{
    struct platform_who who;
    struct platform_flow flow;
    struct platform_objects all = {0};
    TRY(find_run(req, &who, PLATFORM_WS_SEE, &flow));
    const struct text_value *events = text_get(flow.run.links, "events");
    size_t room = events != NULL && events->kind == TEXT_LIST ? events->n : 0;
    all.items = arena_alloc(req->arena, (room + 1) * sizeof *all.items);
    if (all.items == NULL)
        return ST_NOMEM;
    if (room != 0)
        TEXT_FOR (event, events) {
            TRY(event_of(req, &flow.run, all.n, event, &all.items[all.n]));
            all.n++;
        }
    return platform_reply_list(req, &who, &event_shown, &all, false);
}

/* Lists that the next parts of the service fill. */
static enum status nothing_list(struct req *req)
{
    static const struct platform_kind kind = {.type = "task-stages", .noun = "task stage"};
    static const struct platform_resource shown = {.kind = &kind};
    struct platform_who who;
    struct platform_flow flow;
    struct platform_objects none = {0};
    TRY(find_run(req, &who, PLATFORM_WS_SEE, &flow));
    return platform_reply_list(req, &who, &shown, &none, false);
}

/* Actions */

/* The comment, in the body itself or in a document. */
static enum status read_comment(struct req *req, const char **ret_text)
{
    const struct text_value *attributes = text_get(text_get(req->data, "data"), "attributes");
    const struct text_value *text = text_get(attributes, "comment");
    if (text == NULL)
        text = text_get(req->data, "comment");
    *ret_text = "";
    if (text == NULL || text->kind == TEXT_NULL)
        return ST_OK;
    if (text->kind != TEXT_STRING || text->text.len > COMMENT_MAX ||
        (text->text.len != 0 && memchr(text->text.data, 0, text->text.len) != NULL))
        return platform_refuse(req, "comment", "a text of at most %d bytes is expected",
                               COMMENT_MAX);
    *ret_text = (const char *)text->text.data;
    return ST_OK;
}

/* Take an action on a run that was found. `refusal`: why the status does not allow it. */
static enum status act(struct req *req, const struct platform_who *who, struct platform_flow *flow,
                       enum run_event event, const char *refusal)
{
    struct platform_object comment;
    const char *text;
    TRY(read_comment(req, &text));
    if (!platform_run_takes(flow, event))
        return req_fail(req, ST_EXISTS, "%s (the run is %s)", refusal,
                        platform_text(flow->run.attrs, "status"));
    if (text[0] != '\0')
        TRY(add_comment(req, who, &flow->run, text, &comment));
    flow->comment = text;
    TRY(platform_run_step(flow, event));
    req->reply.http = 202;
    return ST_OK;
}

static enum status run_confirm(struct req *req)
{
    struct platform_who who;
    struct platform_flow flow;
    TRY(find_run(req, &who, PLATFORM_WS_APPLY, &flow));
    if (platform_run_status(&flow.run) == RUN_PLANNED_AND_SAVED && platform_is_locked(&flow.ws))
        return req_fail(req, ST_EXISTS,
                        "the workspace is locked: the saved plan cannot be applied "
                        "now");
    return act(req, &who, &flow, RUN_CONFIRM, "the run does not wait for a confirmation");
}

static enum status run_discard(struct req *req)
{
    struct platform_who who;
    struct platform_flow flow;
    TRY(find_run(req, &who, PLATFORM_WS_APPLY, &flow));
    return act(req, &who, &flow, RUN_DISCARD, "the run cannot be discarded");
}

/* The right to plan is enough to cancel a plan-only run. */
static enum status run_cancel(struct req *req)
{
    struct platform_who who;
    struct platform_flow flow;
    struct platform_place place;
    TRY(find_run(req, &who, PLATFORM_WS_PLAN, &flow));
    TRY(platform_ws_find(req, &who, flow.ws.id, PLATFORM_WS_PLAN, &place));
    if ((place.rights & PLATFORM_WS_APPLY) == 0 && !platform_flag(flow.run.attrs, "plan-only"))
        return ST_NOT_FOUND;
    return act(req, &who, &flow, RUN_CANCEL, "the run cannot be canceled");
}

static enum status force_cancel(struct req *req, const struct platform_who *who,
                                struct platform_flow *flow)
{
    bool asked = platform_number(flow->run.links, "cancel-ms") != 0;
    flow->why = "The run was canceled by force.";
    return act(req, who, flow, RUN_FORCE_CANCEL,
               asked ? "the run can be canceled by force some seconds after a cancel"
                     : "cancel the run first");
}

static enum status run_force_cancel(struct req *req)
{
    struct platform_who who;
    struct platform_flow flow;
    TRY(find_run(req, &who, PLATFORM_WS_ADMIN, &flow));
    return force_cancel(req, &who, &flow);
}

static enum status admin_force_cancel(struct req *req)
{
    struct platform_who who;
    struct platform_flow flow;
    TRY(platform_who_admin(req, &who));
    TRY(platform_flow_load(req->txn, req->now_ms, req_param(req, "id"), &flow));
    flow.actor = who.id;
    return force_cancel(req, &who, &flow);
}

/* Discard the run that holds the lock, and start this one before those that came earlier. */
static enum status run_force_execute(struct req *req)
{
    struct platform_who who;
    struct platform_flow flow, holder;
    const char *text;
    TRY(find_run(req, &who, PLATFORM_WS_ADMIN, &flow));
    TRY(read_comment(req, &text));
    if (platform_run_status(&flow.run) != RUN_PENDING || !platform_is_locked(&flow.ws))
        return req_fail(req, ST_DENIED, "the run does not wait for a lock (it is %s)",
                        platform_text(flow.run.attrs, "status"));
    const char *lock = platform_text(flow.ws.links, "locked-by");
    if (strcmp(platform_text(flow.ws.links, "locked-type"), "runs") != 0)
        return req_fail(req, ST_EXISTS,
                        "the workspace is locked by a user or a team, not by a run");
    TRY(platform_flow_load(req->txn, req->now_ms, lock, &holder));
    holder.actor = flow.actor;
    if (!platform_run_takes(&holder, RUN_DISCARD))
        return req_fail(req, ST_EXISTS,
                        "the run %s, which has the lock, cannot be discarded (it "
                        "is %s)",
                        holder.run.id, platform_text(holder.run.attrs, "status"));
    TRY(platform_run_replace(&holder, flow.run.id));
    req->reply.http = 202;
    return ST_OK;
}

static const struct platform_row
    commented = {&comment_kind, PLATFORM_ONE, "workspace: plan", true, true},
    comments_listed = {&comment_kind, PLATFORM_LIST, "workspace: see", false, false},
    comment_one = {&comment_kind, PLATFORM_ONE, "workspace: see", false, false},
    events_listed = {&event_kind, PLATFORM_LIST, "workspace: see", false, false},
    nothing_listed = {NULL, PLATFORM_NOTHING, "workspace: see", false, false},
    applies = {NULL, PLATFORM_NOTHING, "workspace: apply", false, false},
    cancels = {NULL, PLATFORM_NOTHING, "workspace: apply; plan for plan-only runs", false, false},
    forces = {NULL, PLATFORM_NOTHING, "workspace: admin", false, false},
    administers = {NULL, PLATFORM_NOTHING, "site administrator", false, false};

#define ACTION(path_, handler_, row_, help_) \
    PLATFORM_RUN_ACT(POST, path_, handler_, row_, .statuses = "202", .help = (help_))

static const struct route act_routes[] = {
    ACTION("runs/:id/actions/apply", run_confirm, applies, "Confirm a plan: it is applied."),
    ACTION("runs/:id/actions/discard", run_discard, applies, "Discard a run that waits."),
    ACTION("runs/:id/actions/cancel", run_cancel, cancels, "Interrupt a run."),
    ACTION("runs/:id/actions/force-cancel", run_force_cancel, forces,
           "End a run that does not heed an interrupt."),
    ACTION("runs/:id/actions/force-execute", run_force_execute, forces,
           "Discard the run that has the lock, and start this one."),
    ACTION("admin/runs/:id/actions/force-cancel", admin_force_cancel, administers,
           "End a run of any organization that does not heed an interrupt."),
    PLATFORM_GET("runs/:id/run-events", events_list, events_listed, "What happened to a run."),
    PLATFORM_GET("runs/:id/task-stages", nothing_list, nothing_listed,
                 "The task stages of a run: none."),
    PLATFORM_GET("runs/:id/policy-checks", nothing_list, nothing_listed,
                 "The policy checks of a run: none."),
    PLATFORM_GET("runs/:id/comments", comments_list, comments_listed, "The comments on a run."),
    PLATFORM_RUN_MAKE("runs/:id/comments", comment_create, commented, .help = "Comment on a run."),
    PLATFORM_GET("comments/:id", comment_read, comment_one, "A comment."),
};
const struct route_table platform_run_act_table = {act_routes, ARRAY_LEN(act_routes)};
