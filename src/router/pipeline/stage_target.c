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
    struct bytes path = req->path;
    if (req->help)
        TRY(path_folder(req->arena, path, &path)); /* help about "sys" is help about "sys/" */
    req->api = module_find_fixed(&router->options.modules, dialect, path, req->help);
    if (req->api == NULL && !dialect->mounts) {
        dialect->say_no_path(req, false);
        return ST_NOT_FOUND;
    }
    if (req->api == NULL)
        return ST_OK;
    if (req->api->alias_of != NULL)
        req->rule_path = bytes_str(req->api->alias_of);
    req->rest = bytes_from(req->path, MIN(req->path.len, strlen(req->api->prefix)));
    TRY(stage_match(req));
    if (dialect->open_paths && req->matched != ST_OK) {
        dialect->say_no_path(req, true);
        return req->matched;
    }
    if (dialect->check_route != NULL)
        TRY(dialect->check_route(req));
    return req->ns_unknown.len != 0 ? dialect->serve_no_namespace(req) : ST_OK;
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
    return req->method == METHOD_GET || stage_lists(req) || req->method == METHOD_HEAD ||
           req->method == METHOD_OPTIONS ||
           (req->route != NULL && (req->route->flags & ROUTE_READS) != 0);
}
