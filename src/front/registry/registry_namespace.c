#include "front/registry/registry_namespace.h"

static enum status reply_nothing(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    text_open_list(&w);
    text_close(&w);
    return req_reply_end(req);
}

static enum status fail_read(struct req *req)
{
    return req_fail(req, ST_NOT_FOUND, "Namespace not found: \"%.*s\"",
                    (int)MIN(req->ns_unknown.len, (size_t)128), (const char *)req->ns_unknown.data);
}

static enum status fail_write(struct req *req)
{
    return req_fail(req, ST_REFUSED, "Namespace \"%.*s\" does not exist",
                    (int)MIN(req->ns_unknown.len, (size_t)128), (const char *)req->ns_unknown.data);
}

enum status registry_namespace_serve(struct req *req)
{
    bool list = (req->route->flags & ROUTE_COLLECTION) != 0;
    ASSERT(req->ns_unknown.len != 0);
    if (req->route->handler == NULL || (req->route->flags & ROUTE_NODE) != 0)
        return ST_OK; /* the reply does not depend on a namespace */
    if (list && text_is(req->ns_unknown, "*")) {
        req->ns_unknown = (struct bytes){0};
        return ST_OK;
    }
    struct route *route = arena_alloc(req->arena, sizeof *route);
    if (route == NULL)
        return ST_NOMEM;
    *route = *req->route;
    route->prepare = route->outside = route->finish = NULL;
    route->feature = 0;
    route->handler = list ? reply_nothing : req->method == METHOD_GET ? fail_read : fail_write;
    req->route = route;
    return ST_OK;
}
