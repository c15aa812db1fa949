/* Run tasks of workspaces: which stages run which task of the organization, and what a failure
 * means.
 *
 * Besides the association below its workspace there is an object of the type "task-uses" below the
 * task, whose name is the id of the association: a task finds its workspaces, and the name of the
 * association is the id of its task, so a workspace has a task once. */
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_rows.h"
#include "api/platform/platform_task.h"

#define TYPE "workspace-tasks"
#define USES "task-uses"

static const char *const levels[] = {"advisory", "mandatory", NULL};

static const struct platform_attr ws_task_attrs[] = {
    {.name = "enforcement-level", .traits = PLATFORM_REQUIRED, .values = levels},
    {.name = "stage",
     .traits = PLATFORM_SHOWN,
     .preset = "\"post_plan\"",
     .help = "The first of the stages; deprecated."},
    {.name = "stages",
     .value = PLATFORM_TEXTS,
     .traits = PLATFORM_SHOWN,
     .preset = "[\"post_plan\"]"},
};
const struct platform_kind platform_ws_task_kind = {.type = TYPE,
                                                    .other_type = "workspace-task",
                                                    .prefix = "wstask-",
                                                    .noun = "run task of the workspace",
                                                    .attrs = ws_task_attrs,
                                                    .n = ARRAY_LEN(ws_task_attrs)};

static enum status show_use_relations(struct platform_view *view,
                                      const struct platform_object *object)
{
    platform_put_one(view, "task", "tasks", object->name);
    platform_put_one(view, "workspace", "workspaces", object->parent);
    return ST_OK;
}

static enum status include_task(struct platform_view *view, const struct platform_object *object)
{
    struct platform_object task;
    TRY(platform_object_load(view->req->txn, "tasks", object->name, &task));
    return platform_view_add(view, &platform_task, &task);
}

static const struct platform_include ws_task_includes[] = {{"task", include_task},
                                                           {"run_task", include_task}};

const struct platform_resource platform_ws_task = {.kind = &platform_ws_task_kind,
                                                   .path = "workspace-tasks/",
                                                   .relations = show_use_relations,
                                                   .includes = ws_task_includes,
                                                   .n_includes = ARRAY_LEN(ws_task_includes)};

/* `stages` in their order, or the one of `stage`; the first of them is `stage`. */
static enum status apply_stages(struct req *req, const struct platform_input *input,
                                struct platform_object *object)
{
    const struct text_value *stages = text_get(input->attributes, "stages");
    const struct text_value *stage = text_get(input->attributes, "stage");
    bool many = stages != NULL && stages->kind != TEXT_NULL;
    if (!many && (stage == NULL || stage->kind == TEXT_NULL))
        return ST_OK;
    if (!many) {
        struct text_value *one = text_value_new(req->arena, NULL, TEXT_LIST, (struct bytes){0});
        struct text_value *item =
            one != NULL ? text_value_new(req->arena, one, stage->kind, (struct bytes){0}) : NULL;
        if (item == NULL)
            return ST_NOMEM;
        item->text = stage->text;
        stages = one;
    }
    TRY(platform_stages_check(req, many ? "stages" : "stage", stages));
    if (stages->n == 0)
        return platform_refuse(req, "stages", "at least one stage is required");
    TRY(platform_set_text(req->arena, object->attrs, "stage",
                          (const char *)stages->first->text.data));
    return platform_set(req->arena, object->attrs, "stages", stages);
}

static enum status find_place(struct req *req, struct platform_who *who, unsigned rights,
                              struct platform_place *ret_place)
{
    TRY(platform_who(req, who));
    return platform_ws_find(req, who, req_param(req, "ws"), rights, ret_place);
}

static enum status note_use(struct req *req, const struct platform_object *object)
{
    struct platform_object use;
    TRY(platform_object_new(req, USES, "use-", &use));
    use.parent = object->name;
    use.name = object->id;
    return platform_object_add(req->txn, &use);
}

static enum status ws_task_create(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_input input;
    struct platform_object task, object;
    TRY(find_place(req, &who, PLATFORM_WS_MANAGE_TASKS, &place));
    TRY(platform_input_read(req, &platform_ws_task_kind, false, &input));
    TRY(platform_object_new(req, TYPE, platform_ws_task_kind.prefix, &object));
    TRY(platform_input_apply(req, &platform_ws_task_kind, &input, true, object.attrs));
    TRY(apply_stages(req, &input, &object));
    const char *id = platform_input_related_id(&input, "task");
    if (id[0] == '\0')
        return req_fail(req, ST_REFUSED, "/data/relationships/task: is required");
    TRY(platform_object_load(req->txn, "tasks", id, &task));
    if (strcmp(task.parent, place.org.id) != 0)
        return ST_NOT_FOUND;
    object.parent = place.ws.id;
    object.name = task.id;
    enum status st = platform_object_add(req->txn, &object);
    if (st == ST_EXISTS)
        return req_fail(req, ST_REFUSED, "the workspace has this run task already");
    TRY(st);
    TRY(note_use(req, &object));
    return platform_reply_one(req, &who, &platform_ws_task, &object, 201);
}

static enum status ws_tasks_list(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_objects all;
    TRY(find_place(req, &who, PLATFORM_WS_SEE, &place));
    TRY(platform_object_children(req->txn, place.ws.id, TYPE, &all));
    platform_sort_by_time(&all);
    return platform_reply_list(req, &who, &platform_ws_task, &all, false);
}

static enum status find_ws_task(struct req *req, struct platform_who *who, unsigned rights,
                                struct platform_object *ret_object)
{
    struct platform_place place;
    TRY(find_place(req, who, rights, &place));
    TRY(platform_object_load(req->txn, TYPE, req_param(req, "id"), ret_object));
    return strcmp(ret_object->parent, place.ws.id) == 0 ? ST_OK : ST_NOT_FOUND;
}

static enum status ws_task_read(struct req *req)
{
    struct platform_who who;
    struct platform_object object;
    TRY(find_ws_task(req, &who, PLATFORM_WS_SEE, &object));
    return platform_reply_one(req, &who, &platform_ws_task, &object, 0);
}

static enum status ws_task_update(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object object;
    TRY(find_ws_task(req, &who, PLATFORM_WS_MANAGE_TASKS, &object));
    TRY(platform_input_read(req, &platform_ws_task_kind, true, &input));
    TRY(platform_input_apply(req, &platform_ws_task_kind, &input, false, object.attrs));
    TRY(apply_stages(req, &input, &object));
    object.updated_ms = req->now_ms;
    TRY(platform_object_put(req->txn, object.name, &object));
    return platform_reply_one(req, &who, &platform_ws_task, &object, 0);
}

static enum status ws_task_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object object, use;
    TRY(find_ws_task(req, &who, PLATFORM_WS_MANAGE_TASKS, &object));
    enum status st = platform_object_named(req->txn, object.name, USES, object.id, &use);
    if (st == ST_OK)
        TRY(platform_object_delete(req->txn, &use));
    else if (st != ST_NOT_FOUND)
        return st;
    return platform_object_delete(req->txn, &object);
}

#define MANAGE "workspace: manage run tasks"

static const struct platform_row listed = {&platform_ws_task_kind, PLATFORM_LIST, "workspace: see",
                                           false, false},
                                 shown = {&platform_ws_task_kind, PLATFORM_ONE, "workspace: see",
                                          false, false},
                                 made = {&platform_ws_task_kind, PLATFORM_ONE, MANAGE, true, true},
                                 changed = {&platform_ws_task_kind, PLATFORM_ONE, MANAGE, true,
                                            false},
                                 dropped = {NULL, PLATFORM_NOTHING, MANAGE, false, false};

static const struct route ws_task_routes[] = {
    PLATFORM_MAKE("workspaces/:ws/tasks", ws_task_create, made,
                  .help = "Let the runs of a workspace run a task."),
    PLATFORM_GET("workspaces/:ws/tasks", ws_tasks_list, listed, "The run tasks of a workspace."),
    PLATFORM_GET("workspaces/:ws/tasks/:id", ws_task_read, shown, "A run task of a workspace."),
    PLATFORM_PATCH("workspaces/:ws/tasks/:id", ws_task_update, changed,
                   .help = "Change stages and level."),
    PLATFORM_ACT(DELETE, "workspaces/:ws/tasks/:id", ws_task_delete, dropped,
                 .help = "End that the runs of a workspace run a task."),
};

const struct route_table platform_ws_task_table = {ws_task_routes, ARRAY_LEN(ws_task_routes)};
