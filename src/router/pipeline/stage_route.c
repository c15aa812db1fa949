/* The row of a request: in the tables of a fixed API, or of the engine of its mount. */
#include "mount/mount_cache.h"
#include "router/openapi/openapi.h"
#include "router/pipeline/stages.h"
#include "router/request/dialect.h"
#include "router/request/path.h"

static const struct route help_route = {
    .method = METHOD_GET,
    .handler = openapi_help,
    .flags = ROUTE_BARE,
};

/* Help where every client may know the paths: it needs neither a token nor the state. */
static const struct route open_help_route = {
    .method = METHOD_GET,
    .handler = openapi_help,
    .auth = AUTH_NONE,
    .flags = ROUTE_BARE | ROUTE_NODE,
};

/* Find the route of a request for help. If the path needs no token, or any valid token is enough
 * for it, every valid token may read the help. */
static enum status match_help(struct req *req)
{
    ASSERT(req->help);
    static const enum http_method methods[] = {METHOD_GET, METHOD_POST};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        enum status st = route_match(req->api, methods[i], req->rest, req->arena, &req->route,
                                     &req->params, &req->others);
        if (st == ST_NOMEM)
            return st;
        if (st == ST_OK &&
            (req->route->auth == AUTH_NONE || (req->route->flags & ROUTE_ANY_TOKEN) != 0))
            req->help_open = true;
    }
    req->params.n = 0;
    req->route = req->dialect->open_paths ? &open_help_route : &help_route;
    req->matched = ST_OK;
    return ST_OK;
}

static enum status refuse_method(struct req *req)
{
    (void)req; /* every handler has this signature */
    return ST_UNSUPPORTED;
}

/* The row for a method that the path lacks, where no method of the path needs a token, or where
 * every client may know the paths: the error that lists the other methods needs no token either. */
static const struct route no_method_route = {
    .handler = refuse_method,
    .auth = AUTH_NONE,
    .flags = ROUTE_NODE | ROUTE_FREE_BODY,
};

static enum status tell_methods(struct req *req)
{
    (void)req; /* reply_make adds the methods */
    return ST_OK;
}

/* The row for OPTIONS where every client may know the paths. */
static const struct route options_route = {
    .handler = tell_methods,
    .auth = AUTH_NONE,
    .flags = ROUTE_NODE | ROUTE_FREE_BODY,
};

/* Use the policy's name in small letters as the path: rules know policies by that name. */
static enum status find_policy_path(struct req *req)
{
    const char *given = req_param(req, "name"), *name;
    ASSERT((req->route->flags & ROUTE_POLICY) != 0);
    enum status st = policy_name(req->arena, bytes_str(given), &name);
    if (st != ST_OK)
        return st == ST_NOMEM ? st : ST_OK; /* the handler refuses it */
    if (strcmp(name, given) == 0)
        return ST_OK;
    const char *text = arena_format(req->arena, "%.*s%s", (int)(req->path.len - strlen(given)),
                                    (const char *)req->path.data, name);
    if (text == NULL)
        return ST_NOMEM;
    req->rule_path = path_trimmed(bytes_str(text));
    return ST_OK;
}

enum status stage_match(struct req *req)
{
    if (req->help)
        return match_help(req);
    enum status st = route_match(req->api, req->method, req->rest, req->arena, &req->route,
                                 &req->params, &req->others);
    if (st == ST_NOMEM)
        return st;
    bool open = req->dialect->open_paths;
    if (st == ST_UNSUPPORTED && (open || req->others.open)) {
        req->route = open && req->method == METHOD_OPTIONS ? &options_route : &no_method_route;
        st = ST_OK;
    }
    req->matched = st;
    bool policy = st == ST_OK && (req->route->flags & ROUTE_POLICY) != 0;
    return policy ? find_policy_path(req) : ST_OK;
}

struct held_mount {
    struct mount_ref *ref;
    struct req_cleanup cleanup;
};

static void drop_mount(struct req_cleanup *cleanup)
{
    mount_ref_drop(CONTAINER_OF(cleanup, struct held_mount, cleanup)->ref);
}

/* Find the mount that serves the request; it stays valid until the transaction ends. */
static enum status find_mount(struct req *req, const struct mount **ret_mount)
{
    struct held_mount *held = arena_zalloc(req->arena, sizeof *held);
    if (held == NULL)
        return ST_NOMEM;
    TRY(mount_cache_find(req->mounts, req->txn, req->ns, req->path, &held->ref));
    held->cleanup.run = drop_mount;
    req_defer(req, &held->cleanup);
    *ret_mount = mount_ref_get(held->ref);
    return ST_OK;
}

enum status stage_route(struct req *req, const struct router *router)
{
    if (req->api != NULL && req->api->prefix != NULL)
        return ST_OK; /* a fixed path, which was matched before */
    const struct mount *mount = NULL;
    ASSERT(req_in_txn(req));
    req->mount = NULL;
    req->route = NULL;
    req->api = NULL;
    enum status st = find_mount(req, &mount);
    if (st == ST_OK)
        req->api = module_find_engine(&router->options.modules, mount);
    if (st == ST_NOT_FOUND || (st == ST_OK && req->api == NULL)) {
        req->matched = ST_NOT_FOUND;
        return ST_OK;
    }
    TRY(st);
    req->mount = mount;
    size_t len = strlen(mount->path);
    req->rest = bytes_from(req->path, MIN(len, req->path.len));
    return stage_match(req);
}
