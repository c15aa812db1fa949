/* Variables of workspaces. The value of a sensitive one never leaves the server. */
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_rows.h"

#define TYPE "vars"

static const char *const categories[] = {"terraform", "env", NULL};

/* Keys become names in files and in the environment of runs. */
static const char *check_key(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] <= ' ' || text.data[i] == '=' || text.data[i] == 0x7f)
            return "has a blank, a control character or '='";
    return NULL;
}

static const struct platform_attr var_attrs[] = {
    {.name = "key", .traits = PLATFORM_REQUIRED, .max = 200, .check = check_key},
    {.name = "value", .max = 256 * 1024, .preset = "\"\"", .traits = PLATFORM_NULL},
    {.name = "description", .max = 512, .preset = "\"\"", .traits = PLATFORM_NULL},
    {.name = "category", .traits = PLATFORM_REQUIRED | PLATFORM_FIXED, .values = categories},
    {.name = "hcl", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "sensitive", .value = PLATFORM_FLAG, .preset = "false"},
};
static const struct platform_kind var_kind = {.type = TYPE,
                                              .prefix = "var-",
                                              .noun = "variable",
                                              .attrs = var_attrs,
                                              .n = ARRAY_LEN(var_attrs)};

static enum status show_var(struct platform_view *view, const struct platform_object *object)
{
    struct text_writer *w = view->w;
    bool sensitive = platform_flag(object->attrs, "sensitive");
    for (size_t i = 0; i < ARRAY_LEN(var_attrs); i++) {
        const char *name = var_attrs[i].name;
        text_key(w, name);
        text_put_value(w, sensitive && strcmp(name, "value") == 0 ? NULL
                                                                  : text_get(object->attrs, name));
    }
    text_member_time(w, "created-at", object->created_ms);
    text_key(w, "version-id");
    text_put_uint(w, (uint64_t)object->updated_ms);
    return ST_OK;
}

static enum status show_var_relations(struct platform_view *view,
                                      const struct platform_object *object)
{
    platform_put_one(view, "configurable", "workspaces", object->parent);
    return ST_OK;
}

static const struct platform_resource var_shown = {.kind = &var_kind,
                                                   .path = "vars/",
                                                   .more = show_var,
                                                   .relations = show_var_relations,
                                                   .hides = true};

/* Two variables may have one key, in different categories. */
static const char *name_of(struct req *req, const struct platform_object *var)
{
    return arena_format(req->arena, "%s-%s", platform_text(var->attrs, "category"),
                        platform_text(var->attrs, "key"));
}

static enum status vars_list(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_objects all;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_READ_VARS, &place));
    TRY(platform_object_children(req->txn, place.ws.id, TYPE, &all));
    platform_sort_by_name(&all);
    return platform_reply_list(req, &who, &var_shown, &all, false);
}

static enum status var_create(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_place place;
    struct platform_object var;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_WRITE_VARS, &place));
    TRY(platform_input_read(req, &var_kind, false, &input));
    TRY(platform_object_new(req, TYPE, var_kind.prefix, &var));
    TRY(platform_input_apply(req, &var_kind, &input, true, var.attrs));
    var.parent = place.ws.id;
    var.name = name_of(req, &var);
    if (var.name == NULL)
        return ST_NOMEM;
    enum status st = platform_object_add(req->txn, &var);
    if (st == ST_EXISTS)
        return platform_refuse(req, "key", "has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &var_shown, &var, 201);
}

static enum status find_var(struct req *req, struct platform_who *who, unsigned rights,
                            struct platform_object *ret_var)
{
    struct platform_place place;
    TRY(platform_who(req, who));
    TRY(platform_ws_find(req, who, req_param(req, "ws"), rights, &place));
    TRY(platform_object_load(req->txn, TYPE, req_param(req, "id"), ret_var));
    return strcmp(ret_var->parent, place.ws.id) == 0 ? ST_OK : ST_NOT_FOUND;
}

static enum status var_read(struct req *req)
{
    struct platform_who who;
    struct platform_object var;
    TRY(find_var(req, &who, PLATFORM_WS_READ_VARS, &var));
    return platform_reply_one(req, &who, &var_shown, &var, 0);
}

static enum status var_update(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object var;
    TRY(find_var(req, &who, PLATFORM_WS_WRITE_VARS, &var));
    const char *before = var.name;
    bool sensitive = platform_flag(var.attrs, "sensitive");
    TRY(platform_input_read(req, &var_kind, true, &input));
    TRY(platform_input_apply(req, &var_kind, &input, false, var.attrs));
    if (sensitive && !platform_flag(var.attrs, "sensitive"))
        return platform_refuse(req, "sensitive", "a sensitive variable stays sensitive");
    var.name = name_of(req, &var);
    var.updated_ms = req->now_ms;
    if (var.name == NULL)
        return ST_NOMEM;
    enum status st = platform_object_put(req->txn, before, &var);
    if (st == ST_EXISTS)
        return platform_refuse(req, "key", "has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &var_shown, &var, 0);
}

static enum status var_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object var;
    TRY(find_var(req, &who, PLATFORM_WS_WRITE_VARS, &var));
    return platform_object_delete(req->txn, &var);
}

static const struct platform_row
    listed = {&var_kind, PLATFORM_LIST, "workspace: read variables", false, false},
    shown = {&var_kind, PLATFORM_ONE, "workspace: read variables", false, false},
    made = {&var_kind, PLATFORM_ONE, "workspace: write variables", true, true},
    changed = {&var_kind, PLATFORM_ONE, "workspace: write variables", true, false},
    dropped = {NULL, PLATFORM_NOTHING, "workspace: write variables", false, false};

static const struct route var_routes[] = {
    PLATFORM_GET("workspaces/:ws/vars", vars_list, listed, "The variables of a workspace."),
    PLATFORM_GET("workspaces/:ws/all-vars", vars_list, listed,
                 "The variables that a run would get: those of the workspace."),
    PLATFORM_MAKE("workspaces/:ws/vars", var_create, made, .help = "Create a variable."),
    PLATFORM_GET("workspaces/:ws/vars/:id", var_read, shown, "A variable."),
    PLATFORM_PATCH("workspaces/:ws/vars/:id", var_update, changed, .help = "Change a variable."),
    PLATFORM_ACT(DELETE, "workspaces/:ws/vars/:id", var_delete, dropped,
                 .help = "Delete a variable."),
};

const struct route_table platform_var_table = {var_routes, ARRAY_LEN(var_routes)};
