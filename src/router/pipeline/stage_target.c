/* The head of a request: path, query, method, namespace, and the API at a fixed path. */
#include "auth/namespace.h"
#include "router/pipeline/stages.h"
#include "router/request/dialect.h"
#include "router/request/path.h"

static enum status read_query(struct req *req, struct bytes text)
{
    static const struct text_value nothing = {.kind = TEXT_OBJECT};
    struct text_value *query;
    req->query = &nothing;
    if (text.len == 0)
        return ST_OK;
    struct reason why;
    why.text[0] = '\0';
    enum status st = path_parse_pairs(req->arena, text, &query, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "%s", why.text);
    TRY(st);
    req->query = query;
    return ST_OK;
}

static enum status read_path(struct req *req, const struct router_request *request)
{
    const struct path_target *target = &request->target;
    if (target->fault != NULL)
        return req_fail(req, ST_INVALID, "%s", target->fault);
    req->path = target->path;
    if (target->path.data != NULL)
        return ST_OK;
    if (req->dialect->open_paths)
        req->dialect->say_no_path(req, false);
    return ST_NOT_FOUND;
}

static enum status read_namespace(struct req *req, const struct router_request *request)
{
    struct bytes name = req->dialect->read_namespace(req, request);
    if (auth_namespace_find(name, &req->ns) == ST_OK)
        return ST_OK;
    if (req->dialect->serve_no_namespace == NULL)
        return req_fail(req, ST_NOT_FOUND, "namespace not found");
    req->ns_unknown = name;
    return auth_namespace_find((struct bytes){0}, &req->ns);
}

/* Find the API whose tables a request for help is about. Help about "sys" is help about "sys/", and
 * the other way round for an API of one path. */
static enum status find_helped_api(struct req *req, const struct router *router)
{
    struct bytes paths[3] = {req->path, {0}, {0}}, trimmed = path_trimmed(req->path);
    const char *text = arena_str(req->arena, trimmed);
    ASSERT(req->help && req->api == NULL);
    TRY(text != NULL ? ST_OK : ST_NOMEM);
    TRY(path_folder(req->arena, req->path, &paths[1]));
    paths[2] = bytes_str(text);
    for (size_t i = 0; i < ARRAY_LEN(paths) && req->api == NULL; i++)
        req->api = route_owner(router->index, req->dialect, paths[i]);
    return ST_OK;
}

/* Find the API and the row of a fixed path. Leaves req->api NULL if no table has the path. */
static enum status find_fixed(struct req *req, const struct router *router)
{
    if (req->help) {
        TRY(find_helped_api(req, router));
        return req->api != NULL ? stage_match(req, router) : ST_OK;
    }
    struct route_found found;
    enum status st =
        route_find(router->index, req->dialect, req->method, req->path, req->arena, &found);
    if (st == ST_NOMEM || found.api == NULL)
        return st == ST_NOMEM ? st : ST_OK;
    return stage_matched(req, st, &found);
}

enum status stage_target(struct req *req, const struct router *router,
                         const struct router_request *request)
{
    const struct dialect *dialect = req->dialect;

    if (dialect->read_headers != NULL)
        TRY(dialect->read_headers(req, request));
    TRY(read_path(req, request));
    TRY(read_query(req, request->query));
    TRY(dialect->read_method(req, request));
    TRY(read_namespace(req, request));
    TRY(find_fixed(req, router));
    if (req->api == NULL && !dialect->mounts) {
        dialect->say_no_path(req, false);
        return ST_NOT_FOUND;
    }
    if (req->api == NULL)
        return ST_OK;
    if (req->api->alias_of != NULL)
        req->rule_path = bytes_str(req->api->alias_of);
    req->rest = bytes_from(req->path, MIN(req->path.len, strlen(req->api->prefix)));
    if (dialect->open_paths && req->matched != ST_OK) {
        dialect->say_no_path(req, true);
        return req->matched;
    }
    if (dialect->check_route != NULL)
        TRY(dialect->check_route(req));
    return req->ns_unknown.len != 0 ? dialect->serve_no_namespace(req) : ST_OK;
}

void stage_note_creation(struct req *req)
{
    ASSERT(req_in_txn(req));
    req->creates = false;
    if (req->matched != ST_OK || req->help || req->route->exists == NULL)
        return;
    bool before = state_suspend(req->txn);
    enum status st = req->route->exists(req);
    state_resume(req->txn, before);
    req->creates = st == ST_NOT_FOUND;
    if (st != ST_OK)
        req_forget_error(req); /* the handler finds the failure again */
}

const char *stage_operation(enum http_method method)
{
    static const char *const names[METHODS] = {
        [METHOD_GET] = "read",   [METHOD_HEAD] = "read",   [METHOD_POST] = "update",
        [METHOD_PUT] = "update", [METHOD_PATCH] = "patch", [METHOD_DELETE] = "delete",
        [METHOD_LIST] = "list",  [METHOD_SCAN] = "scan",   [METHOD_OPTIONS] = "help",
    };
    ASSERT(method < METHODS);
    return names[method];
}

bool stage_reads(const struct req *req)
{
    const struct route *row = req->route != NULL ? req->route : req->likely;
    return req->method == METHOD_GET || stage_lists(req) || req->method == METHOD_HEAD ||
           req->method == METHOD_OPTIONS || (row != NULL && (row->flags & ROUTE_READS) != 0);
}
