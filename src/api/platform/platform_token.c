/* Tokens of users, teams and organizations. The secret leaves the server in the reply that makes
 * it, and never again: the state has its HMAC alone (auth/token.h). The resource and the token have
 * the same id, so the end of one finds the other. */
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_pool.h"
#include "api/platform/platform_rows.h"
#include "text/time.h"

#define TYPE "authentication-tokens"
#define LEGACY "legacy" /* name of the one token that a team or organization has */

static const char *check_time(struct bytes text)
{
    int64_t ms;
    return text.len == 0 || text_time_parse(text, &ms) == ST_OK
               ? NULL
               : "is not a time as 2030-01-31T12:00:00Z";
}

static const struct platform_attr token_attrs[] = {
    {.name = "description", .max = 500, .traits = PLATFORM_NULL},
    {.name = "expired-at", .max = 64, .check = check_time, .traits = PLATFORM_NULL},
    {.name = "last-used-at", .traits = PLATFORM_SHOWN},
};
static const struct platform_kind token_kind = {.type = TYPE,
                                                .prefix = "at-",
                                                .noun = "token",
                                                .attrs = token_attrs,
                                                .n = ARRAY_LEN(token_attrs)};

static enum status show_token_more(struct platform_view *view, const struct platform_object *object)
{
    const char *secret = platform_text(object->links, "secret"); /* in the reply that makes it */
    text_member_time(view->w, "created-at", object->created_ms);
    text_member_str(view->w, "token", secret[0] != '\0' ? secret : NULL);
    return ST_OK;
}

static enum status show_token_relations(struct platform_view *view,
                                        const struct platform_object *object)
{
    platform_put_one(view, "created-by", "users", platform_text(object->links, "created-by"));
    if (strncmp(object->parent, "team-", 5) == 0)
        platform_put_one(view, "team", "teams", object->parent);
    return ST_OK;
}

static const struct platform_resource shown_token = {.kind = &token_kind,
                                                     .path = "authentication-tokens/",
                                                     .more = show_token_more,
                                                     .relations = show_token_relations};

static enum status end_token(struct req *req, const struct platform_object *token)
{
    const struct auth_scope scope = req_scope(req);
    TRY(platform_token_end(&scope, token->id));
    return platform_object_delete(req->txn, token);
}

static enum status read_expiry(struct req *req, const struct platform_object *token,
                               int64_t *ret_expire_ms)
{
    const char *text = platform_text(token->attrs, "expired-at");
    *ret_expire_ms = 0;
    if (text[0] == '\0')
        return ST_OK;
    TRY(text_time_parse(bytes_str(text), ret_expire_ms));
    if (*ret_expire_ms >= TEXT_CLOCK_END)
        return platform_refuse(req, "expired-at", "is too late");
    return *ret_expire_ms > req->now_ms
               ? ST_OK
               : platform_refuse(req, "expired-at", "must be in the future");
}

/* Make a token of an owner. `legacy`: it replaces the former one. */
static enum status mint_token(struct req *req, const struct platform_who *who, const char *owner,
                              bool legacy)
{
    struct platform_input input;
    struct platform_object token, former;
    const char *secret;
    int64_t expire_ms;
    TRY(platform_input_read(req, &token_kind, true, &input));
    TRY(platform_object_new(req, TYPE, "at-", &token));
    TRY(platform_input_apply(req, &token_kind, &input, true, token.attrs));
    TRY(read_expiry(req, &token, &expire_ms));
    token.parent = owner;
    bool team = strncmp(owner, "team-", 5) == 0;
    const char *description = platform_text(token.attrs, "description");
    if (team && !legacy) /* the prefix keeps descriptions apart from the name of the legacy token */
        token.name = arena_concat(req->arena, "named-", description);
    else if (legacy)
        token.name = LEGACY;
    if (token.name == NULL)
        return ST_NOMEM;
    if (strlen(token.name) > PLATFORM_NAME_MAX)
        return platform_refuse(req, "description", "is too long for the token of a team");
    enum status st =
        legacy ? platform_object_named(req->txn, owner, TYPE, LEGACY, &former) : ST_NOT_FOUND;
    if (st == ST_OK)
        TRY(end_token(req, &former));
    else if (st != ST_NOT_FOUND)
        return st;
    TRY(platform_set_text(req->arena, token.links, "created-by",
                          who->owner == PLATFORM_USER ? who->id : ""));
    st = platform_object_add(req->txn, &token);
    if (st == ST_EXISTS)
        return req_fail(req, ST_REFUSED, "Validation failed: Description has already been taken");
    TRY(st);
    TRY(platform_token_add(req, token.id, owner, expire_ms, &secret));
    TRY(platform_set_text(req->arena, token.links, "secret", secret));
    return platform_reply_one(req, who, &shown_token, &token, 201);
}

/* Owners */

static enum status own_user(struct req *req, struct platform_who *who)
{
    TRY(platform_who(req, who));
    bool own = who->owner == PLATFORM_USER && strcmp(who->id, req_param(req, "id")) == 0 &&
               strcmp(who->id, PLATFORM_ROOT_USER) != 0;
    return own ? ST_OK : ST_NOT_FOUND;
}

/* Only owners manage the tokens of the team of owners: such a token may do everything. */
static unsigned rights_for(const struct platform_object *team)
{
    return strcmp(team->name, PLATFORM_OWNERS) == 0 ? PLATFORM_ORG_OWN : PLATFORM_ORG_MANAGE_TEAMS;
}

static enum status own_team(struct req *req, struct platform_who *who,
                            struct platform_object *ret_team)
{
    struct platform_object org;
    TRY(platform_who(req, who));
    TRY(platform_object_load(req->txn, "teams", req_param(req, "id"), ret_team));
    return platform_org_of(req, who, ret_team->parent, rights_for(ret_team), &org);
}

static enum status own_org(struct req *req, struct platform_who *who,
                           struct platform_object *ret_org)
{
    TRY(platform_who(req, who));
    return platform_org_find(req, who, req_param(req, "org"), PLATFORM_ORG_OWN, ret_org);
}

/* Tokens of users */

static enum status user_tokens_list(struct req *req)
{
    struct platform_who who;
    struct platform_objects all = {0};
    enum status st = own_user(req, &who);
    if (st == ST_OK)
        st = platform_object_children(req->txn, who.id, TYPE, &all);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st; /* the list of another user is empty */
    platform_sort_by_time(&all);
    return platform_reply_list(req, &who, &shown_token, &all, false);
}

/* Site administrators make tokens for users: users have no passwords. */
static enum status user_token_create(struct req *req)
{
    struct platform_who who;
    struct platform_object user;
    TRY(platform_who(req, &who));
    TRY(platform_object_load(req->txn, "users", req_param(req, "id"), &user));
    if (!who.site_admin && (who.owner != PLATFORM_USER || strcmp(who.id, user.id) != 0))
        return ST_NOT_FOUND;
    return mint_token(req, &who, user.id, false);
}

/* Tokens of agent pools: workers show them. */

static enum status pool_tokens_list(struct req *req)
{
    struct platform_who who;
    struct platform_object pool;
    struct platform_objects all;
    TRY(platform_who(req, &who));
    TRY(platform_pool_find(req, &who, req_param(req, "id"), PLATFORM_ORG_OWN, &pool));
    TRY(platform_object_children(req->txn, pool.id, TYPE, &all));
    platform_sort_by_time(&all);
    return platform_reply_list(req, &who, &shown_token, &all, false);
}

static enum status pool_token_create(struct req *req)
{
    struct platform_who who;
    struct platform_object pool;
    TRY(platform_who(req, &who));
    TRY(platform_pool_find(req, &who, req_param(req, "id"), PLATFORM_ORG_OWN, &pool));
    TRY(platform_pool_keep(req, &pool));
    return mint_token(req, &who, pool.id, false);
}

/* Tokens of teams */

static enum status legacy_read(struct req *req, const struct platform_who *who, const char *owner)
{
    struct platform_object token;
    TRY(platform_object_named(req->txn, owner, TYPE, LEGACY, &token));
    return platform_reply_one(req, who, &shown_token, &token, 0);
}

static enum status legacy_delete(struct req *req, const char *owner)
{
    struct platform_object token;
    TRY(platform_object_named(req->txn, owner, TYPE, LEGACY, &token));
    return end_token(req, &token);
}

static enum status team_token_read(struct req *req)
{
    struct platform_who who;
    struct platform_object team;
    TRY(own_team(req, &who, &team));
    return legacy_read(req, &who, team.id);
}

static enum status team_token_replace(struct req *req)
{
    struct platform_who who;
    struct platform_object team;
    TRY(own_team(req, &who, &team));
    return mint_token(req, &who, team.id, true);
}

static enum status team_token_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object team;
    TRY(own_team(req, &who, &team));
    return legacy_delete(req, team.id);
}

static enum status team_token_create(struct req *req)
{
    struct platform_who who;
    struct platform_object team;
    TRY(own_team(req, &who, &team));
    return mint_token(req, &who, team.id, false);
}

static enum status team_tokens_list(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    struct platform_objects teams, found = {0};
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_MANAGE_TEAMS, &org));
    TRY(platform_object_children(req->txn, org.id, "teams", &teams));
    for (size_t i = 0; i < teams.n; i++) {
        struct platform_objects own;
        TRY(platform_object_children(req->txn, teams.items[i].id, TYPE, &own));
        struct platform_object *all = arena_alloc(req->arena, (found.n + own.n + 1) * sizeof *all);
        if (all == NULL)
            return ST_NOMEM;
        if (found.n != 0)
            memcpy(all, found.items, found.n * sizeof *all);
        if (own.n != 0)
            memcpy(all + found.n, own.items, own.n * sizeof *all);
        found = (struct platform_objects){all, found.n + own.n};
    }
    platform_sort_by_time(&found);
    return platform_reply_list(req, &who, &shown_token, &found, false);
}

/* Tokens of organizations */

static enum status org_token_read(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    TRY(own_org(req, &who, &org));
    return legacy_read(req, &who, org.id);
}

static enum status org_token_replace(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    TRY(own_org(req, &who, &org));
    return mint_token(req, &who, org.id, true);
}

static enum status org_token_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    TRY(own_org(req, &who, &org));
    return legacy_delete(req, org.id);
}

/* Any token */

static enum status find_any_token(struct req *req, struct platform_who *who,
                                  struct platform_object *ret_token)
{
    struct platform_object owner, org;
    TRY(platform_who(req, who));
    TRY(platform_object_load(req->txn, TYPE, req_param(req, "id"), ret_token));
    TRY(platform_object_load(req->txn, NULL, ret_token->parent, &owner));
    if (strcmp(owner.type, "users") == 0)
        return strcmp(owner.id, who->id) == 0 || who->site_admin ? ST_OK : ST_NOT_FOUND;
    if (strcmp(owner.type, "agent-pools") == 0)
        return platform_pool_find(req, who, owner.id, PLATFORM_ORG_OWN, &org);
    bool team = strcmp(owner.type, "teams") == 0;
    return platform_org_of(req, who, team ? owner.parent : owner.id,
                           team ? rights_for(&owner) : PLATFORM_ORG_OWN, &org);
}

static enum status token_read(struct req *req)
{
    struct platform_who who;
    struct platform_object token;
    TRY(find_any_token(req, &who, &token));
    return platform_reply_one(req, &who, &shown_token, &token, 0);
}

static enum status token_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object token;
    TRY(find_any_token(req, &who, &token));
    return end_token(req, &token);
}

static const struct platform_row
    users_listed = {&token_kind, PLATFORM_LIST, NULL, false, false},
    users_made = {&token_kind, PLATFORM_ONE, "own account, or site administrator", true, true},
    teams_listed = {&token_kind, PLATFORM_LIST, "organization: manage teams", false, false},
    teams_shown = {&token_kind, PLATFORM_ONE, "organization: manage teams", false, false},
    teams_made = {&token_kind, PLATFORM_ONE, "organization: manage teams", true, true},
    teams_dropped = {NULL, PLATFORM_NOTHING, "organization: manage teams", false, false},
    pools_listed = {&token_kind, PLATFORM_LIST, "organization: owner", false, false},
    pools_made = {&token_kind, PLATFORM_ONE,
                  "organization: owner; site administrator for the "
                  "site-wide pool",
                  true, true},
    orgs_shown = {&token_kind, PLATFORM_ONE, "organization: owner", false, false},
    orgs_made = {&token_kind, PLATFORM_ONE, "organization: owner", true, true},
    orgs_dropped = {NULL, PLATFORM_NOTHING, "organization: owner", false, false},
    any_shown = {&token_kind, PLATFORM_ONE, "the token's owner, or who manages it", false, false},
    any_dropped = {NULL, PLATFORM_NOTHING, "the token's owner, or who manages it", false, false};

static const struct route token_routes[] = {
    PLATFORM_GET("users/:id/authentication-tokens", user_tokens_list, users_listed,
                 "The tokens of a user; empty for another user's."),
    PLATFORM_MAKE("users/:id/authentication-tokens", user_token_create, users_made,
                  .help = "Create a token of a user; the reply alone has the secret."),
    PLATFORM_GET("agent-pools/:id/authentication-tokens", pool_tokens_list, pools_listed,
                 "The tokens of an agent pool."),
    PLATFORM_RUN_MAKE("agent-pools/:id/authentication-tokens", pool_token_create, pools_made,
                      .help = "Create a token for workers; the reply alone has the secret."),
    PLATFORM_GET("teams/:id/authentication-token", team_token_read, teams_shown,
                 "The one token of a team without a description of its own."),
    PLATFORM_MAKE("teams/:id/authentication-token", team_token_replace, teams_made,
                  .help = "Create or replace the one token of a team."),
    PLATFORM_ACT(DELETE, "teams/:id/authentication-token", team_token_delete, teams_dropped,
                 .help = "Delete the one token of a team."),
    PLATFORM_MAKE("teams/:id/authentication-tokens", team_token_create, teams_made,
                  .help = "Create a token of a team, known by its description."),
    PLATFORM_GET("organizations/:org/team-tokens", team_tokens_list, teams_listed,
                 "The tokens of all teams of an organization."),
    PLATFORM_GET("organizations/:org/authentication-token", org_token_read, orgs_shown,
                 "The token of an organization."),
    PLATFORM_MAKE("organizations/:org/authentication-token", org_token_replace, orgs_made,
                  .help = "Create or replace the token of an organization."),
    PLATFORM_ACT(DELETE, "organizations/:org/authentication-token", org_token_delete, orgs_dropped,
                 .help = "Delete the token of an organization."),
    PLATFORM_GET("authentication-tokens/:id", token_read, any_shown,
                 "A token, without its secret."),
    PLATFORM_ACT(DELETE, "authentication-tokens/:id", token_delete, any_dropped,
                 .help = "Delete a token."),
};

const struct route_table platform_token_table = {token_routes, ARRAY_LEN(token_routes)};
