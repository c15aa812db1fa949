/* The head of a request: path, query, method, namespace, and the API at a fixed path. */
#include "auth/namespace.h"
#include "router/path.h"
#include "router/stages.h"
#include "router/wrap.h"

struct bytes stage_namespace(const struct router_call *call)
{
    return stage_header(call, "x-secrets-namespace", "x-vault-namespace");
}

static enum status read_flag(struct req *req, const char *name, bool *ret_wanted)
{
    const struct text_value *v = text_get(req->query, name);
    *ret_wanted = false;
    if (v == NULL)
        return ST_OK;
    if (v->kind != TEXT_STRING || text_bool_parse(v->text, ret_wanted) != ST_OK)
        return req_fail(req, ST_INVALID, "%s: true or false is expected", name);
    return ST_OK;
}

/* Variants of GET besides a read. */
static enum status read_get_flags(struct req *req)
{
    bool list, scan;
    if (req->query->n == 0)
        return ST_OK;
    TRY(read_flag(req, "help", &req->help));
    TRY(read_flag(req, "list", &list));
    TRY(read_flag(req, "scan", &scan));
    if (req->help)
        req->method = METHOD_OPTIONS;
    else if (list && scan)
        return req_fail(req, ST_INVALID, "list and scan exclude each other");
    else if (list)
        req->method = METHOD_LIST;
    else if (scan)
        req->method = METHOD_SCAN;
    return ST_OK;
}

/* There are no methods, so that a good header has no effect. */
static enum status check_mfa(struct req *req, struct bytes header)
{
    const uint8_t *colon = header.len != 0 ? memchr(header.data, ':', header.len) : NULL;
    if (colon == NULL)
        return ST_OK;
    if (colon == header.data)
        return req_fail(req, ST_INVALID,
                        "invalid data in header \"X-Secrets-MFA\"; missing method name or ID");
    if (colon == header.data + header.len - 1)
        return req_fail(req, ST_INVALID,
                        "invalid data in header \"X-Secrets-MFA\"; missing method value");
    return ST_OK;
}

/* The path as a folder: it ends in '/'. */
static enum status folder_of(const struct req *req, struct bytes *ret_path)
{
    struct bytes path = req->path;
    if (path.len != 0 && path.data[path.len - 1] != '/') {
        const char *text = arena_format(req->arena, "%s/", (const char *)path.data);
        if (text == NULL)
            return ST_NOMEM;
        path = bytes_str(text);
    }
    *ret_path = path;
    return ST_OK;
}

static enum status read_method(struct req *req, const struct router_call *call)
{
    bool slash = req->path.len > 0 && req->path.data[req->path.len - 1] == '/';
    req->method = call->method;
    switch (call->method) {
    case METHOD_GET: TRY(read_get_flags(req)); break;
    case METHOD_POST:
    case METHOD_PUT:
    case METHOD_PATCH:
        if (slash)
            return req_fail(req, ST_INVALID, "cannot write to a path ending in '/'");
        break;
    default: break;
    }
    if (stage_lists(req))
        return folder_of(req, &req->path);
    if (slash) /* the slash means nothing here, and rules leave it out */
        req->rule_path = path_trimmed(req->path);
    return ST_OK;
}

static enum status read_query(struct req *req, struct bytes text)
{
    static const struct text_value nothing = {.kind = TEXT_OBJECT};
    struct text_value *query;
    req->query = &nothing;
    if (text.len == 0)
        return ST_OK;
    TRY(path_parse_pairs(req->arena, text, &query, &req->error));
    req->query = query;
    return ST_OK;
}

static enum status read_path(struct req *req, const struct router_call *call)
{
    const struct path_target *target = &call->target;
    if (target->fault != NULL)
        return req_fail(req, ST_INVALID, "%s", target->fault);
    req->path = target->path;
    return target->path.data != NULL ? ST_OK : ST_NOT_FOUND;
}

enum status stage_target(struct req *req, const struct router *router,
                         const struct router_call *call)
{
    struct bytes ns = stage_namespace(call);

    TRY(wrap_read(req, stage_header(call, "x-secrets-wrap-ttl", "x-vault-wrap-ttl")));
    TRY(check_mfa(req, stage_header(call, "x-secrets-mfa", "x-vault-mfa")));
    TRY(read_path(req, call));
    TRY(read_query(req, call->query));
    TRY(read_method(req, call));
    if (auth_namespace_find(ns, &req->ns) != ST_OK)
        return req_fail(req, ST_NOT_FOUND, "namespace not found");
    struct bytes path = req->path;
    if (req->help)
        TRY(folder_of(req, &path)); /* "sys" is about all of "sys/" */
    req->api = module_find_fixed(&router->options.modules, path, req->help);
    if (req->api == NULL)
        return ST_OK;
    if (req->api->alias_of != NULL)
        req->rule_path = bytes_str(req->api->alias_of);
    req->rest = bytes_from(req->path, MIN(req->path.len, strlen(req->api->prefix)));
    TRY(stage_match(req));
    return wrap_check(req);
}

const char *stage_operation(enum http_method method)
{
    static const char *const names[METHODS] = {
        [METHOD_GET] = "read",   [METHOD_HEAD] = "read",   [METHOD_POST] = "update",
        [METHOD_PUT] = "update", [METHOD_PATCH] = "patch", [METHOD_DELETE] = "delete",
        [METHOD_LIST] = "list",  [METHOD_SCAN] = "scan",   [METHOD_OPTIONS] = "help",
    };
    return names[method];
}

bool stage_reads(const struct req *req)
{
    return req->method == METHOD_GET || stage_lists(req) || req->method == METHOD_HEAD ||
           req->method == METHOD_OPTIONS ||
           (req->route != NULL && (req->route->flags & ROUTE_READS) != 0);
}
