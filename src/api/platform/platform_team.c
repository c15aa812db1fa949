/* Teams and the memberships of an organization. A membership lists the teams of its user, so one
 * record says all about a user in an organization. */
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_rows.h"

#define MEMBERSHIPS "organization-memberships"

static const char *const visibilities[] = {"secret", "organization", NULL};

static const struct platform_attr team_attrs[] = {
    {.name = "name", .traits = PLATFORM_REQUIRED, .max = 90, .check = platform_check_project_name},
    {.name = "visibility", .preset = "\"secret\"", .values = visibilities},
    {.name = "sso-team-id", .max = 200, .traits = PLATFORM_CLEARS},
    {.name = "allow-member-token-management", .value = PLATFORM_FLAG, .preset = "true"},
    {.name = "organization-access",
     .value = PLATFORM_ANY,
     .traits = PLATFORM_SHOWN,
     .preset = "{}"},
};
const struct platform_kind platform_team_kind = {.type = "teams",
                                                 .prefix = "team-",
                                                 .noun = "team",
                                                 .attrs = team_attrs,
                                                 .n = ARRAY_LEN(team_attrs)};

static const char *const access_names[] = {
    "manage-policies",
    "manage-policy-overrides",
    "manage-workspaces",
    "manage-vcs-settings",
    "manage-providers",
    "manage-modules",
    "manage-run-tasks",
    "manage-projects",
    "read-workspaces",
    "read-projects",
    "manage-membership",
    "manage-teams",
    "manage-organization-access",
    "access-secret-teams",
    "manage-agent-pools",
};

static const struct platform_attr member_attrs[] = {
    {.name = "email", .traits = PLATFORM_REQUIRED, .max = 200, .check = platform_check_email},
    {.name = "status", .traits = PLATFORM_SHOWN, .preset = "\"active\""},
};
const struct platform_kind platform_member_kind = {.type = MEMBERSHIPS,
                                                   .prefix = "ou-",
                                                   .noun = "membership",
                                                   .attrs = member_attrs,
                                                   .n = ARRAY_LEN(member_attrs)};

/* The memberships of an organization that have a team. */
static enum status members_of(struct state_txn *txn, const struct platform_object *team,
                              struct platform_objects *ret_members)
{
    size_t n = 0;
    TRY(platform_object_children(txn, team->parent, MEMBERSHIPS, ret_members));
    for (size_t i = 0; i < ret_members->n; i++)
        if (platform_has(ret_members->items[i].links, "teams", team->id))
            ret_members->items[n++] = ret_members->items[i];
    ret_members->n = n;
    return ST_OK;
}

static enum status show_team_more(struct platform_view *view, const struct platform_object *object)
{
    struct platform_objects members;
    struct platform_object org;
    struct platform_who who = *view->who;
    unsigned rights;
    TRY(members_of(view->req->txn, object, &members));
    TRY(platform_object_load(view->req->txn, "organizations", object->parent, &org));
    TRY(platform_org_rights(view->req, &who, &org, &rights));
    bool manages = (rights & PLATFORM_ORG_MANAGE_TEAMS) != 0;
    bool owners = strcmp(object->name, PLATFORM_OWNERS) == 0;
    text_member_int(view->w, "users-count", (int64_t)members.n);
    text_key(view->w, "permissions");
    text_open_object(view->w);
    text_member_bool(view->w, "can-destroy", manages && !owners);
    text_member_bool(view->w, "can-update-membership", manages);
    text_member_bool(view->w, "can-update-organization-access", manages && !owners);
    text_close(view->w);
    return ST_OK;
}

static enum status show_team_relations(struct platform_view *view,
                                       const struct platform_object *object)
{
    struct platform_objects members;
    struct platform_object org;
    TRY(platform_object_load(view->req->txn, "organizations", object->parent, &org));
    platform_put_one(view, "organization", "organizations", org.name);
    TRY(members_of(view->req->txn, object, &members));
    platform_put_many(view, "users");
    for (size_t i = 0; i < members.n; i++)
        platform_put_item(view, "users", members.items[i].name);
    platform_put_many_end(view);
    platform_put_many(view, MEMBERSHIPS);
    for (size_t i = 0; i < members.n; i++)
        platform_put_item(view, MEMBERSHIPS, members.items[i].id);
    platform_put_many_end(view);
    return ST_OK;
}

static enum status include_users(struct platform_view *view, const struct platform_object *object)
{
    struct platform_objects members;
    TRY(members_of(view->req->txn, object, &members));
    for (size_t i = 0; i < members.n; i++) {
        struct platform_object user;
        enum status st = platform_user_load(view->req->txn, members.items[i].name, &user);
        if (st == ST_OK)
            TRY(platform_view_add(view, &platform_user, &user));
        else if (st != ST_NOT_FOUND)
            return st;
    }
    return ST_OK;
}

static const struct platform_include team_includes[] = {{"users", include_users}};

const struct platform_resource platform_team = {.kind = &platform_team_kind,
                                                .path = "teams/",
                                                .more = show_team_more,
                                                .relations = show_team_relations,
                                                .includes = team_includes,
                                                .n_includes = ARRAY_LEN(team_includes)};

/* Only owners, and the organization's own token, give access to the organization. */
static enum status may_give_access(struct req *req, struct platform_who *who,
                                   const struct platform_object *org,
                                   const struct platform_input *input)
{
    unsigned rights;
    const struct text_value *given = text_get(input->attributes, "organization-access");
    if (given == NULL || given->kind == TEXT_NULL || who->owner == PLATFORM_ORGANIZATION)
        return ST_OK;
    TRY(platform_org_rights(req, who, org, &rights));
    return (rights & PLATFORM_ORG_OWN) != 0 ? ST_OK : ST_NOT_FOUND;
}

/* The access of a team in its organization: booleans that a request names are replaced. */
static enum status apply_access(struct req *req, const struct platform_input *input,
                                struct platform_object *team)
{
    const struct text_value *given = text_get(input->attributes, "organization-access");
    struct text_value *access = text_value_new(req->arena, NULL, TEXT_OBJECT, (struct bytes){0});
    const struct text_value *before = text_get(team->attrs, "organization-access");
    if (access == NULL)
        return ST_NOMEM;
    if (given != NULL && given->kind != TEXT_NULL && given->kind != TEXT_OBJECT)
        return platform_refuse(req, "organization-access", "an object is expected");
    for (size_t i = 0; i < ARRAY_LEN(access_names); i++) {
        const struct text_value *v = text_get(given, access_names[i]);
        bool has = platform_flag(before, access_names[i]);
        if (v != NULL && v->kind != TEXT_NULL && v->kind != TEXT_BOOL)
            return platform_refuse(req, "organization-access", "%s: a boolean is expected",
                                   access_names[i]);
        if (v != NULL && v->kind == TEXT_BOOL)
            has = v->truth;
        TRY(platform_set_flag(req->arena, access, access_names[i], has));
    }
    return platform_set(req->arena, team->attrs, "organization-access", access);
}

enum status platform_team_owners(struct req *req, const struct platform_object *org,
                                 const char **ret_team)
{
    struct platform_object team;
    const struct platform_input none = {0};
    TRY(platform_object_new(req, "teams", platform_team_kind.prefix, &team));
    team.parent = org->id;
    team.name = PLATFORM_OWNERS;
    TRY(platform_set_text(req->arena, team.attrs, "name", PLATFORM_OWNERS));
    TRY(apply_access(req, &none, &team));
    *ret_team = team.id;
    return platform_object_add(req->txn, &team);
}

enum status platform_member_add(struct req *req, const struct platform_object *org,
                                const struct platform_object *user, const char *team)
{
    struct platform_object member;
    enum status st = platform_object_named(req->txn, org->id, MEMBERSHIPS, user->id, &member);
    bool exists = st == ST_OK;
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    if (!exists) {
        TRY(platform_object_new(req, MEMBERSHIPS, platform_member_kind.prefix, &member));
        member.parent = org->id;
        member.name = user->id;
        TRY(platform_set_text(req->arena, member.attrs, "email",
                              platform_text(user->attrs, "email")));
        TRY(platform_set_text(req->arena, member.attrs, "status", "active"));
    }
    if (team[0] != '\0')
        TRY(platform_list_add(req->arena, member.links, "teams", team));
    return exists ? platform_object_put(req->txn, member.name, &member)
                  : platform_object_add(req->txn, &member);
}

/* Teams */

/* Whether the sender may see a team: a secret one is for its members and those who manage teams. */
static bool sees_team(const struct platform_who *who, unsigned rights,
                      const struct platform_object *team)
{
    bool sees = strcmp(platform_text(team->attrs, "visibility"), "secret") != 0 ||
                (rights & PLATFORM_ORG_MANAGE_TEAMS) != 0;
    for (size_t i = 0; i < who->n_teams; i++)
        sees = sees || strcmp(who->teams[i], team->id) == 0;
    return sees;
}

enum status platform_team_sees(struct req *req, const struct platform_who *who,
                               const struct platform_object *team, bool *ret_sees)
{
    struct platform_who asked = *who;
    struct platform_object org;
    unsigned rights;
    TRY(platform_object_load(req->txn, "organizations", team->parent, &org));
    TRY(platform_org_rights(req, &asked, &org, &rights));
    *ret_sees = (rights & PLATFORM_ORG_SEE) != 0 && sees_team(&asked, rights, team);
    return ST_OK;
}

static enum status teams_list(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    struct platform_objects all;
    unsigned rights;
    size_t n = 0;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_SEE, &org));
    TRY(platform_org_rights(req, &who, &org, &rights));
    TRY(platform_object_children(req->txn, org.id, "teams", &all));
    const char *names = platform_parameter(req, "filter[names]");
    for (size_t i = 0; i < all.n; i++) {
        if (sees_team(&who, rights, &all.items[i]) &&
            (names[0] == '\0' || strcmp(names, all.items[i].name) == 0))
            all.items[n++] = all.items[i];
    }
    all.n = n;
    platform_sort_by_name(&all);
    return platform_reply_list(req, &who, &platform_team, &all, false);
}

static enum status team_create(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object org, team;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_MANAGE_TEAMS, &org));
    TRY(platform_input_read(req, &platform_team_kind, false, &input));
    TRY(platform_object_new(req, "teams", platform_team_kind.prefix, &team));
    TRY(may_give_access(req, &who, &org, &input));
    TRY(platform_input_apply(req, &platform_team_kind, &input, true, team.attrs));
    TRY(apply_access(req, &input, &team));
    team.parent = org.id;
    team.name = platform_text(team.attrs, "name");
    enum status st = platform_object_add(req->txn, &team);
    if (st == ST_EXISTS)
        return platform_refuse(req, "name", "has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &platform_team, &team, 201);
}

static enum status find_team(struct req *req, struct platform_who *who, unsigned rights,
                             struct platform_object *ret_team, struct platform_object *ret_org)
{
    TRY(platform_who(req, who));
    TRY(platform_object_load(req->txn, "teams", req_param(req, "id"), ret_team));
    return platform_org_of(req, who, ret_team->parent, rights, ret_org);
}

static enum status team_read(struct req *req)
{
    struct platform_who who;
    struct platform_object team, org;
    unsigned rights;
    TRY(find_team(req, &who, PLATFORM_ORG_SEE, &team, &org));
    TRY(platform_org_rights(req, &who, &org, &rights));
    if (!sees_team(&who, rights, &team))
        return ST_NOT_FOUND;
    return platform_reply_one(req, &who, &platform_team, &team, 0);
}

/* The team of owners keeps its name: rights hang on it. Only owners change the team. */
static enum status guard_owners(struct req *req, struct platform_who *who,
                                const struct platform_object *team,
                                const struct platform_object *org)
{
    unsigned rights;
    if (strcmp(team->name, PLATFORM_OWNERS) != 0)
        return ST_OK;
    TRY(platform_org_rights(req, who, org, &rights));
    return (rights & PLATFORM_ORG_OWN) != 0 ? ST_OK : ST_NOT_FOUND;
}

static enum status team_update(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object team, org;
    TRY(find_team(req, &who, PLATFORM_ORG_MANAGE_TEAMS, &team, &org));
    TRY(guard_owners(req, &who, &team, &org));
    const char *before = team.name;
    TRY(platform_input_read(req, &platform_team_kind, true, &input));
    TRY(may_give_access(req, &who, &org, &input));
    TRY(platform_input_apply(req, &platform_team_kind, &input, false, team.attrs));
    TRY(apply_access(req, &input, &team));
    team.name = platform_text(team.attrs, "name");
    if (strcmp(before, PLATFORM_OWNERS) == 0 && strcmp(team.name, before) != 0)
        return platform_refuse(req, "name", "the team of owners keeps its name");
    team.updated_ms = req->now_ms;
    enum status st = platform_object_put(req->txn, before, &team);
    if (st == ST_EXISTS)
        return platform_refuse(req, "name", "has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &platform_team, &team, 0);
}

static enum status team_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object team, org;
    TRY(find_team(req, &who, PLATFORM_ORG_MANAGE_TEAMS, &team, &org));
    if (strcmp(team.name, PLATFORM_OWNERS) == 0)
        return req_fail(req, ST_DENIED, "the team of owners cannot be deleted");
    return platform_object_delete(req->txn, &team);
}

/* Members of teams */

/* The user of an item: an id, or the name of a user, or a membership. */
static enum status user_of_item(struct req *req, const struct platform_object *org,
                                const struct text_value *item, struct platform_object *ret_user)
{
    struct platform_object member;
    const char *id = platform_item_id(item);
    enum status st = platform_object_load(req->txn, "users", id, ret_user);
    if (st == ST_NOT_FOUND)
        st = platform_object_named(req->txn, PLATFORM_ROOT, "users", id, ret_user);
    if (st != ST_NOT_FOUND)
        return st;
    TRY(platform_object_load(req->txn, MEMBERSHIPS, id, &member));
    if (strcmp(member.parent, org->id) != 0)
        return ST_NOT_FOUND;
    return platform_object_load(req->txn, "users", member.name, ret_user);
}

/* Users of other organizations are none of the sender's: a team takes members, which come by an
 * invitation. Site administrators add any user. ST_NOT_FOUND. */
static enum status may_join(struct req *req, const struct platform_who *who,
                            const struct platform_object *org, const struct platform_object *user)
{
    struct platform_object member;
    return who->site_admin
               ? ST_OK
               : platform_object_named(req->txn, org->id, MEMBERSHIPS, user->id, &member);
}

static enum status leave_team(struct req *req, const struct platform_object *org,
                              const struct platform_object *team,
                              const struct platform_object *user)
{
    struct platform_object member;
    struct platform_objects members;
    enum status st = platform_object_named(req->txn, org->id, MEMBERSHIPS, user->id, &member);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    TRY(members_of(req->txn, team, &members));
    if (strcmp(team->name, PLATFORM_OWNERS) == 0 && members.n == 1 &&
        strcmp(members.items[0].id, member.id) == 0)
        return req_fail(req, ST_DENIED, "the last owner cannot be removed");
    TRY(platform_list_remove(req->arena, member.links, "teams", team->id));
    return platform_object_put(req->txn, member.name, &member);
}

static enum status change_members(struct req *req, bool add)
{
    struct platform_who who;
    struct platform_object team, org;
    const struct text_value *list = text_get(req->data, "data");
    TRY(find_team(req, &who, PLATFORM_ORG_MANAGE_TEAMS, &team, &org));
    TRY(guard_owners(req, &who, &team, &org));
    if (list == NULL || list->kind != TEXT_LIST || list->n > 1000)
        return req_fail(req, ST_REFUSED, "/data: a list of users is expected");
    TEXT_FOR (item, list) {
        struct platform_object user;
        enum status st = user_of_item(req, &org, item, &user);
        if (st == ST_OK)
            st = may_join(req, &who, &org, &user);
        if (st == ST_NOT_FOUND)
            return req_fail(req, ST_REFUSED, "/data: there is no user \"%.60s\"",
                            platform_item_id(item));
        TRY(st);
        TRY(add ? platform_member_add(req, &org, &user, team.id)
                : leave_team(req, &org, &team, &user));
    }
    return ST_OK;
}

static enum status members_join(struct req *req)
{
    return change_members(req, true);
}

static enum status members_leave(struct req *req)
{
    return change_members(req, false);
}

/* Memberships */

static enum status show_member_relations(struct platform_view *view,
                                         const struct platform_object *object)
{
    struct platform_object org;
    TRY(platform_object_load(view->req->txn, "organizations", object->parent, &org));
    const struct text_value *teams = text_get(object->links, "teams");
    platform_put_one(view, "organization", "organizations", org.name);
    platform_put_one(view, "user", "users", object->name);
    platform_put_many(view, "teams");
    if (teams != NULL)
        TEXT_FOR (v, teams)
            platform_put_item(view, "teams", (const char *)v->text.data);
    platform_put_many_end(view);
    return ST_OK;
}

static enum status include_user(struct platform_view *view, const struct platform_object *object)
{
    struct platform_object user;
    enum status st = platform_user_load(view->req->txn, object->name, &user);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return platform_view_add(view, &platform_user, &user);
}

static enum status include_teams(struct platform_view *view, const struct platform_object *object)
{
    const struct text_value *teams = text_get(object->links, "teams");
    if (teams == NULL)
        return ST_OK;
    TEXT_FOR (v, teams) {
        struct platform_object team;
        bool sees;
        enum status st =
            platform_object_load(view->req->txn, "teams", (const char *)v->text.data, &team);
        if (st == ST_NOT_FOUND)
            continue;
        TRY(st);
        TRY(platform_team_sees(view->req, view->who, &team, &sees));
        if (sees)
            TRY(platform_view_add(view, &platform_team, &team));
    }
    return ST_OK;
}

static const struct platform_include member_includes[] = {{"user", include_user},
                                                          {"teams", include_teams}};

static const struct platform_resource member_shown = {.kind = &platform_member_kind,
                                                      .path = "organization-memberships/",
                                                      .relations = show_member_relations,
                                                      .includes = member_includes,
                                                      .n_includes = ARRAY_LEN(member_includes)};

static enum status members_list(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    struct platform_objects all;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_SEE, &org));
    TRY(platform_object_children(req->txn, org.id, MEMBERSHIPS, &all));
    platform_sort_by_name(&all);
    return platform_reply_list(req, &who, &member_shown, &all, false);
}

/* The user with an address; made as an invited one if there is none. */
static enum status invite(struct req *req, const char *email, struct platform_object *ret_user)
{
    struct platform_objects users;
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, "users", &users));
    for (size_t i = 0; i < users.n; i++)
        if (strcasecmp(platform_text(users.items[i].attrs, "email"), email) == 0) {
            *ret_user = users.items[i];
            return ST_OK;
        }
    struct platform_input none = {0};
    const struct text_value empty = {.kind = TEXT_OBJECT};
    none.attributes = none.relationships = &empty;
    TRY(platform_object_new(req, "users", "user-", ret_user));
    ret_user->name = ret_user->id; /* until the user gets a name */
    struct text_value named = {.kind = TEXT_OBJECT};
    TRY(platform_set_text(req->arena, &named, "username", ret_user->id));
    TRY(platform_set_text(req->arena, &named, "email", email));
    none.attributes = &named;
    TRY(platform_input_apply(req, &platform_user_kind, &none, true, ret_user->attrs));
    return platform_object_add(req->txn, ret_user);
}

static enum status add_teams(struct req *req, struct platform_who *who,
                             const struct platform_input *input, const struct platform_object *org,
                             const struct platform_object *user)
{
    const struct text_value *teams = platform_input_related(input, "teams");
    TRY(platform_member_add(req, org, user, ""));
    if (teams == NULL || teams->kind != TEXT_LIST)
        return ST_OK;
    TEXT_FOR (item, teams) {
        struct platform_object team;
        enum status st = platform_object_load(req->txn, "teams", platform_item_id(item), &team);
        if (st == ST_NOT_FOUND || (st == ST_OK && strcmp(team.parent, org->id) != 0))
            return req_fail(req, ST_REFUSED, "/data/relationships/teams: there is no such team");
        TRY(st);
        TRY(guard_owners(req, who, &team, org));
        TRY(platform_member_add(req, org, user, team.id));
    }
    return ST_OK;
}

static enum status member_create(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object org, user, member;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_MANAGE_MEMBERS, &org));
    TRY(platform_input_read(req, &platform_member_kind, false, &input));
    TRY(platform_object_new(req, MEMBERSHIPS, platform_member_kind.prefix, &member));
    TRY(platform_input_apply(req, &platform_member_kind, &input, true, member.attrs));
    TRY(invite(req, platform_text(member.attrs, "email"), &user));
    enum status st = platform_object_named(req->txn, org.id, MEMBERSHIPS, user.id, &member);
    if (st != ST_NOT_FOUND)
        return st == ST_OK ? platform_refuse(req, "email", "has already been taken") : st;
    TRY(add_teams(req, &who, &input, &org, &user));
    TRY(platform_object_named(req->txn, org.id, MEMBERSHIPS, user.id, &member));
    TRY(platform_set_text(req->arena, member.attrs, "status", "invited"));
    TRY(platform_object_put(req->txn, member.name, &member));
    return platform_reply_one(req, &who, &member_shown, &member, 201);
}

static enum status find_member(struct req *req, struct platform_who *who, unsigned rights,
                               struct platform_object *ret_member)
{
    struct platform_object org;
    TRY(platform_who(req, who));
    TRY(platform_object_load(req->txn, MEMBERSHIPS, req_param(req, "id"), ret_member));
    return platform_org_of(req, who, ret_member->parent, rights, &org);
}

static enum status member_read(struct req *req)
{
    struct platform_who who;
    struct platform_object member;
    TRY(find_member(req, &who, PLATFORM_ORG_SEE, &member));
    return platform_reply_one(req, &who, &member_shown, &member, 0);
}

static enum status member_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object member, owners;
    struct platform_objects others;
    TRY(find_member(req, &who, PLATFORM_ORG_MANAGE_MEMBERS, &member));
    TRY(platform_object_named(req->txn, member.parent, "teams", PLATFORM_OWNERS, &owners));
    TRY(members_of(req->txn, &owners, &others));
    if (others.n == 1 && strcmp(others.items[0].id, member.id) == 0)
        return req_fail(req, ST_DENIED, "the last owner cannot be removed");
    return platform_object_delete(req->txn, &member);
}

static const struct platform_row
    listed = {&platform_team_kind, PLATFORM_LIST, "organization: see", false, false},
    shown = {&platform_team_kind, PLATFORM_ONE, "organization: see", false, false},
    made = {&platform_team_kind, PLATFORM_ONE, "organization: manage teams", true, true},
    changed = {&platform_team_kind, PLATFORM_ONE, "organization: manage teams", true, false},
    dropped = {NULL, PLATFORM_NOTHING, "organization: manage teams", false, false},
    members_listed = {&platform_member_kind, PLATFORM_LIST, "organization: see", false, false},
    member_one = {&platform_member_kind, PLATFORM_ONE, "organization: see", false, false},
    member_made = {&platform_member_kind, PLATFORM_ONE, "organization: manage membership", true,
                   true},
    member_dropped = {NULL, PLATFORM_NOTHING, "organization: manage membership", false, false};

static const struct route team_routes[] = {
    PLATFORM_GET("organizations/:org/teams", teams_list, listed, "The teams of an organization."),
    PLATFORM_MAKE("organizations/:org/teams", team_create, made, .help = "Create a team."),
    PLATFORM_GET("teams/:id", team_read, shown, "A team."),
    PLATFORM_PATCH("teams/:id", team_update, changed, .help = "Change a team."),
    PLATFORM_ACT(DELETE, "teams/:id", team_delete, dropped, .help = "Delete a team."),
    PLATFORM_ACT(POST, "teams/:id/relationships/users", members_join, dropped,
                 .help = "Add users, by name or id, to a team."),
    PLATFORM_ACT(DELETE, "teams/:id/relationships/users", members_leave, dropped,
                 .help = "Remove users from a team."),
    PLATFORM_ACT(POST, "teams/:id/relationships/organization-memberships", members_join, dropped,
                 .help = "Add members of the organization to a team."),
    PLATFORM_ACT(DELETE, "teams/:id/relationships/organization-memberships", members_leave, dropped,
                 .help = "Remove members of the organization from a team."),
    PLATFORM_GET("organizations/:org/organization-memberships", members_list, members_listed,
                 "The members of an organization."),
    PLATFORM_MAKE("organizations/:org/organization-memberships", member_create, member_made,
                  .help = "Make a user a member, by e-mail address."),
    PLATFORM_GET("organization-memberships/:id", member_read, member_one, "A member."),
    PLATFORM_ACT(DELETE, "organization-memberships/:id", member_delete, member_dropped,
                 .help = "Remove a member."),
};

const struct route_table platform_team_table = {team_routes, ARRAY_LEN(team_routes)};
