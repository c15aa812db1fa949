/* The row of a request: in the tables of a fixed API, or of the engine of its mount. */
#include "mount/mount_cache.h"
#include "router/openapi/openapi.h"
#include "router/pipeline/stages.h"
#include "router/request/dialect.h"
#include "router/request/path.h"

static const struct route help_route = {
    .method = METHOD_GET,
    .handler = openapi_help,
    .form = FORM_BARE,
};

/* Help where every client may know the paths: it needs neither a token nor the state. */
static const struct route open_help_route = {
    .method = METHOD_GET,
    .handler = openapi_help,
    .who = WHO_ANYONE,
    .place = PLACE_NODE,
    .form = FORM_BARE,
};

/* Find the row in the tables of the mount's engine, or of the fixed path. */
static enum status find_row(const struct req *req, const struct router *router,
                            enum http_method method, struct arena *arena,
                            struct route_found *ret_found)
{
    if (req->mount != NULL)
        return route_find_below(router->index, req->api, method, req->rest, arena, ret_found);
    return route_find(router->index, req->dialect, method, req->path, arena, ret_found);
}

/* Find the route of a request for help. If the path needs no token, or any valid token is enough
 * for it, every valid token may read the help. */
static enum status match_help(struct req *req, const struct router *router)
{
    ASSERT(req->help);
    static const enum http_method methods[] = {METHOD_GET, METHOD_POST};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        struct route_found found;
        enum status st = find_row(req, router, methods[i], NULL, &found);
        if (st == ST_NOMEM)
            return st;
        if (st == ST_OK && route_takes_any_token(found.route))
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
    .who = WHO_ANYONE,
    .place = PLACE_NODE,
    .input = INPUT_FREE,
};

static enum status tell_methods(struct req *req)
{
    (void)req; /* reply_make adds the methods */
    return ST_OK;
}

/* The row for OPTIONS where every client may know the paths. */
static const struct route options_route = {
    .handler = tell_methods,
    .who = WHO_ANYONE,
    .place = PLACE_NODE,
    .input = INPUT_FREE,
};

enum status stage_matched(struct req *req, enum status st, const struct route_found *found)
{
    bool open = req->dialect->open_paths;
    ASSERT(st == ST_OK || st == ST_UNSUPPORTED || st == ST_NOT_FOUND);
    req->api = found->api;
    req->route = found->route;
    req->params = found->params;
    req->others = found->others;
    if (st == ST_UNSUPPORTED && (open || req->others.open)) {
        req->route = open && req->method == METHOD_OPTIONS ? &options_route : &no_method_route;
        st = ST_OK;
    }
    req->matched = st;
    bool spelt = st == ST_OK && req->route->rule_path != NULL;
    return spelt ? req->route->rule_path(req) : ST_OK;
}

enum status stage_match(struct req *req, const struct router *router)
{
    struct route_found found;
    if (req->help)
        return match_help(req, router);
    enum status st = find_row(req, router, req->method, req->arena, &found);
    return st == ST_NOMEM ? st : stage_matched(req, st, &found);
}

void stage_guess(struct req *req, const struct router *router, struct state_txn *txn)
{
    struct mount_ref *ref;
    struct route_found found;
    ASSERT(txn->open && req->api == NULL && req->route == NULL);
    if (mount_cache_find(req->mounts, txn, req->ns, req->path, &ref) != ST_OK)
        return; /* the node that runs the request finds out why */
    const struct mount *mount = mount_ref_get(ref);
    const struct route_api *api = route_engine(router->index, mount);
    struct bytes rest = bytes_from(req->path, MIN(strlen(mount->path), req->path.len));
    if (api != NULL &&
        route_find_below(router->index, api, req->method, rest, NULL, &found) == ST_OK)
        req->likely = found.route;
    mount_ref_drop(ref);
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
        req->api = route_engine(router->index, mount);
    if (st == ST_NOT_FOUND || (st == ST_OK && req->api == NULL)) {
        req->matched = ST_NOT_FOUND;
        return ST_OK;
    }
    TRY(st);
    req->mount = mount;
    size_t len = strlen(mount->path);
    req->rest = bytes_from(req->path, MIN(len, req->path.len));
    return stage_match(req, router);
}
