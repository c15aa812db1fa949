/* Access of teams to workspaces. */
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_rows.h"

#define TYPE "team-workspaces"

static const char *const levels[] = {"read", "plan", "write", "admin", "custom", NULL};
static const char *const runs[] = {"read", "plan", "apply", NULL};
static const char *const variables[] = {"none", "read", "write", NULL};
static const char *const states[] = {"none", "read-outputs", "read", "write", NULL};
static const char *const mocks[] = {"none", "read", NULL};

static const struct platform_attr access_attrs[] = {
    {.name = "access", .traits = PLATFORM_REQUIRED, .values = levels},
    {.name = "runs", .preset = "\"read\"", .values = runs},
    {.name = "variables", .preset = "\"none\"", .values = variables},
    {.name = "state-versions", .preset = "\"none\"", .values = states},
    {.name = "sentinel-mocks", .preset = "\"none\"", .values = mocks},
    {.name = "workspace-locking", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "run-tasks", .value = PLATFORM_FLAG, .preset = "false"},
};
static const struct platform_kind access_kind = {.type = TYPE,
                                                 .prefix = "tws-",
                                                 .noun = "team access",
                                                 .attrs = access_attrs,
                                                 .n = ARRAY_LEN(access_attrs)};

/* The meaning of each level, in the words of `custom`. */
static const struct {
    const char *access, *runs, *variables, *states, *mocks;
    bool locking, tasks;
} meanings[] = {
    {"read", "read", "read", "read", "none", false, false},
    {"plan", "plan", "read", "read", "none", false, false},
    {"write", "apply", "write", "write", "read", true, false},
    {"admin", "apply", "write", "write", "read", true, true},
};

/* Set what the level implies; only `custom` takes the words themselves. */
static enum status settle_access(struct req *req, const struct platform_input *input,
                                 struct platform_object *grant)
{
    const char *access = platform_text(grant->attrs, "access");
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++) {
        if (strcmp(access, meanings[i].access) != 0)
            continue;
        for (size_t k = 1; k < ARRAY_LEN(access_attrs); k++) {
            const struct text_value *v = text_get(input->attributes, access_attrs[k].name);
            if (v != NULL && v->kind != TEXT_NULL)
                return platform_refuse(req, access_attrs[k].name,
                                       "can only be set where access is custom");
        }
        TRY(platform_set_text(req->arena, grant->attrs, "runs", meanings[i].runs));
        TRY(platform_set_text(req->arena, grant->attrs, "variables", meanings[i].variables));
        TRY(platform_set_text(req->arena, grant->attrs, "state-versions", meanings[i].states));
        TRY(platform_set_text(req->arena, grant->attrs, "sentinel-mocks", meanings[i].mocks));
        TRY(platform_set_flag(req->arena, grant->attrs, "workspace-locking", meanings[i].locking));
        TRY(platform_set_flag(req->arena, grant->attrs, "run-tasks", meanings[i].tasks));
    }
    return ST_OK;
}

static enum status show_access_relations(struct platform_view *view,
                                         const struct platform_object *object)
{
    platform_put_one(view, "team", "teams", object->name);
    platform_put_one(view, "workspace", "workspaces", object->parent);
    return ST_OK;
}

static const struct platform_resource access_shown = {
    .kind = &access_kind, .path = "team-workspaces/", .relations = show_access_relations};

static enum status grants_list(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_objects all;
    TRY(platform_who(req, &who));
    const char *ws = platform_parameter(req, "filter[workspace][id]");
    if (ws[0] == '\0')
        return req_fail(req, ST_REFUSED, "filter[workspace][id]: is required");
    TRY(platform_ws_find(req, &who, ws, PLATFORM_WS_SEE, &place));
    TRY(platform_object_children(req->txn, place.ws.id, TYPE, &all));
    return platform_reply_list(req, &who, &access_shown, &all, false);
}

static enum status grant_create(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_place place;
    struct platform_object team, grant;
    TRY(platform_who(req, &who));
    TRY(platform_input_read(req, &access_kind, false, &input));
    TRY(platform_ws_find(req, &who, platform_input_related_id(&input, "workspace"),
                         PLATFORM_WS_ADMIN, &place));
    enum status st =
        platform_object_load(req->txn, "teams", platform_input_related_id(&input, "team"), &team);
    if (st == ST_OK && strcmp(team.parent, place.org.id) != 0)
        st = ST_NOT_FOUND;
    TRY(st);
    TRY(platform_object_new(req, TYPE, access_kind.prefix, &grant));
    TRY(platform_input_apply(req, &access_kind, &input, true, grant.attrs));
    TRY(settle_access(req, &input, &grant));
    grant.parent = place.ws.id;
    grant.name = team.id;
    st = platform_object_add(req->txn, &grant);
    if (st == ST_EXISTS)
        return req_fail(req, ST_REFUSED, "the team has already been added to the workspace");
    TRY(st);
    return platform_reply_one(req, &who, &access_shown, &grant, 201);
}

static enum status find_grant(struct req *req, struct platform_who *who, unsigned rights,
                              struct platform_object *ret_grant)
{
    struct platform_place place;
    TRY(platform_who(req, who));
    TRY(platform_object_load(req->txn, TYPE, req_param(req, "id"), ret_grant));
    return platform_ws_find(req, who, ret_grant->parent, rights, &place);
}

static enum status grant_read(struct req *req)
{
    struct platform_who who;
    struct platform_object grant;
    TRY(find_grant(req, &who, PLATFORM_WS_SEE, &grant));
    return platform_reply_one(req, &who, &access_shown, &grant, 0);
}

static enum status grant_update(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object grant;
    TRY(find_grant(req, &who, PLATFORM_WS_ADMIN, &grant));
    TRY(platform_input_read(req, &access_kind, true, &input));
    TRY(platform_input_apply(req, &access_kind, &input, false, grant.attrs));
    TRY(settle_access(req, &input, &grant));
    grant.updated_ms = req->now_ms;
    TRY(platform_object_put(req->txn, grant.name, &grant));
    return platform_reply_one(req, &who, &access_shown, &grant, 0);
}

static enum status grant_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object grant;
    TRY(find_grant(req, &who, PLATFORM_WS_ADMIN, &grant));
    return platform_object_delete(req->txn, &grant);
}

static const struct platform_row
    listed = {&access_kind, PLATFORM_LIST, "workspace: see", false, false},
    shown = {&access_kind, PLATFORM_ONE, "workspace: see", false, false},
    made = {&access_kind, PLATFORM_ONE, "workspace: admin", true, true},
    changed = {&access_kind, PLATFORM_ONE, "workspace: admin", true, false},
    dropped = {NULL, PLATFORM_NOTHING, "workspace: admin", false, false};

static const struct route access_routes[] = {
    PLATFORM_GET("team-workspaces", grants_list, listed,
                 "The access of teams to the workspace of filter[workspace][id]."),
    PLATFORM_MAKE("team-workspaces", grant_create, made,
                  .help = "Give a team access to a workspace."),
    PLATFORM_GET("team-workspaces/:id", grant_read, shown, "The access of a team."),
    PLATFORM_PATCH("team-workspaces/:id", grant_update, changed,
                   .help = "Change the access of a team."),
    PLATFORM_ACT(DELETE, "team-workspaces/:id", grant_delete, dropped,
                 .help = "End the access of a team."),
};

const struct route_table platform_access_table = {access_routes, ARRAY_LEN(access_routes)};
