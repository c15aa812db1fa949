/* Run tasks of organizations. A task is stored only after its URL replied 200 to a verification;
 * the steps are those of notifications (platform_notification.c). */
#include "api/platform/platform_task.h"
#include "api/platform/platform.h"
#include "api/platform/platform_call.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_rows.h"

#define TYPE "tasks"

enum { DESCRIPTION_MAX = 300 };

static const char *const categories[] = {"task", NULL};

static const struct platform_attr task_attrs[] = {
    {.name = "name", .traits = PLATFORM_REQUIRED, .max = 90, .check = platform_check_name},
    {.name = "url", .traits = PLATFORM_REQUIRED, .max = 2000, .check = platform_check_url},
    {.name = "description", .max = DESCRIPTION_MAX, .traits = PLATFORM_NULL},
    {.name = "category", .traits = PLATFORM_REQUIRED, .values = categories},
    {.name = "hmac-key",
     .alias = "hmac_key",
     .preset = "\"\"",
     .max = 1000,
     .traits = PLATFORM_SECRET,
     .help = "Key of the signature; an empty text removes it."},
    {.name = "enabled", .value = PLATFORM_FLAG, .preset = "true"},
    {.name = "global-configuration", .value = PLATFORM_ANY, .traits = PLATFORM_SHOWN},
};
const struct platform_kind platform_task_kind = {.type = TYPE,
                                                 .prefix = "task-",
                                                 .noun = "run task",
                                                 .attrs = task_attrs,
                                                 .n = ARRAY_LEN(task_attrs)};

/* Stages */

static bool is_one_of(const char *text, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(*list, text) == 0)
            return true;
    return false;
}

const char *const platform_stages[] = {"pre_plan", "post_plan", "pre_apply", "post_apply", NULL};
const char *const platform_levels[] = {"advisory", "mandatory", NULL};

enum status platform_stages_check(struct req *req, const char *attribute,
                                  const struct text_value *list)
{
    if (list->kind != TEXT_LIST || list->n > 16)
        return platform_refuse(req, attribute, "a list of stages is expected");
    TEXT_FOR (v, list)
        if (v->kind != TEXT_STRING || !is_one_of((const char *)v->text.data, platform_stages))
            return platform_refuse(req, attribute,
                                   "pre_plan, post_plan, pre_apply and post_apply are allowed");
    return ST_OK;
}

/* Global configuration: absent members keep what they were. */
static enum status apply_global(struct req *req, const struct platform_input *input,
                                struct platform_object *task)
{
    static const char name[] = "global-configuration";
    const struct text_value *given = text_get(input->attributes, name);
    const struct text_value *before = text_get(task->attrs, name);
    struct text_value *after = text_value_new(req->arena, NULL, TEXT_OBJECT, (struct bytes){0});
    struct text_value *none = text_value_new(req->arena, NULL, TEXT_LIST, (struct bytes){0});
    if (after == NULL || none == NULL)
        return ST_NOMEM;
    TRY(platform_set_flag(req->arena, after, "enabled", platform_flag(before, "enabled")));
    const struct text_value *stages = text_get(before, "stages");
    TRY(platform_set(req->arena, after, "stages", stages != NULL ? stages : none));
    const char *level = platform_text(before, "enforcement-level");
    TRY(platform_set_text(req->arena, after, "enforcement-level",
                          level[0] != '\0' ? level : platform_levels[0]));
    if (given != NULL && given->kind != TEXT_NULL) {
        if (given->kind != TEXT_OBJECT)
            return platform_refuse(req, name, "an object is expected");
        const struct text_value *enabled = text_get(given, "enabled");
        stages = text_get(given, "stages");
        const struct text_value *enforcement = text_get(given, "enforcement-level");
        if (enabled != NULL && enabled->kind != TEXT_NULL && enabled->kind != TEXT_BOOL)
            return platform_refuse(req, name, "enabled: a boolean is expected");
        if (enabled != NULL && enabled->kind == TEXT_BOOL)
            TRY(platform_set_flag(req->arena, after, "enabled", enabled->truth));
        if (stages != NULL && stages->kind != TEXT_NULL) {
            TRY(platform_stages_check(req, name, stages));
            TRY(platform_set(req->arena, after, "stages", stages));
        }
        if (enforcement != NULL && enforcement->kind != TEXT_NULL) {
            if (enforcement->kind != TEXT_STRING ||
                !is_one_of((const char *)enforcement->text.data, platform_levels))
                return platform_refuse(req, name, "enforcement-level: advisory or mandatory");
            TRY(platform_set(req->arena, after, "enforcement-level", enforcement));
        }
    }
    if (platform_flag(after, "enabled") && text_get(after, "stages")->n == 0)
        return platform_refuse(req, name, "at least one stage is required");
    return platform_set(req->arena, task->attrs, name, after);
}

/* Showing */

/* The associations of a task with workspaces. */
static enum status uses_of(struct state_txn *txn, const struct platform_object *task,
                           struct platform_objects *ret_uses)
{
    struct platform_objects all;
    size_t n = 0;
    TRY(platform_object_children(txn, task->id, "task-uses", &all));
    for (size_t i = 0; i < all.n; i++) {
        struct platform_object use;
        enum status st = platform_object_load(txn, "workspace-tasks", all.items[i].name, &use);
        if (st != ST_OK && st != ST_NOT_FOUND)
            return st;
        if (st == ST_OK)
            all.items[n++] = use;
    }
    *ret_uses = (struct platform_objects){all.items, n};
    return ST_OK;
}

static enum status show_task_relations(struct platform_view *view,
                                       const struct platform_object *object)
{
    static const char *const names[] = {"workspace-tasks", "tasks"};
    struct platform_object org;
    struct platform_objects uses;
    TRY(platform_object_load(view->req->txn, "organizations", object->parent, &org));
    TRY(uses_of(view->req->txn, object, &uses));
    platform_put_one(view, "organization", "organizations", org.name);
    for (size_t k = 0; k < ARRAY_LEN(names); k++) {
        platform_put_many(view, names[k]);
        for (size_t i = 0; i < uses.n; i++)
            platform_put_item(view, "workspace-tasks", uses.items[i].id);
        platform_put_many_end(view);
    }
    return ST_OK;
}

static enum status include_uses(struct platform_view *view, const struct platform_object *object)
{
    struct platform_objects uses;
    TRY(uses_of(view->req->txn, object, &uses));
    for (size_t i = 0; i < uses.n; i++)
        TRY(platform_view_add(view, &platform_ws_task, &uses.items[i]));
    return ST_OK;
}

static enum status include_workspaces(struct platform_view *view,
                                      const struct platform_object *object)
{
    struct platform_objects uses;
    TRY(uses_of(view->req->txn, object, &uses));
    for (size_t i = 0; i < uses.n; i++) {
        struct platform_object ws;
        bool sees;
        TRY(platform_view_add(view, &platform_ws_task, &uses.items[i]));
        enum status st =
            platform_object_load(view->req->txn, "workspaces", uses.items[i].parent, &ws);
        if (st == ST_NOT_FOUND)
            continue;
        TRY(st);
        TRY(platform_ws_sees(view->req, view->who, &ws, &sees));
        if (sees)
            TRY(platform_view_add(view, &platform_ws, &ws));
    }
    return ST_OK;
}

static const struct platform_include task_includes[] = {
    {"workspace_tasks", include_uses}, {"workspace_tasks.workspace", include_workspaces}};

const struct platform_resource platform_task = {.kind = &platform_task_kind,
                                                .path = "tasks/",
                                                .relations = show_task_relations,
                                                .includes = task_includes,
                                                .n_includes = ARRAY_LEN(task_includes)};

/* Verification */

struct verification {
    struct platform_object task; /* as the request would leave it */
    const char *id;              /* of a new task */
};

static void put_verification(struct buf *out)
{
    static const struct {
        const char *name, *value;
    } members[] = {
        {"access_token", "test-token"},
        {"stage", "test"},
        {"configuration_version_id", "cv-xxxxxxxxxxxxxxxx"},
        {"configuration_version_download_url", NULL},
        {"organization_name", "test-org"},
        {"run_app_url",
         "https://example.com/app/test-org/test-workspace/runs/run-xxxxxxxxxxxxxxxx"},
        {"run_created_at", "2021-10-05T15:18:32.000Z"},
        {"run_created_by", "test-user"},
        {"run_id", "run-xxxxxxxxxxxxxxxx"},
        {"run_message", "Test run message"},
        {"task_result_callback_url",
         "https://example.com/api/v2/task-results/xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx/callback"},
        {"task_result_enforcement_level", "test"},
        {"task_result_id", "taskrs-xxxxxxxxxxxxxxxx"},
        {"vcs_branch", NULL},
        {"vcs_commit_url", NULL},
        {"vcs_pull_request_url", NULL},
        {"vcs_repo_url", NULL},
        {"workspace_app_url", "https://example.com/app/test-org/test-workspace"},
        {"workspace_id", "ws-xxxxxxxxxxxxxxxx"},
        {"workspace_name", "test-workspace"},
        {"workspace_working_directory", NULL},
    };
    struct text_writer w = {.out = out};
    text_open_object(&w);
    text_member_int(&w, "payload_version", 1);
    text_member_bool(&w, "is_speculative", false);
    text_key(&w, "capabilities");
    text_open_object(&w);
    text_member_bool(&w, "outcomes", true);
    text_close(&w);
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        text_member_str(&w, members[i].name, members[i].value);
    text_close(&w);
}

static enum status task_outside(struct req *req)
{
    static const char *const headers[] = {"X-Infra-Task-Signature", "X-TFC-Task-Signature"};
    const struct verification *v = req->prepared;
    CLEANUP(buf_done) struct buf body = {0};
    struct platform_answer answer;
    put_verification(&body);
    TRY(buf_status(&body));
    const struct platform_call call = {.url = platform_text(v->task.attrs, "url"),
                                       .body = buf_bytes(&body),
                                       .key = platform_text(v->task.attrs, "hmac-key"),
                                       .signature = headers,
                                       .n_signature = ARRAY_LEN(headers)};
    TRY(platform_call_send(req->arena, &call, &answer));
    if (answer.status == 200)
        return ST_OK;
    if (answer.status == 0)
        return platform_refuse(req, "url", "the verification request failed: %.120s", answer.body);
    return platform_refuse(req, "url", "must reply 200 to a verification request, and replied %d",
                           answer.status);
}

/* Creation and change */

static enum status keep_verification(struct req *req, const struct platform_object *task)
{
    struct verification *v = arena_zalloc(req->arena, sizeof *v);
    if (v == NULL)
        return ST_NOMEM;
    v->task = *task;
    v->id = task->id;
    req->prepared = v;
    return ST_OK;
}

static enum status new_task(struct req *req, struct platform_who *who,
                            struct platform_object *ret_task)
{
    struct platform_object org;
    struct platform_input input;
    TRY(platform_who(req, who));
    TRY(platform_org_find(req, who, req_param(req, "org"), PLATFORM_ORG_MANAGE_TASKS, &org));
    TRY(platform_input_read(req, &platform_task_kind, false, &input));
    TRY(platform_object_new(req, TYPE, platform_task_kind.prefix, ret_task));
    TRY(platform_input_apply(req, &platform_task_kind, &input, true, ret_task->attrs));
    TRY(apply_global(req, &input, ret_task));
    if (platform_input_related_id(&input, "agent-pool")[0] != '\0')
        return req_fail(req, ST_REFUSED,
                        "/data/relationships/agent-pool: The provided agent pool does not exist");
    ret_task->parent = org.id;
    ret_task->name = platform_text(ret_task->attrs, "name");
    struct platform_object other;
    enum status st = platform_object_named(req->txn, org.id, TYPE, ret_task->name, &other);
    return st == ST_OK          ? platform_refuse(req, "name", "has already been taken")
           : st == ST_NOT_FOUND ? ST_OK
                                : st;
}

static enum status task_create(struct req *req)
{
    struct platform_who who;
    struct platform_object task;
    TRY(new_task(req, &who, &task));
    return keep_verification(req, &task);
}

static enum status keep_new(struct req *req)
{
    const struct verification *v = req->prepared;
    struct platform_who who;
    struct platform_object task;
    TRY(new_task(req, &who, &task));
    task.id = v->id;
    TRY(platform_object_add(req->txn, &task));
    return platform_reply_one(req, &who, &platform_task, &task, 201);
}

static enum status find_task(struct req *req, struct platform_who *who, unsigned rights,
                             struct platform_object *ret_task)
{
    struct platform_object org;
    TRY(platform_who(req, who));
    TRY(platform_object_load(req->txn, TYPE, req_param(req, "id"), ret_task));
    return platform_org_of(req, who, ret_task->parent, rights, &org);
}

static enum status changed_task(struct req *req, struct platform_who *who,
                                struct platform_object *ret_before,
                                struct platform_object *ret_task)
{
    struct platform_input input;
    TRY(find_task(req, who, PLATFORM_ORG_MANAGE_TASKS, ret_before));
    TRY(find_task(req, who, PLATFORM_ORG_MANAGE_TASKS, ret_task));
    TRY(platform_input_read(req, &platform_task_kind, true, &input));
    TRY(platform_input_apply(req, &platform_task_kind, &input, false, ret_task->attrs));
    TRY(apply_global(req, &input, ret_task));
    ret_task->name = platform_text(ret_task->attrs, "name");
    ret_task->updated_ms = req->now_ms;
    return ST_OK;
}

static enum status keep_changed(struct req *req)
{
    struct platform_who who;
    struct platform_object before, task;
    TRY(changed_task(req, &who, &before, &task));
    enum status st = platform_object_put(req->txn, before.name, &task);
    if (st == ST_EXISTS)
        return platform_refuse(req, "name", "has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &platform_task, &task, 0);
}

static enum status task_update(struct req *req)
{
    struct platform_who who;
    struct platform_object before, task;
    TRY(changed_task(req, &who, &before, &task));
    bool same = strcmp(platform_text(before.attrs, "url"), platform_text(task.attrs, "url")) == 0 &&
                strcmp(platform_text(before.attrs, "hmac-key"),
                       platform_text(task.attrs, "hmac-key")) == 0 &&
                platform_flag(before.attrs, "enabled") == platform_flag(task.attrs, "enabled");
    if (!same)
        return keep_verification(req, &task);
    req_skip_outside(req);
    return keep_changed(req);
}

static enum status tasks_list(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    struct platform_objects all;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_SEE, &org));
    TRY(platform_object_children(req->txn, org.id, TYPE, &all));
    platform_sort_by_name(&all);
    return platform_reply_list(req, &who, &platform_task, &all, false);
}

static enum status task_read(struct req *req)
{
    struct platform_who who;
    struct platform_object task;
    TRY(find_task(req, &who, PLATFORM_ORG_SEE, &task));
    return platform_reply_one(req, &who, &platform_task, &task, 0);
}

static enum status task_uses(struct req *req)
{
    struct platform_who who;
    struct platform_object task;
    struct platform_objects uses;
    TRY(find_task(req, &who, PLATFORM_ORG_SEE, &task));
    TRY(uses_of(req->txn, &task, &uses));
    return platform_reply_list(req, &who, &platform_ws_task, &uses, false);
}

static enum status task_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object task;
    struct platform_objects uses;
    TRY(find_task(req, &who, PLATFORM_ORG_MANAGE_TASKS, &task));
    TRY(uses_of(req->txn, &task, &uses));
    if (uses.n != 0)
        return req_fail(req, ST_REFUSED, "the run task is associated with %zu workspaces", uses.n);
    return platform_object_delete(req->txn, &task);
}

#define MANAGE "organization: manage run tasks"

static const struct platform_row listed = {&platform_task_kind, PLATFORM_LIST, "organization: see",
                                           false, false},
                                 shown = {&platform_task_kind, PLATFORM_ONE, "organization: see",
                                          false, false},
                                 used = {&platform_ws_task_kind, PLATFORM_LIST, "organization: see",
                                         false, false},
                                 made = {&platform_task_kind, PLATFORM_ONE, MANAGE, true, true},
                                 changed = {&platform_task_kind, PLATFORM_ONE, MANAGE, true, false},
                                 dropped = {NULL, PLATFORM_NOTHING, MANAGE, false, false};

static const struct route task_routes[] = {
    PLATFORM_MAKE("organizations/:org/tasks", task_create, made, .outside = task_outside,
                  .finish = keep_new, .help = "Create a run task, after a verification."),
    PLATFORM_GET("organizations/:org/tasks", tasks_list, listed,
                 "The run tasks of an organization."),
    PLATFORM_GET("tasks/:id", task_read, shown, "A run task."),
    PLATFORM_GET("tasks/:id/relationships/workspace-tasks", task_uses, used,
                 "The associations of a run task with workspaces."),
    PLATFORM_PATCH("tasks/:id", task_update, changed, .outside = task_outside,
                   .finish = keep_changed,
                   .help = "Change a run task; another URL, key or state is verified first."),
    PLATFORM_ACT(DELETE, "tasks/:id", task_delete, dropped,
                 .help = "Delete a run task without associations."),
};

const struct route_table platform_task_table = {task_routes, ARRAY_LEN(task_routes)};
