#include "api/platform/platform_who.h"
#include "auth/policy_list.h"
#include "base/record.h"
#include "text/random.h"

enum { SECRET_HEAD = 14, SECRET_TAIL = 67, TEAMS_MAX = 256 };

struct token_part {
    const char *owner;
};
static const struct record_field part_fields[] = {
    RECORD_FIELD(struct token_part, owner, TEXT0, .min = 1, .max = PLATFORM_ID_MAX,
                 .help = "id of a user, team or organization"),
};
static const struct record part_record = {RECORD(struct token_part, part_fields),
                                          .name = "platform/token",
                                          .where = "Part of the record of a token", .newest = 1};
RECORD_LISTED(part_record);

/* Tokens */

enum status platform_token_add(struct req *req, const char *id, const char *owner,
                               int64_t expire_ms, const char **ret_secret)
{
    CLEANUP(buf_done) struct buf part = {0};
    const struct auth_scope scope = req_scope(req);
    struct auth_token token = auth_token_of_kind(TOKEN_PLATFORM);
    char head[SECRET_HEAD + 1], tail[SECRET_TAIL + 1];
    text_random(req->env, head, SECRET_HEAD);
    text_random(req->env, tail, SECRET_TAIL);
    *ret_secret = arena_format(req->arena, "%s.platv1.%s", head, tail);
    explicit_bzero(tail, sizeof tail);
    TRY(record_encode(&part_record, &(struct token_part){owner}, &part));
    if (*ret_secret == NULL)
        return ST_NOMEM;
    token.accessor = id;
    token.created_ms = req->now_ms;
    token.expire_ms = expire_ms;
    token.part = buf_bytes(&part);
    return auth_token_add(&scope, bytes_str(*ret_secret), &token);
}

enum status platform_token_end(const struct auth_scope *scope, const char *id)
{
    struct auth_token token;
    enum status st = auth_token_find(scope, id, &token);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return token_store_delete(scope, &token);
}

/* Senders */

enum status platform_user_load(struct state_txn *txn, const char *id,
                               struct platform_object *ret_user)
{
    if (strcmp(id, PLATFORM_ROOT_USER) != 0)
        return platform_object_load(txn, "users", id, ret_user);
    struct text_value *attrs = text_value_new(txn->arena, NULL, TEXT_OBJECT, (struct bytes){0});
    struct text_value *links = text_value_new(txn->arena, NULL, TEXT_OBJECT, (struct bytes){0});
    if (attrs == NULL || links == NULL)
        return ST_NOMEM;
    TRY(platform_set_text(txn->arena, attrs, "username", "root"));
    TRY(platform_set_text(txn->arena, attrs, "email", ""));
    TRY(platform_set_flag(txn->arena, attrs, "is-site-admin", true));
    *ret_user = (struct platform_object){.id = PLATFORM_ROOT_USER,
                                         .type = "users",
                                         .parent = PLATFORM_ROOT,
                                         .name = "root",
                                         .attrs = attrs,
                                         .links = links};
    return ST_OK;
}

/* A run may write the state while it applies. */
static enum status load_run(struct req *req, const struct platform_object *run,
                            struct platform_who *who)
{
    struct platform_object ws;
    TRY(platform_object_load(req->txn, "workspaces", run->parent, &ws));
    who->owner = PLATFORM_RUN;
    who->org = ws.parent;
    who->ws = ws.id;
    who->writes = strcmp(platform_text(run->attrs, "status"), "applying") == 0;
    return ST_OK;
}

/* Load the owner of a stored token. */
static enum status load_owner(struct req *req, const char *owner, struct platform_who *who)
{
    struct platform_object object;
    who->id = owner;
    who->org = who->ws = "";
    TRY(platform_object_load(req->txn, NULL, owner, &object));
    if (strcmp(object.type, "users") == 0) {
        who->owner = PLATFORM_USER;
        who->user = object;
        who->site_admin = platform_flag(object.attrs, "is-site-admin");
        return platform_flag(object.attrs, "is-suspended") ? ST_NOT_FOUND : ST_OK;
    }
    if (strcmp(object.type, "runs") == 0)
        return load_run(req, &object, who);
    bool team = strcmp(object.type, "teams") == 0;
    if (!team && strcmp(object.type, "organizations") != 0)
        return ST_NOT_FOUND; /* a token for another purpose */
    who->owner = team ? PLATFORM_TEAM : PLATFORM_ORGANIZATION;
    who->org = team ? object.parent : object.id;
    return ST_OK;
}

enum status platform_who(struct req *req, struct platform_who *ret_who)
{
    const struct auth_token *token = req->token;
    struct token_part part;
    *ret_who = (struct platform_who){.id = "", .org = "", .ws = ""};
    if (token == NULL)
        return ST_UNAUTHENTICATED;
    if (token->kind == TOKEN_SECRETS) { /* the router lets a root token pass alone */
        if (!policy_list_is_root(&token->policies))
            return ST_UNAUTHENTICATED;
        ret_who->owner = PLATFORM_USER;
        ret_who->id = PLATFORM_ROOT_USER;
        ret_who->site_admin = true;
        return platform_user_load(req->txn, PLATFORM_ROOT_USER, &ret_who->user);
    }
    TRY(record_decode(&part_record, token->part, req->arena, &part));
    enum status st = load_owner(req, part.owner, ret_who);
    return st == ST_NOT_FOUND ? ST_UNAUTHENTICATED : st;
}

enum status platform_who_pool(struct req *req, struct platform_object *ret_pool)
{
    struct token_part part;
    if (req->token == NULL)
        return ST_UNAUTHENTICATED;
    if (req->token->kind != TOKEN_PLATFORM)
        return ST_NOT_FOUND;
    TRY(record_decode(&part_record, req->token->part, req->arena, &part));
    enum status st = platform_object_load(req->txn, NULL, part.owner, ret_pool);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_UNAUTHENTICATED : st;
    return strcmp(ret_pool->type, "agent-pools") == 0 ? ST_OK : ST_NOT_FOUND;
}

enum status platform_who_admin(struct req *req, struct platform_who *ret_who)
{
    TRY(platform_who(req, ret_who));
    return ret_who->site_admin ? ST_OK : ST_NOT_FOUND;
}

/* Organizations */

static unsigned team_rights(const struct platform_object *team)
{
    static const struct {
        const char *name;
        unsigned rights;
    } map[] = {
        {"manage-workspaces", PLATFORM_ORG_MANAGE_WORKSPACES | PLATFORM_ORG_READ_WORKSPACES},
        {"read-workspaces", PLATFORM_ORG_READ_WORKSPACES},
        {"manage-run-tasks", PLATFORM_ORG_MANAGE_TASKS},
        {"manage-membership", PLATFORM_ORG_MANAGE_MEMBERS},
        {"manage-teams", PLATFORM_ORG_MANAGE_TEAMS},
        {"manage-projects", PLATFORM_ORG_MANAGE_PROJECTS},
    };
    const struct text_value *access = text_get(team->attrs, "organization-access");
    unsigned rights = PLATFORM_ORG_SEE;
    if (strcmp(team->name, PLATFORM_OWNERS) == 0)
        return PLATFORM_ORG_ALL;
    for (size_t i = 0; i < ARRAY_LEN(map); i++)
        if (platform_flag(access, map[i].name))
            rights |= map[i].rights;
    return rights;
}

/* Add a team's id and rights, if the team exists. */
static enum status add_team(struct req *req, struct platform_who *who,
                            const struct platform_object *org, const char *id, unsigned *rights)
{
    struct platform_object team;
    const char **teams = (const char **)(uintptr_t)who->teams;
    enum status st = platform_object_load(req->txn, "teams", id, &team);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    if (strcmp(team.parent, org->id) != 0 || who->n_teams == TEAMS_MAX)
        return ST_OK;
    teams[who->n_teams++] = team.id;
    *rights |= team_rights(&team);
    return ST_OK;
}

static enum status member_rights(struct req *req, struct platform_who *who,
                                 const struct platform_object *org, unsigned *rights)
{
    struct platform_object member;
    enum status st =
        platform_object_named(req->txn, org->id, "organization-memberships", who->id, &member);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    *rights |= PLATFORM_ORG_SEE;
    const struct text_value *teams = text_get(member.links, "teams");
    if (teams != NULL && teams->kind == TEXT_LIST)
        TEXT_FOR (v, teams)
            TRY(add_team(req, who, org, (const char *)v->text.data, rights));
    return ST_OK;
}

enum status platform_org_rights(struct req *req, struct platform_who *who,
                                const struct platform_object *org, unsigned *ret_rights)
{
    unsigned rights = who->site_admin ? PLATFORM_ORG_ALL : 0;
    who->teams = arena_alloc(req->arena, TEAMS_MAX * sizeof *who->teams);
    who->n_teams = 0;
    if (who->teams == NULL)
        return ST_NOMEM;
    if (who->owner == PLATFORM_USER)
        TRY(member_rights(req, who, org, &rights));
    else if (who->owner == PLATFORM_TEAM && strcmp(who->org, org->id) == 0)
        TRY(add_team(req, who, org, who->id, &rights));
    else if (who->owner == PLATFORM_ORGANIZATION && strcmp(who->org, org->id) == 0)
        rights = PLATFORM_ORG_ALL & ~(unsigned)PLATFORM_ORG_OWN;
    else if (who->owner == PLATFORM_RUN && strcmp(who->org, org->id) == 0)
        rights = PLATFORM_ORG_OF_RUN;
    *ret_rights = rights;
    return ST_OK;
}

static enum status check_org(struct req *req, struct platform_who *who, unsigned rights,
                             const struct platform_object *org)
{
    unsigned has;
    TRY(platform_org_rights(req, who, org, &has));
    bool sees = (has & (PLATFORM_ORG_SEE | PLATFORM_ORG_OF_RUN)) != 0;
    return sees && (has & rights) != 0 ? ST_OK : ST_NOT_FOUND;
}

enum status platform_org_find(struct req *req, struct platform_who *who, const char *name,
                              unsigned rights, struct platform_object *ret_org)
{
    TRY(platform_object_named(req->txn, PLATFORM_ROOT, "organizations", name, ret_org));
    return check_org(req, who, rights, ret_org);
}

enum status platform_org_of(struct req *req, struct platform_who *who, const char *id,
                            unsigned rights, struct platform_object *ret_org)
{
    TRY(platform_object_load(req->txn, "organizations", id, ret_org));
    return check_org(req, who, rights, ret_org);
}

/* Workspaces */

enum {
    WS_READ =
        PLATFORM_WS_SEE | PLATFORM_WS_READ_VARS | PLATFORM_WS_READ_OUTPUTS | PLATFORM_WS_READ_STATE,
    WS_PLAN = WS_READ | PLATFORM_WS_PLAN,
    WS_WRITE = WS_PLAN | PLATFORM_WS_APPLY | PLATFORM_WS_WRITE_VARS | PLATFORM_WS_WRITE_STATE |
               PLATFORM_WS_LOCK,
};

/* The rights that one word of a grant gives. */
struct grant_word {
    const char *key, *word;
    unsigned rights;
};
static const struct grant_word grant_words[] = {
    {"runs", "plan", PLATFORM_WS_PLAN},
    {"runs", "apply", PLATFORM_WS_PLAN | PLATFORM_WS_APPLY},
    {"variables", "read", PLATFORM_WS_READ_VARS},
    {"variables", "write", PLATFORM_WS_READ_VARS | PLATFORM_WS_WRITE_VARS},
    {"state-versions", "read-outputs", PLATFORM_WS_READ_OUTPUTS},
    {"state-versions", "read", PLATFORM_WS_READ_OUTPUTS | PLATFORM_WS_READ_STATE},
    {"state-versions", "write",
     PLATFORM_WS_READ_OUTPUTS | PLATFORM_WS_READ_STATE | PLATFORM_WS_WRITE_STATE},
};

static unsigned grant_rights(const struct text_value *grant)
{
    const char *access = platform_text(grant, "access");
    unsigned rights = PLATFORM_WS_SEE;
    if (strcmp(access, "read") == 0)
        return WS_READ;
    if (strcmp(access, "plan") == 0)
        return WS_PLAN;
    if (strcmp(access, "write") == 0)
        return WS_WRITE;
    if (strcmp(access, "admin") == 0)
        return PLATFORM_WS_ALL;
    for (size_t i = 0; i < ARRAY_LEN(grant_words); i++)
        if (strcmp(platform_text(grant, grant_words[i].key), grant_words[i].word) == 0)
            rights |= grant_words[i].rights;
    if (platform_flag(grant, "workspace-locking"))
        rights |= PLATFORM_WS_LOCK;
    if (platform_flag(grant, "run-tasks"))
        rights |= PLATFORM_WS_MANAGE_TASKS;
    return rights;
}

/* A run has its own workspace, and reads those that share their state with it. */
static unsigned run_rights(const struct platform_who *who, const struct platform_object *ws)
{
    unsigned reads = PLATFORM_WS_SEE | PLATFORM_WS_READ_STATE | PLATFORM_WS_READ_OUTPUTS;
    if (strcmp(who->ws, ws->id) == 0)
        return who->writes ? reads | PLATFORM_WS_WRITE_STATE : reads;
    bool shared =
        strcmp(who->org, ws->parent) == 0 && (platform_flag(ws->attrs, "global-remote-state") ||
                                              platform_has(ws->links, "consumers", who->ws));
    return shared ? reads : 0;
}

enum status platform_ws_rights(struct req *req, const struct platform_who *who,
                               struct platform_place *place)
{
    unsigned org = place->org_rights;
    unsigned rights = 0;
    if (who->owner == PLATFORM_RUN) {
        place->rights = run_rights(who, &place->ws);
        return ST_OK;
    }
    if ((org & PLATFORM_ORG_OWN) != 0 || (org & PLATFORM_ORG_MANAGE_WORKSPACES) != 0)
        rights = PLATFORM_WS_ALL;
    else if ((org & PLATFORM_ORG_READ_WORKSPACES) != 0)
        rights = WS_READ;
    for (size_t i = 0; i < who->n_teams; i++) {
        struct platform_object grant;
        enum status st =
            platform_object_named(req->txn, place->ws.id, "team-workspaces", who->teams[i], &grant);
        if (st != ST_OK && st != ST_NOT_FOUND)
            return st;
        if (st == ST_OK)
            rights |= grant_rights(grant.attrs);
    }
    if (who->owner == PLATFORM_ORGANIZATION) /* no runs, no states, no notifications */
        rights &= PLATFORM_WS_SEE | PLATFORM_WS_READ_VARS | PLATFORM_WS_WRITE_VARS |
                  PLATFORM_WS_READ_OUTPUTS | PLATFORM_WS_READ_STATE | PLATFORM_WS_LOCK |
                  PLATFORM_WS_MANAGE_TASKS | PLATFORM_WS_ADMIN;
    place->rights = rights;
    return ST_OK;
}

enum status platform_ws_find(struct req *req, struct platform_who *who, const char *id,
                             unsigned rights, struct platform_place *ret_place)
{
    TRY(platform_object_load(req->txn, "workspaces", id, &ret_place->ws));
    TRY(platform_object_load(req->txn, "organizations", ret_place->ws.parent, &ret_place->org));
    TRY(platform_org_rights(req, who, &ret_place->org, &ret_place->org_rights));
    TRY(platform_ws_rights(req, who, ret_place));
    return (ret_place->rights & rights) == rights ? ST_OK : ST_NOT_FOUND;
}

enum status platform_ws_sees(struct req *req, const struct platform_who *who,
                             const struct platform_object *ws, bool *ret_sees)
{
    struct platform_who asked = *who;
    struct platform_place place;
    enum status st = platform_ws_find(req, &asked, ws->id, PLATFORM_WS_SEE, &place);
    *ret_sees = st == ST_OK;
    return st == ST_NOT_FOUND ? ST_OK : st;
}
