/* Organizations. In documents the id of an organization is its name; keys and links use the id that
 * documents show as external-id, so that a change of the name touches one record. */
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_pool.h"
#include "api/platform/platform_rows.h"

enum { NAME_MAX_BYTES = 40, EMAIL_MAX = 200 };

static const char *const modes[] = {"remote", "local", "agent", NULL};

static const struct platform_attr org_attrs[] = {
    {.name = "name",
     .traits = PLATFORM_REQUIRED,
     .max = NAME_MAX_BYTES,
     .check = platform_check_name},
    {.name = "email", .traits = PLATFORM_REQUIRED, .max = EMAIL_MAX, .check = platform_check_email},
    {.name = "collaborator-auth-policy", .preset = "\"password\"", .max = 64},
    {.name = "session-timeout", .value = PLATFORM_NUMBER, .traits = PLATFORM_CLEARS},
    {.name = "session-remember", .value = PLATFORM_NUMBER, .traits = PLATFORM_CLEARS},
    {.name = "default-execution-mode", .preset = "\"remote\"", .values = modes},
    {.name = "cost-estimation-enabled", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "allow-force-delete-workspaces", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "assessments-enforced", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "is-disabled", .value = PLATFORM_FLAG, .traits = PLATFORM_SHOWN, .preset = "false"},
};
const struct platform_kind platform_org_kind = {.type = "organizations",
                                                .prefix = "org-",
                                                .noun = "organization",
                                                .attrs = org_attrs,
                                                .n = ARRAY_LEN(org_attrs)};

static enum status put_org_permissions(struct platform_view *view, unsigned rights)
{
    static const struct {
        const char *name;
        unsigned right;
    } map[] = {
        {"can-update", PLATFORM_ORG_OWN},
        {"can-destroy", PLATFORM_ORG_OWN},
        {"can-access-via-teams", PLATFORM_ORG_SEE},
        {"can-create-team", PLATFORM_ORG_MANAGE_TEAMS},
        {"can-create-workspace", PLATFORM_ORG_MANAGE_WORKSPACES},
        {"can-create-project", PLATFORM_ORG_MANAGE_PROJECTS},
        {"can-manage-run-tasks", PLATFORM_ORG_MANAGE_TASKS},
        {"can-manage-users", PLATFORM_ORG_MANAGE_MEMBERS},
        {"can-update-api-token", PLATFORM_ORG_OWN},
        {"can-traverse", PLATFORM_ORG_SEE},
    };
    text_key(view->w, "permissions");
    text_open_object(view->w);
    for (size_t i = 0; i < ARRAY_LEN(map); i++)
        text_member_bool(view->w, map[i].name, (rights & map[i].right) != 0);
    text_close(view->w);
    return ST_OK;
}

static enum status show_org(struct platform_view *view, const struct platform_object *object)
{
    struct platform_who who = *view->who;
    struct platform_object org;
    unsigned rights;
    TRY(platform_object_named(view->req->txn, PLATFORM_ROOT, "organizations", object->name, &org));
    TRY(platform_org_rights(view->req, &who, &org, &rights));
    text_member_str(view->w, "external-id", org.id);
    text_member_time(view->w, "created-at", object->created_ms);
    text_member_bool(view->w, "saml-enabled", false);
    text_member_bool(view->w, "two-factor-conformant", true);
    return put_org_permissions(view, rights);
}

static enum status show_org_relations(struct platform_view *view,
                                      const struct platform_object *object)
{
    platform_put_one(view, "default-project", "projects",
                     platform_text(object->links, "default-project"));
    return ST_OK;
}

const struct platform_resource platform_org = {.kind = &platform_org_kind,
                                               .path = "organizations/",
                                               .more = show_org,
                                               .relations = show_org_relations};

struct platform_object platform_org_shown(const struct platform_object *org)
{
    struct platform_object shown = *org;
    shown.id = org->name;
    return shown;
}

static enum status reply_org(struct req *req, const struct platform_who *who,
                             const struct platform_object *org, int http)
{
    const struct platform_object shown = platform_org_shown(org);
    return platform_reply_one(req, who, &platform_org, &shown, http);
}

static enum status orgs_list(struct req *req)
{
    struct platform_who who;
    struct platform_objects all;
    size_t n = 0;
    TRY(platform_who(req, &who));
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, "organizations", &all));
    const char *wanted = platform_parameter(req, "q");
    for (size_t i = 0; i < all.n; i++) {
        unsigned rights;
        TRY(platform_org_rights(req, &who, &all.items[i], &rights));
        if ((rights & PLATFORM_ORG_SEE) != 0 && strstr(all.items[i].name, wanted) != NULL)
            all.items[n++] = platform_org_shown(&all.items[i]);
    }
    all.n = n;
    platform_sort_by_name(&all);
    return platform_reply_list(req, &who, &platform_org, &all, false);
}

static enum status may_create(struct req *req, const struct platform_who *who)
{
    struct platform_object general;
    if (who->owner != PLATFORM_USER)
        return ST_NOT_FOUND;
    TRY(platform_settings_load(req->txn, "general", &general));
    bool limited = platform_flag(general.attrs, "limit-user-organization-creation");
    return !limited || who->site_admin
               ? ST_OK
               : req_fail(req, ST_NOT_FOUND, "only site administrators create organizations");
}

/* Stage what every organization has: its project, its owners, and the creator among them. */
static enum status furnish(struct req *req, const struct platform_who *who,
                           struct platform_object *org)
{
    const char *team;
    TRY(platform_project_default(req, org));
    enum status st = platform_object_add(req->txn, org);
    if (st == ST_EXISTS)
        return platform_refuse(req, "name", "Name has already been taken");
    TRY(st);
    TRY(platform_team_owners(req, org, &team));
    if (strcmp(who->id, PLATFORM_ROOT_USER) == 0)
        return ST_OK;
    return platform_member_add(req, org, &who->user, team);
}

static enum status org_create(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object org;
    TRY(platform_who(req, &who));
    TRY(may_create(req, &who));
    TRY(platform_input_read(req, &platform_org_kind, false, &input));
    TRY(platform_object_new(req, "organizations", "org-", &org));
    TRY(platform_input_apply(req, &platform_org_kind, &input, true, org.attrs));
    org.name = platform_text(org.attrs, "name");
    TRY(furnish(req, &who, &org));
    return reply_org(req, &who, &org, 201);
}

static enum status org_read(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_SEE, &org));
    return reply_org(req, &who, &org, 0);
}

static enum status org_update(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object org;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_OWN, &org));
    const char *before = org.name;
    TRY(platform_input_read(req, &platform_org_kind, true, &input));
    TRY(platform_input_apply(req, &platform_org_kind, &input, false, org.attrs));
    org.name = platform_text(org.attrs, "name");
    org.updated_ms = req->now_ms;
    enum status st = platform_object_put(req->txn, before, &org);
    if (st == ST_EXISTS)
        return platform_refuse(req, "name", "Name has already been taken");
    TRY(st);
    return reply_org(req, &who, &org, 0);
}

static enum status org_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_OWN, &org));
    return platform_object_delete(req->txn, &org);
}

/* Entitlements of an organization: the parts that are built. Without a worker clients run on their
 * own machine. */
static enum status entitlements(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    bool works;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_SEE | PLATFORM_ORG_OF_RUN,
                          &org));
    TRY(platform_pool_works(req->txn, &org, req->now_ms, &works));
    const struct {
        const char *name;
        bool has;
    } list[] = {
        {"operations", works},    {"state-storage", true},       {"teams", true},
        {"run-tasks", true},      {"global-run-tasks", true},    {"private-run-tasks", false},
        {"agents", true},         {"cost-estimation", false},    {"sso", false},
        {"sentinel", false},      {"vcs-integrations", false},   {"private-module-registry", false},
        {"audit-logging", false}, {"policy-enforcement", false}, {"configuration-designer", false},
    };
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "data");
    text_open_object(&w);
    text_member_str(&w, "id", org.id);
    text_member_str(&w, "type", "entitlement-sets");
    text_key(&w, "attributes");
    text_open_object(&w);
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        text_member_bool(&w, list[i].name, list[i].has);
    text_close(&w);
    text_close(&w);
    text_close(&w);
    return req_reply_end(req);
}

static const struct platform_row
    listed = {&platform_org_kind, PLATFORM_LIST, NULL, false, false},
    made = {&platform_org_kind, PLATFORM_ONE, "site administrator, or any user", true, true},
    shown = {&platform_org_kind, PLATFORM_ONE, "organization: see", false, false},
    changed = {&platform_org_kind, PLATFORM_ONE, "organization: owner", true, false},
    deleted = {NULL, PLATFORM_NOTHING, "organization: owner", false, false},
    entitled = {NULL, PLATFORM_NOTHING, "organization: see", false, false};

static const struct route org_routes[] = {
    PLATFORM_GET("organizations", orgs_list, listed, "The organizations that the sender sees."),
    PLATFORM_MAKE("organizations", org_create, made, .help = "Create an organization."),
    PLATFORM_GET("organizations/:org", org_read, shown, "An organization."),
    PLATFORM_PATCH("organizations/:org", org_update, changed, .help = "Change an organization."),
    PLATFORM_ACT(DELETE, "organizations/:org", org_delete, deleted,
                 .help = "Delete an organization and all that it has."),
    PLATFORM_GET("organizations/:org/entitlement-set", entitlements, entitled,
                 "What an organization may use."),
};

const struct route_table platform_org_table = {org_routes, ARRAY_LEN(org_routes)};
