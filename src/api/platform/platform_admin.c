/* Site administrators alone: all organizations, users, workspaces, and versions of the tool. */
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_rows.h"

/* Organizations */

static const struct platform_attr org_attrs[] = {
    {.name = "is-disabled", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "workspace-limit", .value = PLATFORM_NUMBER, .traits = PLATFORM_CLEARS},
    {.name = "plan-timeout", .max = 32, .traits = PLATFORM_CLEARS},
    {.name = "apply-timeout", .max = 32, .traits = PLATFORM_CLEARS},
    {.name = "global-module-sharing", .value = PLATFORM_FLAG, .preset = "false"},
};
static const struct platform_kind org_kind = {
    .type = "organizations", .noun = "organization", .attrs = org_attrs, .n = ARRAY_LEN(org_attrs)};

static enum status show_org_more(struct platform_view *view, const struct platform_object *object)
{
    struct platform_object org;
    TRY(platform_object_named(view->req->txn, PLATFORM_ROOT, "organizations", object->name, &org));
    text_member_str(view->w, "name", object->name);
    text_member_str(view->w, "external-id", org.id);
    text_member_str(view->w, "notification-email", platform_text(object->attrs, "email"));
    text_member_time(view->w, "created-at", object->created_ms);
    text_member_bool(view->w, "access-beta-tools", false);
    text_member_bool(view->w, "sso-enabled", false);
    return ST_OK;
}

static enum status include_owners(struct platform_view *view, const struct platform_object *object)
{
    struct platform_object org, owners;
    struct platform_objects members;
    TRY(platform_object_named(view->req->txn, PLATFORM_ROOT, "organizations", object->name, &org));
    TRY(platform_object_named(view->req->txn, org.id, "teams", PLATFORM_OWNERS, &owners));
    TRY(platform_object_children(view->req->txn, org.id, "organization-memberships", &members));
    for (size_t i = 0; i < members.n; i++) {
        struct platform_object user;
        if (!platform_has(members.items[i].links, "teams", owners.id))
            continue;
        enum status st = platform_user_load(view->req->txn, members.items[i].name, &user);
        if (st == ST_OK)
            TRY(platform_view_add(view, &platform_user, &user));
        else if (st != ST_NOT_FOUND)
            return st;
    }
    return ST_OK;
}
static const struct platform_include org_includes[] = {{"owners", include_owners}};
static const struct platform_resource org_shown = {.kind = &org_kind,
                                                   .path = "organizations/",
                                                   .more = show_org_more,
                                                   .includes = org_includes,
                                                   .n_includes = ARRAY_LEN(org_includes)};

static enum status all_orgs(struct req *req)
{
    struct platform_who who;
    struct platform_objects all;
    size_t n = 0;
    TRY(platform_who_admin(req, &who));
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, "organizations", &all));
    for (size_t i = 0; i < all.n; i++)
        if (strstr(all.items[i].name, platform_parameter(req, "q")) != NULL)
            all.items[n++] = platform_org_shown(&all.items[i]);
    all.n = n;
    platform_sort_by_name(&all);
    return platform_reply_list(req, &who, &org_shown, &all, false);
}

static enum status find_any_org(struct req *req, struct platform_who *who,
                                struct platform_object *ret_org)
{
    TRY(platform_who_admin(req, who));
    return platform_object_named(req->txn, PLATFORM_ROOT, "organizations", req_param(req, "org"),
                                 ret_org);
}

static enum status any_org_read(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    TRY(find_any_org(req, &who, &org));
    const struct platform_object shown = platform_org_shown(&org);
    return platform_reply_one(req, &who, &org_shown, &shown, 0);
}

static enum status any_org_update(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object org;
    TRY(find_any_org(req, &who, &org));
    TRY(platform_input_read(req, &org_kind, true, &input));
    TRY(platform_input_apply(req, &org_kind, &input, false, org.attrs));
    TRY(platform_object_put(req->txn, org.name, &org));
    const struct platform_object shown = platform_org_shown(&org);
    return platform_reply_one(req, &who, &org_shown, &shown, 0);
}

static enum status any_org_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    TRY(find_any_org(req, &who, &org));
    return platform_object_delete(req->txn, &org);
}

/* Users */

static bool fits_filter(const struct req *req, const char *name, bool value)
{
    const char *filter = platform_parameter(req, name);
    return filter[0] == '\0' || (strcmp(filter, "true") == 0) == value;
}

static enum status all_users(struct req *req)
{
    struct platform_who who;
    struct platform_objects all;
    size_t n = 0;
    TRY(platform_who_admin(req, &who));
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, "users", &all));
    const char *q = platform_parameter(req, "q");
    for (size_t i = 0; i < all.n; i++) {
        const struct text_value *attrs = all.items[i].attrs;
        bool named = strstr(platform_text(attrs, "username"), q) != NULL ||
                     strstr(platform_text(attrs, "email"), q) != NULL;
        if (named && fits_filter(req, "filter[admin]", platform_flag(attrs, "is-site-admin")) &&
            fits_filter(req, "filter[suspended]", platform_flag(attrs, "is-suspended")))
            all.items[n++] = all.items[i];
    }
    all.n = n;
    platform_sort_by_name(&all);
    return platform_reply_list(req, &who, &platform_user, &all, false);
}

static enum status any_user_create(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object user;
    TRY(platform_who_admin(req, &who));
    TRY(platform_input_read(req, &platform_user_kind, false, &input));
    TRY(platform_object_new(req, "users", platform_user_kind.prefix, &user));
    TRY(platform_input_apply(req, &platform_user_kind, &input, true, user.attrs));
    user.name = platform_text(user.attrs, "username");
    TRY(platform_user_check(req, &user));
    if (strcmp(user.name, "root") == 0)
        return platform_refuse(req, "username", "has already been taken");
    enum status st = platform_object_add(req->txn, &user);
    if (st == ST_EXISTS)
        return platform_refuse(req, "username", "has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &platform_user, &user, 201);
}

static enum status find_any_user(struct req *req, struct platform_who *who,
                                 struct platform_object *ret_user)
{
    TRY(platform_who_admin(req, who));
    return platform_object_load(req->txn, "users", req_param(req, "id"), ret_user);
}

/* Whether the user is the only owner of an organization; memberships end with the user. */
static enum status leave_all(struct req *req, const struct platform_object *user)
{
    struct platform_objects orgs;
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, "organizations", &orgs));
    for (size_t i = 0; i < orgs.n; i++) {
        struct platform_object member, owners;
        struct platform_objects members;
        size_t others = 0;
        enum status st = platform_object_named(req->txn, orgs.items[i].id,
                                               "organization-memberships", user->id, &member);
        if (st == ST_NOT_FOUND)
            continue;
        TRY(st);
        TRY(platform_object_named(req->txn, orgs.items[i].id, "teams", PLATFORM_OWNERS, &owners));
        TRY(platform_object_children(req->txn, orgs.items[i].id, "organization-memberships",
                                     &members));
        for (size_t m = 0; m < members.n; m++)
            others += strcmp(members.items[m].id, member.id) != 0 &&
                      platform_has(members.items[m].links, "teams", owners.id);
        if (platform_has(member.links, "teams", owners.id) && others == 0)
            return req_fail(req, ST_REFUSED, "the user is the only owner of organization %.60s",
                            orgs.items[i].name);
        TRY(platform_object_delete(req->txn, &member));
    }
    return ST_OK;
}

static enum status any_user_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object user;
    TRY(find_any_user(req, &who, &user));
    TRY(leave_all(req, &user));
    return platform_object_delete(req->txn, &user);
}

static enum status set_user(struct req *req, const char *name, bool value)
{
    struct platform_who who;
    struct platform_object user;
    TRY(find_any_user(req, &who, &user));
    if (platform_flag(user.attrs, name) == value)
        return req_fail(req, ST_INVALID, "the user has this state already");
    TRY(platform_set_flag(req->arena, user.attrs, name, value));
    TRY(platform_object_put(req->txn, user.name, &user));
    return platform_reply_one(req, &who, &platform_user, &user, 0);
}

static enum status user_suspend(struct req *req)
{
    return set_user(req, "is-suspended", true);
}

static enum status user_unsuspend(struct req *req)
{
    return set_user(req, "is-suspended", false);
}

static enum status user_grant(struct req *req)
{
    return set_user(req, "is-site-admin", true);
}

static enum status user_revoke(struct req *req)
{
    return set_user(req, "is-site-admin", false);
}

/* There is no second factor to disable: the state that is asked for holds already. */
static enum status user_one_factor(struct req *req)
{
    struct platform_who who;
    struct platform_object user;
    TRY(find_any_user(req, &who, &user));
    return req_fail(req, ST_INVALID, "the user has no second factor");
}

/* Workspaces */

static enum status all_workspaces(struct req *req)
{
    struct platform_who who;
    struct platform_objects orgs, found = {0};
    TRY(platform_who_admin(req, &who));
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, "organizations", &orgs));
    for (size_t i = 0; i < orgs.n; i++) {
        struct platform_objects own;
        TRY(platform_object_children(req->txn, orgs.items[i].id, "workspaces", &own));
        struct platform_object *all = arena_alloc(req->arena, (found.n + own.n + 1) * sizeof *all);
        if (all == NULL)
            return ST_NOMEM;
        if (found.n != 0)
            memcpy(all, found.items, found.n * sizeof *all);
        for (size_t k = 0; k < own.n; k++)
            if (strstr(own.items[k].name, platform_parameter(req, "q")) != NULL)
                all[found.n++] = own.items[k];
        found.items = all;
    }
    platform_sort_by_name(&found);
    return platform_reply_list(req, &who, &platform_ws, &found, false);
}

static enum status any_workspace_read(struct req *req)
{
    struct platform_who who;
    struct platform_object ws;
    TRY(platform_who_admin(req, &who));
    TRY(platform_object_load(req->txn, "workspaces", req_param(req, "id"), &ws));
    return platform_reply_one(req, &who, &platform_ws, &ws, 0);
}

static enum status any_workspace_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object ws;
    TRY(platform_who_admin(req, &who));
    TRY(platform_object_load(req->txn, "workspaces", req_param(req, "id"), &ws));
    return platform_object_delete(req->txn, &ws);
}

/* Versions of the tool that runs may use. */

static const struct platform_attr version_attrs[] = {
    {.name = "version", .traits = PLATFORM_REQUIRED, .max = 64},
    {.name = "url", .max = 1000, .preset = "\"\"", .check = platform_check_url},
    {.name = "sha", .max = 128, .preset = "\"\""},
    {.name = "enabled", .value = PLATFORM_FLAG, .preset = "true"},
    {.name = "beta", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "official", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "deprecated", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "deprecated-reason", .max = 1000, .traits = PLATFORM_CLEARS},
    {.name = "archs", .value = PLATFORM_ANY, .preset = "[]"},
    {.name = "usage", .value = PLATFORM_NUMBER, .traits = PLATFORM_SHOWN, .preset = "0"},
};
static const struct platform_kind version_kind = {.type = "terraform-versions",
                                                  .prefix = "tool-",
                                                  .noun = "version",
                                                  .attrs = version_attrs,
                                                  .n = ARRAY_LEN(version_attrs)};
static const struct platform_resource version_shown = {.kind = &version_kind,
                                                       .path = "admin/terraform-versions/"};

static enum status versions_list(struct req *req)
{
    struct platform_who who;
    struct platform_objects all;
    size_t n = 0;
    TRY(platform_who_admin(req, &who));
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, version_kind.type, &all));
    const char *exact = platform_parameter(req, "filter[version]");
    for (size_t i = 0; i < all.n; i++)
        if (exact[0] == '\0' || strcmp(exact, all.items[i].name) == 0)
            all.items[n++] = all.items[i];
    all.n = n;
    platform_sort_by_name(&all);
    return platform_reply_list(req, &who, &version_shown, &all, false);
}

static enum status put_version(struct req *req, bool creates)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object version;
    TRY(platform_who_admin(req, &who));
    TRY(platform_input_read(req, &version_kind, !creates, &input));
    if (creates)
        TRY(platform_object_new(req, version_kind.type, version_kind.prefix, &version));
    else
        TRY(platform_object_load(req->txn, version_kind.type, req_param(req, "id"), &version));
    const char *before = version.name;
    TRY(platform_input_apply(req, &version_kind, &input, creates, version.attrs));
    version.name = platform_text(version.attrs, "version");
    version.updated_ms = req->now_ms;
    enum status st = creates ? platform_object_add(req->txn, &version)
                             : platform_object_put(req->txn, before, &version);
    if (st == ST_EXISTS)
        return platform_refuse(req, "version", "has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &version_shown, &version, creates ? 201 : 200);
}

static enum status version_create(struct req *req)
{
    return put_version(req, true);
}

static enum status version_update(struct req *req)
{
    return put_version(req, false);
}

static enum status version_read(struct req *req)
{
    struct platform_who who;
    struct platform_object version;
    TRY(platform_who_admin(req, &who));
    TRY(platform_object_load(req->txn, version_kind.type, req_param(req, "id"), &version));
    return platform_reply_one(req, &who, &version_shown, &version, 0);
}

static enum status version_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object version;
    TRY(platform_who_admin(req, &who));
    TRY(platform_object_load(req->txn, version_kind.type, req_param(req, "id"), &version));
    return platform_object_delete(req->txn, &version);
}

#define ADMIN_RIGHT "site administrator"

static const struct platform_row
    orgs_listed = {&org_kind, PLATFORM_LIST, ADMIN_RIGHT, false, false},
    org_one = {&org_kind, PLATFORM_ONE, ADMIN_RIGHT, false, false},
    org_changed = {&org_kind, PLATFORM_ONE, ADMIN_RIGHT, true, false},
    users_listed = {&platform_user_kind, PLATFORM_LIST, ADMIN_RIGHT, false, false},
    user_made = {&platform_user_kind, PLATFORM_ONE, ADMIN_RIGHT, true, true},
    user_one = {&platform_user_kind, PLATFORM_ONE, ADMIN_RIGHT, false, false},
    ws_listed = {&platform_ws_kind, PLATFORM_LIST, ADMIN_RIGHT, false, false},
    ws_one = {&platform_ws_kind, PLATFORM_ONE, ADMIN_RIGHT, false, false},
    tools_listed = {&version_kind, PLATFORM_LIST, ADMIN_RIGHT, false, false},
    tool_made = {&version_kind, PLATFORM_ONE, ADMIN_RIGHT, true, true},
    tool_one = {&version_kind, PLATFORM_ONE, ADMIN_RIGHT, false, false},
    tool_changed = {&version_kind, PLATFORM_ONE, ADMIN_RIGHT, true, false},
    deletes = {NULL, PLATFORM_NOTHING, ADMIN_RIGHT, false, false};

static const struct route admin_routes[] = {
    PLATFORM_GET("admin/organizations", all_orgs, orgs_listed, "All organizations."),
    PLATFORM_GET("admin/organizations/:org", any_org_read, org_one, "An organization."),
    PLATFORM_PATCH("admin/organizations/:org", any_org_update, org_changed,
                   .help = "Change what administrators decide of an organization."),
    PLATFORM_ACT(DELETE, "admin/organizations/:org", any_org_delete, deletes,
                 .help = "Delete an organization."),
    PLATFORM_GET("admin/users", all_users, users_listed, "All users."),
    PLATFORM_MAKE("admin/users", any_user_create, user_made, .help = "Create a user."),
    PLATFORM_ACT(DELETE, "admin/users/:id", any_user_delete, deletes, .help = "Delete a user."),
    PLATFORM_SEND(POST, "admin/users/:id/actions/suspend", user_suspend, user_one,
                  .help = "Let the tokens of a user count for nothing."),
    PLATFORM_SEND(POST, "admin/users/:id/actions/unsuspend", user_unsuspend, user_one,
                  .help = "Let the tokens of a user count again."),
    PLATFORM_SEND(POST, "admin/users/:id/actions/grant_admin", user_grant, user_one,
                  .help = "Make a user a site administrator."),
    PLATFORM_SEND(POST, "admin/users/:id/actions/revoke_admin", user_revoke, user_one,
                  .help = "End that a user is a site administrator."),
    PLATFORM_SEND(POST, "admin/users/:id/actions/disable_two_factor", user_one_factor, user_one,
                  .help = "Refused: users have no second factor."),
    PLATFORM_GET("admin/workspaces", all_workspaces, ws_listed, "All workspaces."),
    PLATFORM_GET("admin/workspaces/:id", any_workspace_read, ws_one, "A workspace."),
    PLATFORM_ACT(DELETE, "admin/workspaces/:id", any_workspace_delete, deletes,
                 .help = "Delete a workspace."),
    PLATFORM_GET("admin/terraform-versions", versions_list, tools_listed,
                 "The versions that runs may use."),
    PLATFORM_MAKE("admin/terraform-versions", version_create, tool_made, .help = "Add a version."),
    PLATFORM_GET("admin/terraform-versions/:id", version_read, tool_one, "A version."),
    PLATFORM_PATCH("admin/terraform-versions/:id", version_update, tool_changed,
                   .help = "Change a version."),
    PLATFORM_ACT(DELETE, "admin/terraform-versions/:id", version_delete, deletes,
                 .help = "Remove a version."),
};

const struct route_table platform_admin_table = {admin_routes, ARRAY_LEN(admin_routes)};
