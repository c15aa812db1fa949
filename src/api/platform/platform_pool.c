#include "api/platform/platform_pool.h"
#include "api/platform/platform.h"
#include "api/platform/platform_rows.h"
#include "text/time.h"

#define TYPE "agent-pools"
#define AGENTS "agents"

static const struct platform_attr pool_attrs[] = {
    {.name = "name", .traits = PLATFORM_REQUIRED, .max = 90, .check = platform_check_project_name},
    {.name = "organization-scoped", .value = PLATFORM_FLAG, .preset = "true"},
};
static const struct platform_kind pool_kind = {.type = TYPE,
                                               .prefix = "apool-",
                                               .noun = "agent pool",
                                               .attrs = pool_attrs,
                                               .n = ARRAY_LEN(pool_attrs)};

static const struct platform_attr agent_attrs[] = {
    {.name = "name", .traits = PLATFORM_SHOWN},
    {.name = "ip-address", .traits = PLATFORM_SHOWN},
    {.name = "version", .traits = PLATFORM_SHOWN},
};
const struct platform_kind platform_agent_kind = {.type = AGENTS,
                                                  .prefix = "agent-",
                                                  .noun = "agent",
                                                  .attrs = agent_attrs,
                                                  .n = ARRAY_LEN(agent_attrs)};

const char *platform_agent_status(const struct platform_object *agent, int64_t now_ms)
{
    const char *said = platform_text(agent->links, "status");
    if (strcmp(said, "exited") == 0)
        return "exited";
    bool late = now_ms > platform_number(agent->links, "ping-ms") + PLATFORM_AGENT_ALIVE_MS;
    return late ? "unknown" : strcmp(said, "busy") == 0 ? "busy" : "idle";
}

static enum status show_agent_more(struct platform_view *view, const struct platform_object *object)
{
    text_member_str(view->w, "status", platform_agent_status(object, view->req->now_ms));
    text_member_time(view->w, "last-ping-at", platform_number(object->links, "ping-ms"));
    text_member_time(view->w, "created-at", object->created_ms);
    return ST_OK;
}

static enum status show_agent_relations(struct platform_view *view,
                                        const struct platform_object *object)
{
    platform_put_one(view, "agent-pool", TYPE, object->parent);
    return ST_OK;
}
static const struct platform_resource agent_shown = {.kind = &platform_agent_kind,
                                                     .path = AGENTS "/",
                                                     .more = show_agent_more,
                                                     .relations = show_agent_relations};

/* The workspaces that name a pool. */
static enum status users_of(struct state_txn *txn, const struct platform_object *pool,
                            struct platform_objects *ret_workspaces)
{
    size_t n = 0;
    *ret_workspaces = (struct platform_objects){0};
    if (strcmp(pool->parent, PLATFORM_ROOT) == 0)
        return ST_OK;
    TRY(platform_object_children(txn, pool->parent, "workspaces", ret_workspaces));
    for (size_t i = 0; i < ret_workspaces->n; i++)
        if (strcmp(platform_text(ret_workspaces->items[i].links, "agent-pool"), pool->id) == 0)
            ret_workspaces->items[n++] = ret_workspaces->items[i];
    ret_workspaces->n = n;
    return ST_OK;
}

static enum status show_pool_more(struct platform_view *view, const struct platform_object *object)
{
    size_t agents;
    TRY(platform_object_count(view->req->txn, object->id, AGENTS, &agents));
    text_member_int(view->w, "agent-count", (int64_t)agents);
    text_member_time(view->w, "created-at", object->created_ms);
    return ST_OK;
}

static enum status show_pool_relations(struct platform_view *view,
                                       const struct platform_object *object)
{
    static const char *const allowed[] = {"allowed-workspaces", "allowed-projects",
                                          "excluded-workspaces"};
    struct platform_objects workspaces;
    struct platform_object org;
    const char *name = "";
    TRY(users_of(view->req->txn, object, &workspaces));
    enum status st = platform_object_load(view->req->txn, "organizations", object->parent, &org);
    if (st == ST_OK)
        name = org.name;
    else if (st != ST_NOT_FOUND)
        return st;
    platform_put_one(view, "organization", "organizations", name);
    platform_put_many(view, "workspaces");
    for (size_t i = 0; i < workspaces.n; i++)
        platform_put_item(view, "workspaces", workspaces.items[i].id);
    platform_put_many_end(view);
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
        platform_put_many(view, allowed[i]);
        platform_put_many_end(view);
    }
    return ST_OK;
}
static const struct platform_resource pool_shown = {
    .kind = &pool_kind, .path = TYPE "/", .more = show_pool_more, .relations = show_pool_relations};

/* The site-wide pool; it is stored when its first token is made. */
static enum status load_site_pool(struct req *req, struct platform_object *ret_pool)
{
    enum status st = platform_object_load(req->txn, TYPE, PLATFORM_POOL_DEFAULT, ret_pool);
    if (st != ST_NOT_FOUND)
        return st;
    TRY(platform_object_new(req, TYPE, pool_kind.prefix, ret_pool));
    ret_pool->id = PLATFORM_POOL_DEFAULT;
    ret_pool->name = "default";
    TRY(platform_set_text(req->arena, ret_pool->attrs, "name", "default"));
    return platform_set_flag(req->arena, ret_pool->attrs, "organization-scoped", false);
}

enum status platform_pool_find(struct req *req, struct platform_who *who, const char *id,
                               unsigned rights, struct platform_object *ret_pool)
{
    struct platform_object org;
    if (strcmp(id, PLATFORM_POOL_DEFAULT) == 0)
        return who->site_admin ? load_site_pool(req, ret_pool) : ST_NOT_FOUND;
    TRY(platform_object_load(req->txn, TYPE, id, ret_pool));
    return platform_org_of(req, who, ret_pool->parent, rights, &org);
}

enum status platform_pool_keep(struct req *req, const struct platform_object *pool)
{
    struct platform_object stored;
    enum status st = platform_object_load(req->txn, TYPE, pool->id, &stored);
    return st == ST_NOT_FOUND ? platform_object_add(req->txn, pool) : st;
}

static enum status has_agent(struct state_txn *txn, const char *pool, int64_t now_ms, bool *has)
{
    struct platform_objects agents;
    TRY(platform_object_children(txn, pool, AGENTS, &agents));
    for (size_t i = 0; i < agents.n && !*has; i++)
        *has = now_ms < platform_number(agents.items[i].links, "ping-ms") + PLATFORM_AGENT_KNOWN_MS;
    return ST_OK;
}

enum status platform_pool_works(struct state_txn *txn, const struct platform_object *org,
                                int64_t now_ms, bool *ret_works)
{
    struct platform_objects pools;
    *ret_works = false;
    TRY(has_agent(txn, PLATFORM_POOL_DEFAULT, now_ms, ret_works));
    if (*ret_works)
        return ST_OK;
    TRY(platform_object_children(txn, org->id, TYPE, &pools));
    for (size_t i = 0; i < pools.n && !*ret_works; i++)
        TRY(has_agent(txn, pools.items[i].id, now_ms, ret_works));
    return ST_OK;
}

/* Pools */

static enum status pool_create(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object org, pool;
    size_t n;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_OWN, &org));
    TRY(platform_input_read(req, &pool_kind, false, &input));
    TRY(platform_object_new(req, TYPE, pool_kind.prefix, &pool));
    TRY(platform_input_apply(req, &pool_kind, &input, true, pool.attrs));
    TRY(platform_object_count(req->txn, org.id, TYPE, &n));
    if (n >= PLATFORM_POOLS_MAX)
        return req_fail(req, ST_REFUSED, "an organization has at most %d agent pools",
                        PLATFORM_POOLS_MAX);
    pool.parent = org.id;
    pool.name = platform_text(pool.attrs, "name");
    enum status st = platform_object_add(req->txn, &pool);
    if (st == ST_EXISTS)
        return platform_refuse(req, "name", "Name has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &pool_shown, &pool, 201);
}

static enum status pools_list(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    struct platform_objects all;
    size_t n = 0;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_SEE, &org));
    TRY(platform_object_children(req->txn, org.id, TYPE, &all));
    for (size_t i = 0; i < all.n; i++)
        if (strstr(all.items[i].name, platform_parameter(req, "q")) != NULL)
            all.items[n++] = all.items[i];
    all.n = n;
    platform_sort_by_name(&all);
    return platform_reply_list(req, &who, &pool_shown, &all, false);
}

static enum status pool_read(struct req *req)
{
    struct platform_who who;
    struct platform_object pool;
    TRY(platform_who(req, &who));
    TRY(platform_pool_find(req, &who, req_param(req, "id"), PLATFORM_ORG_SEE, &pool));
    return platform_reply_one(req, &who, &pool_shown, &pool, 0);
}

/* A pool of an organization, whose owner the sender is: the site-wide one is as it is. */
static enum status find_own_pool(struct req *req, struct platform_who *who,
                                 struct platform_object *ret_pool)
{
    TRY(platform_who(req, who));
    TRY(platform_pool_find(req, who, req_param(req, "id"), PLATFORM_ORG_OWN, ret_pool));
    return strcmp(ret_pool->parent, PLATFORM_ROOT) != 0
               ? ST_OK
               : req_fail(req, ST_REFUSED, "the site-wide pool can be neither changed nor deleted");
}

static enum status pool_update(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object pool;
    TRY(find_own_pool(req, &who, &pool));
    const char *before = pool.name;
    TRY(platform_input_read(req, &pool_kind, true, &input));
    TRY(platform_input_apply(req, &pool_kind, &input, false, pool.attrs));
    pool.name = platform_text(pool.attrs, "name");
    pool.updated_ms = req->now_ms;
    enum status st = platform_object_put(req->txn, before, &pool);
    if (st == ST_EXISTS)
        return platform_refuse(req, "name", "Name has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &pool_shown, &pool, 0);
}

static enum status pool_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object pool;
    struct platform_objects workspaces;
    TRY(find_own_pool(req, &who, &pool));
    TRY(users_of(req->txn, &pool, &workspaces));
    if (workspaces.n != 0)
        return req_fail(req, ST_REFUSED, "the workspace %s uses the agent pool",
                        workspaces.items[0].name);
    return platform_object_delete(req->txn, &pool);
}

/* Agents */

static enum status agents_list(struct req *req)
{
    struct platform_who who;
    struct platform_object pool;
    struct platform_objects all;
    TRY(platform_who(req, &who));
    TRY(platform_pool_find(req, &who, req_param(req, "id"), PLATFORM_ORG_SEE, &pool));
    TRY(platform_object_children(req->txn, pool.id, AGENTS, &all));
    platform_sort_by_time(&all);
    return platform_reply_list(req, &who, &agent_shown, &all, false);
}

static enum status find_agent(struct req *req, struct platform_who *who, unsigned rights,
                              struct platform_object *ret_agent)
{
    struct platform_object pool;
    TRY(platform_who(req, who));
    TRY(platform_object_load(req->txn, AGENTS, req_param(req, "id"), ret_agent));
    return platform_pool_find(req, who, ret_agent->parent, rights, &pool);
}

static enum status agent_read(struct req *req)
{
    struct platform_who who;
    struct platform_object agent;
    TRY(find_agent(req, &who, PLATFORM_ORG_SEE, &agent));
    return platform_reply_one(req, &who, &agent_shown, &agent, 0);
}

static enum status agent_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object agent;
    TRY(find_agent(req, &who, PLATFORM_ORG_OWN, &agent));
    const char *status = platform_agent_status(&agent, req->now_ms);
    if (strcmp(status, "idle") == 0 || strcmp(status, "busy") == 0)
        return req_fail(req, ST_PRECONDITION, "the agent is alive: it is %s", status);
    return platform_object_delete(req->txn, &agent);
}

static const struct platform_row
    listed = {&pool_kind, PLATFORM_LIST, "organization: see", false, false},
    shown = {&pool_kind, PLATFORM_ONE, "organization: see", false, false},
    made = {&pool_kind, PLATFORM_ONE, "organization: owner", true, true},
    changed = {&pool_kind, PLATFORM_ONE, "organization: owner", true, false},
    dropped = {NULL, PLATFORM_NOTHING, "organization: owner", false, false},
    agents_listed = {&platform_agent_kind, PLATFORM_LIST, "organization: see", false, false},
    agent_one = {&platform_agent_kind, PLATFORM_ONE, "organization: see", false, false};

static const struct route pool_routes[] = {
    PLATFORM_GET("organizations/:org/" TYPE, pools_list, listed,
                 "The agent pools of an organization."),
    PLATFORM_RUN_MAKE("organizations/:org/" TYPE, pool_create, made,
                      .help = "Create an agent pool."),
    PLATFORM_GET(TYPE "/:id", pool_read, shown, "An agent pool."),
    PLATFORM_PATCH(TYPE "/:id", pool_update, changed, .help = "Change an agent pool."),
    PLATFORM_RUN_ACT(DELETE, TYPE "/:id", pool_delete, dropped, .help = "Delete an agent pool."),
    PLATFORM_GET(TYPE "/:id/" AGENTS, agents_list, agents_listed, "The agents of a pool."),
    PLATFORM_GET(AGENTS "/:id", agent_read, agent_one, "An agent."),
    PLATFORM_RUN_ACT(DELETE, AGENTS "/:id", agent_delete, dropped,
                     .help = "Forget an agent that is gone."),
};
const struct route_table platform_pool_table = {pool_routes, ARRAY_LEN(pool_routes)};
