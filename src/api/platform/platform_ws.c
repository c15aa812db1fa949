/* Workspaces: made, read, changed and deleted by id and by name. Locks are in platform_lock.c. */
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_lock.h"
#include "api/platform/platform_rows.h"
#include "api/platform/platform_run.h"

#define TYPE "workspaces"

enum { TAGS_MAX = 100 };

static const char *const modes[] = {"remote", "local", "agent", NULL};

static const struct platform_attr ws_attrs[] = {
    {.name = "name", .traits = PLATFORM_REQUIRED, .max = 90, .check = platform_check_name},
    {.name = "description", .max = 2000, .traits = PLATFORM_CLEARS},
    {.name = "environment", .traits = PLATFORM_SHOWN, .preset = "\"default\""},
    {.name = "auto-apply", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "auto-apply-run-trigger", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "allow-destroy-plan", .value = PLATFORM_FLAG, .preset = "true"},
    {.name = "execution-mode", .values = modes, .traits = PLATFORM_NULL},
    {.name = "operations", .value = PLATFORM_FLAG, .traits = PLATFORM_UNSAVED},
    {.name = "queue-all-runs", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "speculative-enabled", .value = PLATFORM_FLAG, .preset = "true"},
    {.name = "structured-run-output-enabled", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "terraform-version", .max = 64, .preset = "\"latest\""},
    {.name = "working-directory", .max = 1000, .preset = "\"\"", .traits = PLATFORM_NULL},
    {.name = "global-remote-state", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "assessments-enabled", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "file-triggers-enabled", .value = PLATFORM_FLAG, .preset = "true"},
    {.name = "trigger-prefixes", .value = PLATFORM_TEXTS, .max = 100, .preset = "[]"},
    {.name = "trigger-patterns", .value = PLATFORM_TEXTS, .max = 100, .preset = "[]"},
    {.name = "source", .traits = PLATFORM_SHOWN, .preset = "\"tfe-api\""},
    {.name = "source-name", .max = 200, .traits = PLATFORM_CLEARS},
    {.name = "source-url", .max = 1000, .traits = PLATFORM_CLEARS, .check = platform_check_url},
    {.name = "tag-names", .value = PLATFORM_TEXTS, .traits = PLATFORM_SHOWN, .preset = "[]"},
    {.name = "vcs-repo", .value = PLATFORM_ANY, .traits = PLATFORM_SHOWN},
};
const struct platform_kind platform_ws_kind = {.type = TYPE,
                                               .prefix = "ws-",
                                               .noun = "workspace",
                                               .attrs = ws_attrs,
                                               .n = ARRAY_LEN(ws_attrs)};

static void put_ws_permissions(struct text_writer *w, unsigned rights)
{
    static const struct {
        const char *name;
        unsigned right;
    } map[] = {
        {"can-update", PLATFORM_WS_ADMIN},
        {"can-destroy", PLATFORM_WS_ADMIN},
        {"can-force-delete", PLATFORM_WS_ADMIN},
        {"can-queue-run", PLATFORM_WS_PLAN},
        {"can-queue-apply", PLATFORM_WS_APPLY},
        {"can-queue-destroy", PLATFORM_WS_APPLY},
        {"can-lock", PLATFORM_WS_LOCK},
        {"can-unlock", PLATFORM_WS_LOCK},
        {"can-force-unlock", PLATFORM_WS_ADMIN},
        {"can-read-settings", PLATFORM_WS_SEE},
        {"can-read-variable", PLATFORM_WS_READ_VARS},
        {"can-update-variable", PLATFORM_WS_WRITE_VARS},
        {"can-read-state-versions", PLATFORM_WS_READ_STATE},
        {"can-read-state-outputs", PLATFORM_WS_READ_OUTPUTS},
        {"can-create-state-versions", PLATFORM_WS_WRITE_STATE},
        {"can-read-assessment-results", PLATFORM_WS_SEE},
        {"can-manage-tags", PLATFORM_WS_ADMIN},
        {"can-manage-run-tasks", PLATFORM_WS_MANAGE_TASKS},
    };
    text_key(w, "permissions");
    text_open_object(w);
    for (size_t i = 0; i < ARRAY_LEN(map); i++)
        text_member_bool(w, map[i].name, (rights & map[i].right) != 0);
    text_close(w);
}

/* The reply about a workspace depends on the sender's rights, which are found here again: a
 * list shows many. */
static enum status rights_in(struct platform_view *view, const struct platform_object *ws,
                             unsigned *ret_rights)
{
    struct platform_who who = *view->who;
    struct platform_place place = {.ws = *ws};
    TRY(platform_object_load(view->req->txn, "organizations", ws->parent, &place.org));
    TRY(platform_org_rights(view->req, &who, &place.org, &place.org_rights));
    TRY(platform_ws_rights(view->req, &who, &place));
    *ret_rights = place.rights;
    return ST_OK;
}

static enum status show_ws_more(struct platform_view *view, const struct platform_object *object)
{
    struct text_writer *w = view->w;
    unsigned rights;
    TRY(rights_in(view, object, &rights));
    const char *mode = platform_text(object->attrs, "execution-mode");
    text_member_bool(w, "operations", strcmp(mode, "local") != 0);
    text_member_bool(w, "locked", platform_is_locked(object));
    text_member_str(w, "locked-reason", platform_text(object->links, "locked-reason"));
    text_member_int(w, "resource-count", platform_number(object->links, "resource-count"));
    text_member_time(w, "created-at", object->created_ms);
    text_member_time(w, "updated-at", object->updated_ms);
    text_key(w, "setting-overwrites");
    text_open_object(w);
    text_member_bool(w, "execution-mode", true);
    text_member_bool(w, "agent-pool", false);
    text_close(w);
    text_key(w, "actions");
    text_open_object(w);
    text_member_bool(w, "is-destroyable", true);
    text_close(w);
    put_ws_permissions(w, rights);
    return ST_OK;
}

static enum status put_outputs(struct platform_view *view, const struct platform_object *object)
{
    struct platform_object state;
    struct platform_objects outputs = {0};
    enum status st = platform_state_current(view->req->txn, object, &state);
    if (st == ST_OK)
        st = platform_object_children(view->req->txn, state.id, "state-version-outputs", &outputs);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    platform_sort_by_name(&outputs);
    platform_put_many(view, "outputs");
    for (size_t i = 0; i < outputs.n; i++)
        platform_put_item(view, "workspace-outputs", outputs.items[i].id);
    platform_put_many_end(view);
    return ST_OK;
}

static enum status show_ws_relations(struct platform_view *view,
                                     const struct platform_object *object)
{
    struct platform_object org;
    TRY(platform_object_load(view->req->txn, "organizations", object->parent, &org));
    platform_put_one(view, "organization", "organizations", org.name);
    platform_put_one(view, "project", "projects", platform_text(object->links, "project"));
    platform_put_one(view, "current-run", "runs", platform_text(object->links, "current-run"));
    platform_put_one(view, "current-configuration-version", "configuration-versions",
                     platform_text(object->links, "current-config"));
    platform_put_one(view, "agent-pool", "agent-pools", platform_text(object->links, "agent-pool"));
    platform_put_one(view, "current-state-version", "state-versions",
                     platform_text(object->links, "current-state"));
    platform_put_one(view, "locked-by", platform_text(object->links, "locked-type"),
                     platform_text(object->links, "locked-by"));
    return put_outputs(view, object);
}

static enum status include_org(struct platform_view *view, const struct platform_object *object)
{
    struct platform_object org;
    TRY(platform_object_load(view->req->txn, "organizations", object->parent, &org));
    const struct platform_object shown = platform_org_shown(&org);
    return platform_view_add(view, &platform_org, &shown);
}

/* Parts that no workspace has: the relationship is null. */
static enum status include_nothing(struct platform_view *view, const struct platform_object *object)
{
    (void)view;
    (void)object;
    return ST_OK;
}

static enum status include_linked(struct platform_view *view, const char *id,
                                  const struct platform_resource *resource)
{
    struct platform_object object;
    enum status st = platform_object_load(view->req->txn, resource->kind->type, id, &object);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return platform_view_add(view, resource, &object);
}

static enum status include_run(struct platform_view *view, const struct platform_object *object)
{
    return include_linked(view, platform_text(object->links, "current-run"), &platform_run);
}

static enum status include_of_run(struct platform_view *view, const struct platform_object *object,
                                  const char *link, const struct platform_resource *resource)
{
    struct platform_object run;
    enum status st = platform_object_load(view->req->txn, "runs",
                                          platform_text(object->links, "current-run"), &run);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return include_linked(view, platform_text(run.links, link), resource);
}

static enum status include_run_plan(struct platform_view *view,
                                    const struct platform_object *object)
{
    return include_of_run(view, object, "plan", &platform_plan);
}

static enum status include_run_config(struct platform_view *view,
                                      const struct platform_object *object)
{
    return include_of_run(view, object, "cv", &platform_config_version);
}

static enum status include_config(struct platform_view *view, const struct platform_object *object)
{
    return include_linked(view, platform_text(object->links, "current-config"),
                          &platform_config_version);
}

/* A version has the URL of its content: it is left out for a sender who may not read states. */
static enum status include_state(struct platform_view *view, const struct platform_object *object)
{
    struct platform_who who = *view->who;
    struct platform_place place;
    struct platform_object state;
    enum status st =
        platform_ws_find(view->req, &who, object->id, PLATFORM_WS_READ_STATE, &place);
    if (st == ST_OK)
        st = platform_state_current(view->req->txn, object, &state);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return platform_view_add(view, &platform_state, &state);
}

static enum status include_locker(struct platform_view *view, const struct platform_object *object)
{
    struct platform_object locker;
    bool sees = true;
    const char *id = platform_text(object->links, "locked-by");
    if (strcmp(platform_text(object->links, "locked-type"), "runs") == 0)
        return include_linked(view, id, &platform_run);
    bool user = strcmp(platform_text(object->links, "locked-type"), "users") == 0;
    enum status st = user ? platform_user_load(view->req->txn, id, &locker)
                          : platform_object_load(view->req->txn, "teams", id, &locker);
    if (st == ST_OK && !user)
        st = platform_team_sees(view->req, view->who, &locker, &sees);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    if (!sees)
        return ST_OK;
    return platform_view_add(view, user ? &platform_user : &platform_team, &locker);
}

/* Outputs of a workspace have a type of their own, and hide what is sensitive. */
static enum status show_output_more(struct platform_view *view,
                                    const struct platform_object *object)
{
    struct text_writer *w = view->w;
    bool sensitive = platform_flag(object->attrs, "sensitive");
    text_member_str(w, "name", object->name);
    text_member_bool(w, "sensitive", sensitive);
    text_member_str(w, "output-type", platform_text(object->attrs, "type"));
    text_key(w, "value");
    text_put_value(w, sensitive ? NULL : text_get(object->attrs, "value"));
    text_key(w, "detailed-type");
    text_put_value(w, text_get(object->attrs, "detailed-type"));
    return ST_OK;
}
static const struct platform_kind output_kind = {.type = "workspace-outputs", .noun = "output"};
static const struct platform_resource output_shown = {
    .kind = &output_kind, .path = "state-version-outputs/", .more = show_output_more};

static enum status include_outputs(struct platform_view *view, const struct platform_object *object)
{
    struct platform_object state;
    struct platform_objects outputs;
    enum status st = platform_state_current(view->req->txn, object, &state);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    TRY(platform_object_children(view->req->txn, state.id, "state-version-outputs", &outputs));
    platform_sort_by_name(&outputs);
    for (size_t i = 0; i < outputs.n; i++)
        TRY(platform_view_add(view, &output_shown, &outputs.items[i]));
    return ST_OK;
}

static const struct platform_include ws_includes[] = {
    {"organization", include_org},
    {"outputs", include_outputs},
    {"locked_by", include_locker},
    {"current_state_version", include_state},
    {"current_run", include_run},
    {"current_run.plan", include_run_plan},
    {"current_run.configuration_version", include_run_config},
    {"current_configuration_version", include_config},
    {"current_configuration_version.ingress_attributes", include_nothing},
    {"readme", include_nothing},
    {"project", include_nothing},
    {"current_assessment_result", include_nothing},
    {"effective_tag_bindings", include_nothing},
};

const struct platform_resource platform_ws = {.kind = &platform_ws_kind,
                                              .path = "workspaces/",
                                              .more = show_ws_more,
                                              .relations = show_ws_relations,
                                              .includes = ws_includes,
                                              .n_includes = ARRAY_LEN(ws_includes)};

/* Tags: a list of names in the attributes. */
static enum status add_tags(struct req *req, const struct text_value *list,
                            struct platform_object *ws)
{
    if (list == NULL)
        return ST_OK;
    if (list->kind != TEXT_LIST || list->n > TAGS_MAX)
        return req_fail(req, ST_REFUSED, "/data: a list of at most %d tags is expected", TAGS_MAX);
    TEXT_FOR (item, list) {
        const char *name = platform_text(item, "name");
        const struct text_value *attributes = text_get(item, "attributes");
        if (name[0] == '\0')
            name = platform_text(attributes, "name");
        if (name[0] == '\0' || strlen(name) > 255)
            return req_fail(req, ST_REFUSED, "/data/attributes/name: a tag needs a name");
        TRY(platform_list_add(req->arena, ws->attrs, "tag-names", name));
    }
    const struct text_value *tags = text_get(ws->attrs, "tag-names");
    return tags == NULL || tags->n <= TAGS_MAX
               ? ST_OK
               : req_fail(req, ST_REFUSED, "/data: at most %d tags are allowed", TAGS_MAX);
}

/* The agent pool, which mode "agent" needs: an attribute or a relationship. */
static enum status apply_pool(struct req *req, const struct platform_input *input,
                              const struct platform_object *org, struct platform_object *ws)
{
    struct platform_object pool;
    const char *id = platform_text(input->attributes, "agent-pool-id");
    if (id[0] == '\0')
        id = platform_input_related_id(input, "agent-pool");
    if (id[0] != '\0') {
        enum status st = platform_object_load(req->txn, "agent-pools", id, &pool);
        if (st == ST_NOT_FOUND || (st == ST_OK && strcmp(pool.parent, org->id) != 0))
            return platform_refuse(req, "agent-pool-id", "The provided agent pool does not exist");
        TRY(st);
        TRY(platform_set_text(req->arena, ws->links, "agent-pool", pool.id));
    }
    bool agent = strcmp(platform_text(ws->attrs, "execution-mode"), "agent") == 0;
    if (agent && platform_text(ws->links, "agent-pool")[0] == '\0')
        return platform_refuse(req, "agent-pool-id", "is required with execution-mode agent");
    return agent ? ST_OK : platform_set_text(req->arena, ws->links, "agent-pool", "");
}

/* Attributes that depend on others, and relationships. */
static enum status apply_more(struct req *req, const struct platform_input *input,
                              const struct platform_object *org, struct platform_object *ws)
{
    struct platform_object project;
    const char *project_id = platform_input_related_id(input, "project");
    const struct text_value *operations = text_get(input->attributes, "operations");
    const struct text_value *mode = text_get(input->attributes, "execution-mode");
    if (operations != NULL && operations->kind == TEXT_BOOL &&
        (mode == NULL || mode->kind == TEXT_NULL))
        TRY(platform_set_text(req->arena, ws->attrs, "execution-mode",
                              operations->truth ? "remote" : "local"));
    TRY(apply_pool(req, input, org, ws));
    if (project_id[0] != '\0') {
        enum status st = platform_object_load(req->txn, "projects", project_id, &project);
        if (st == ST_NOT_FOUND || (st == ST_OK && strcmp(project.parent, org->id) != 0))
            return req_fail(req, ST_REFUSED,
                            "/data/relationships/project: there is no such "
                            "project");
        TRY(st);
        TRY(platform_set_text(req->arena, ws->links, "project", project_id));
    }
    return add_tags(req, platform_input_related(input, "tags"), ws);
}

/* A new workspace takes what the organization and the site prescribe. */
static enum status apply_presets(struct req *req, const struct platform_input *input,
                                 const struct platform_object *org, struct platform_object *ws)
{
    struct platform_object general;
    const struct text_value *given = text_get(input->attributes, "global-remote-state");
    TRY(platform_settings_load(req->txn, "general", &general));
    if (given == NULL || given->kind == TEXT_NULL)
        TRY(platform_set_flag(req->arena, ws->attrs, "global-remote-state",
                              platform_flag(general.attrs, "default-remote-state-access")));
    if (platform_text(ws->attrs, "execution-mode")[0] == '\0')
        TRY(platform_set_text(req->arena, ws->attrs, "execution-mode",
                              platform_text(org->attrs, "default-execution-mode")));
    return platform_set_text(req->arena, ws->links, "project",
                             platform_text(org->links, "default-project"));
}

static enum status ws_create(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object org, ws;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_MANAGE_WORKSPACES, &org));
    TRY(platform_input_read(req, &platform_ws_kind, false, &input));
    TRY(platform_object_new(req, TYPE, platform_ws_kind.prefix, &ws));
    TRY(platform_input_apply(req, &platform_ws_kind, &input, true, ws.attrs));
    TRY(apply_presets(req, &input, &org, &ws));
    TRY(apply_more(req, &input, &org, &ws));
    ws.parent = org.id;
    ws.name = platform_text(ws.attrs, "name");
    enum status st = platform_object_add(req->txn, &ws);
    if (st == ST_EXISTS)
        return platform_refuse(req, "name", "Name has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &platform_ws, &ws, 201);
}

/* Whether a workspace has all the tags of a list with commas. */
static bool has_tags(const struct platform_object *ws, const char *tags, bool wanted)
{
    while (*tags != '\0') {
        char tag[256];
        size_t len = MIN(strcspn(tags, ","), sizeof tag - 1);
        memcpy(tag, tags, len);
        tag[len] = '\0';
        if (platform_has(ws->attrs, "tag-names", tag) != wanted)
            return false;
        tags += len + (tags[len] == ',');
    }
    return true;
}

/* "a*", "*a" and "*a*" as clients write them. */
static bool fits_wildcard(const char *name, const char *wanted)
{
    size_t len = strlen(wanted), name_len = strlen(name);
    bool open = len != 0 && wanted[0] == '*', tail = len > 1 && wanted[len - 1] == '*';
    struct bytes part = bytes_of(wanted + open, len - open - tail);
    if (part.len > name_len)
        return false;
    if (open && tail)
        return memmem(name, name_len, part.data, part.len) != NULL;
    if (open)
        return memcmp(name + name_len - part.len, part.data, part.len) == 0;
    return memcmp(name, part.data, part.len) == 0 && (tail || part.len == name_len);
}

static bool is_searched(const struct req *req, const struct platform_object *ws)
{
    const char *wildcard = platform_parameter(req, "search[wildcard-name]");
    const char *project = platform_parameter(req, "filter[project][id]");
    return strstr(ws->name, platform_parameter(req, "search[name]")) != NULL &&
           has_tags(ws, platform_parameter(req, "search[tags]"), true) &&
           has_tags(ws, platform_parameter(req, "search[exclude-tags]"), false) &&
           (wildcard[0] == '\0' || fits_wildcard(ws->name, wildcard)) &&
           (project[0] == '\0' || strcmp(platform_text(ws->links, "project"), project) == 0);
}

/* Whether the current run of a workspace has the status that the client asks for. */
static enum status fits_run(struct req *req, const struct platform_object *ws, bool *ret_fits)
{
    struct platform_object run;
    const char *status = platform_parameter(req, "filter[current-run][status]");
    *ret_fits = status[0] == '\0';
    if (*ret_fits)
        return ST_OK;
    enum status st =
        platform_object_load(req->txn, "runs", platform_text(ws->links, "current-run"), &run);
    if (st == ST_OK)
        *ret_fits = strcmp(platform_text(run.attrs, "status"), status) == 0;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status ws_list(struct req *req)
{
    struct platform_who who;
    struct platform_objects all;
    struct platform_place place;
    size_t n = 0;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_SEE, &place.org));
    TRY(platform_org_rights(req, &who, &place.org, &place.org_rights));
    TRY(platform_object_children(req->txn, place.org.id, TYPE, &all));
    for (size_t i = 0; i < all.n; i++) {
        place.ws = all.items[i];
        bool fits;
        TRY(platform_ws_rights(req, &who, &place));
        TRY(fits_run(req, &place.ws, &fits));
        if ((place.rights & PLATFORM_WS_SEE) != 0 && is_searched(req, &place.ws) && fits)
            all.items[n++] = place.ws;
    }
    all.n = n;
    const char *sort = platform_parameter(req, "sort");
    platform_sort_by_name(&all);
    for (size_t i = 0; sort[0] == '-' && i < all.n / 2; i++) {
        struct platform_object last = all.items[all.n - 1 - i];
        all.items[all.n - 1 - i] = all.items[i];
        all.items[i] = last;
    }
    return platform_reply_list(req, &who, &platform_ws, &all, false);
}

/* Find the workspace of a path, by id or by name. */
static enum status find_ws(struct req *req, struct platform_who *who, unsigned rights,
                           struct platform_place *ret_place)
{
    bool named = bytes_has_prefix(req->path, BYTES("organizations/"));
    const char *id = named ? "" : req_param(req, "ws");
    TRY(platform_who(req, who));
    if (named) {
        struct platform_object org, ws;
        TRY(platform_org_find(req, who, req_param(req, "org"),
                              PLATFORM_ORG_SEE | PLATFORM_ORG_OF_RUN, &org));
        TRY(platform_object_named(req->txn, org.id, TYPE, req_param(req, "name"), &ws));
        id = ws.id;
    }
    return platform_ws_find(req, who, id, rights, ret_place);
}

static enum status ws_read(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    TRY(find_ws(req, &who, PLATFORM_WS_SEE, &place));
    return platform_reply_one(req, &who, &platform_ws, &place.ws, 0);
}

static enum status ws_update(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_place place;
    TRY(find_ws(req, &who, PLATFORM_WS_ADMIN, &place));
    const char *before = place.ws.name;
    TRY(platform_input_read(req, &platform_ws_kind, true, &input));
    TRY(platform_input_apply(req, &platform_ws_kind, &input, false, place.ws.attrs));
    TRY(apply_more(req, &input, &place.org, &place.ws));
    place.ws.name = platform_text(place.ws.attrs, "name");
    place.ws.updated_ms = req->now_ms;
    enum status st = platform_object_put(req->txn, before, &place.ws);
    if (st == ST_EXISTS)
        return platform_refuse(req, "name", "Name has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &platform_ws, &place.ws, 0);
}

static enum status ws_delete(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    TRY(find_ws(req, &who, PLATFORM_WS_ADMIN, &place));
    return platform_object_delete(req->txn, &place.ws);
}

static enum status ws_safe_delete(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    TRY(find_ws(req, &who, PLATFORM_WS_ADMIN, &place));
    if (platform_is_locked(&place.ws))
        return req_fail(req, ST_EXISTS, "cannot delete workspace because it is locked");
    if (platform_number(place.ws.links, "resource-count") != 0)
        return req_fail(req, ST_EXISTS, "cannot delete workspace because it manages resources");
    return platform_object_delete(req->txn, &place.ws);
}

/* Tags and consumers of remote state */

static enum status change_tags(struct req *req, bool add)
{
    struct platform_who who;
    struct platform_place place;
    const struct text_value *list = text_get(req->data, "data");
    TRY(find_ws(req, &who, PLATFORM_WS_ADMIN, &place));
    if (list == NULL || list->kind != TEXT_LIST)
        return req_fail(req, ST_REFUSED, "/data: a list of tags is expected");
    if (add)
        TRY(add_tags(req, list, &place.ws));
    else
        TEXT_FOR (item, list) {
            const char *name = platform_text(text_get(item, "attributes"), "name");
            TRY(platform_list_remove(req->arena, place.ws.attrs, "tag-names",
                                     name[0] != '\0' ? name : platform_text(item, "id")));
        }
    return platform_object_put(req->txn, place.ws.name, &place.ws);
}

static enum status tags_add(struct req *req)
{
    return change_tags(req, true);
}

static enum status tags_remove(struct req *req)
{
    return change_tags(req, false);
}

static const struct platform_kind tag_kind = {.type = "tags", .noun = "tag"};
static enum status show_tag_more(struct platform_view *view, const struct platform_object *object)
{
    text_member_str(view->w, "name", object->name);
    return ST_OK;
}
static const struct platform_resource tag_shown = {.kind = &tag_kind, .more = show_tag_more};

static enum status tags_list(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    TRY(find_ws(req, &who, PLATFORM_WS_SEE, &place));
    const struct text_value *tags = text_get(place.ws.attrs, "tag-names");
    size_t room = tags != NULL ? tags->n : 0;
    struct platform_objects all = {arena_zalloc(req->arena, (room + 1) * sizeof *all.items), 0};
    if (all.items == NULL)
        return ST_NOMEM;
    if (tags != NULL)
        TEXT_FOR (v, tags) {
            const char *name = (const char *)v->text.data;
            all.items[all.n++] = (struct platform_object){.id = name, .name = name};
        }
    return platform_reply_list(req, &who, &tag_shown, &all, false);
}

static enum status consumers_list(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    TRY(find_ws(req, &who, PLATFORM_WS_SEE, &place));
    const struct text_value *ids = text_get(place.ws.links, "consumers");
    size_t room = ids != NULL ? ids->n : 0;
    struct platform_objects all = {arena_zalloc(req->arena, (room + 1) * sizeof *all.items), 0};
    if (all.items == NULL)
        return ST_NOMEM;
    if (ids != NULL)
        TEXT_FOR (v, ids) {
            enum status st =
                platform_object_load(req->txn, TYPE, (const char *)v->text.data, &all.items[all.n]);
            bool sees = false;
            if (st != ST_OK && st != ST_NOT_FOUND)
                return st;
            if (st == ST_OK)
                TRY(platform_ws_sees(req, &who, &all.items[all.n], &sees));
            all.n += sees;
        }
    platform_sort_by_name(&all);
    return platform_reply_list(req, &who, &platform_ws, &all, false);
}

static enum status change_consumers(struct req *req, bool replace, bool add)
{
    struct platform_who who;
    struct platform_place place;
    const struct text_value *list = text_get(req->data, "data");
    TRY(find_ws(req, &who, PLATFORM_WS_ADMIN, &place));
    if (list == NULL || list->kind != TEXT_LIST || list->n > 1000)
        return req_fail(req, ST_REFUSED, "/data: a list of workspaces is expected");
    if (replace)
        TRY(platform_set_null(req->arena, place.ws.links, "consumers"));
    TEXT_FOR (item, list) {
        struct platform_object other;
        const char *id = platform_item_id(item);
        if (!add) {
            TRY(platform_list_remove(req->arena, place.ws.links, "consumers", id));
            continue;
        }
        enum status st = platform_object_load(req->txn, TYPE, id, &other);
        if (st == ST_NOT_FOUND || (st == ST_OK && strcmp(other.parent, place.org.id) != 0))
            return req_fail(req, ST_REFUSED, "/data: there is no workspace \"%.60s\"", id);
        TRY(st);
        TRY(platform_list_add(req->arena, place.ws.links, "consumers", other.id));
    }
    return platform_object_put(req->txn, place.ws.name, &place.ws);
}

static enum status consumers_add(struct req *req)
{
    return change_consumers(req, false, true);
}

static enum status consumers_replace(struct req *req)
{
    return change_consumers(req, true, true);
}

static enum status consumers_remove(struct req *req)
{
    return change_consumers(req, false, false);
}

static const struct platform_row
    listed = {&platform_ws_kind, PLATFORM_LIST, "organization: see", false, false},
    shown = {&platform_ws_kind, PLATFORM_ONE, "workspace: see", false, false},
    made = {&platform_ws_kind, PLATFORM_ONE, "organization: manage workspaces", true, true},
    changed = {&platform_ws_kind, PLATFORM_ONE, "workspace: admin", true, false},
    tagged = {&tag_kind, PLATFORM_LIST, "workspace: see", false, false},
    done = {NULL, PLATFORM_NOTHING, "workspace: admin", false, false};

#define BY_NAME "organizations/:org/workspaces/:name"
#define BY_ID "workspaces/:ws"

static const struct route ws_routes[] = {
    PLATFORM_GET("organizations/:org/workspaces", ws_list, listed,
                 "The workspaces that the sender sees."),
    PLATFORM_MAKE("organizations/:org/workspaces", ws_create, made, .help = "Create a workspace."),
    PLATFORM_GET(BY_NAME, ws_read, shown, "A workspace, by its name."),
    PLATFORM_PATCH(BY_NAME, ws_update, changed, .help = "Change a workspace."),
    PLATFORM_ACT(DELETE, BY_NAME, ws_delete, done, .help = "Delete a workspace."),
    PLATFORM_ACT(POST, BY_NAME "/actions/safe-delete", ws_safe_delete, done,
                 .help = "Delete a workspace that manages nothing."),
    PLATFORM_GET(BY_ID, ws_read, shown, "A workspace."),
    PLATFORM_PATCH(BY_ID, ws_update, changed, .help = "Change a workspace."),
    PLATFORM_ACT(DELETE, BY_ID, ws_delete, done, .help = "Delete a workspace."),
    PLATFORM_ACT(POST, BY_ID "/actions/safe-delete", ws_safe_delete, done,
                 .help = "Delete a workspace that manages nothing."),
    PLATFORM_GET(BY_ID "/relationships/tags", tags_list, tagged, "The tags of a workspace."),
    PLATFORM_ACT(POST, BY_ID "/relationships/tags", tags_add, done, .help = "Add tags."),
    PLATFORM_ACT(DELETE, BY_ID "/relationships/tags", tags_remove, done, .help = "Remove tags."),
    PLATFORM_GET(BY_ID "/relationships/remote-state-consumers", consumers_list, listed,
                 "The workspaces whose runs may read the state."),
    PLATFORM_ACT(POST, BY_ID "/relationships/remote-state-consumers", consumers_add, done,
                 .help = "Add consumers of the state."),
    PLATFORM_ACT(PATCH, BY_ID "/relationships/remote-state-consumers", consumers_replace, done,
                 .help = "Replace the consumers of the state."),
    PLATFORM_ACT(DELETE, BY_ID "/relationships/remote-state-consumers", consumers_remove, done,
                 .help = "Remove consumers of the state."),
};

const struct route_table platform_ws_table = {ws_routes, ARRAY_LEN(ws_routes)};
