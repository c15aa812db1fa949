#include "front/registry/registry_namespace.h"

#include "auth/namespace.h"
#include "front/registry/registry_rights.h"

#include <strings.h>

/* A request in a namespace that does not exist: the route that it runs by, and its own. */
struct elsewhere {
    struct route route;
    const struct route *own;
};

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

static enum status fail_write(struct req *req, struct bytes name)
{
    return req_fail(req, ST_REFUSED, "Namespace \"%.*s\" does not exist",
                    (int)MIN(name.len, (size_t)128), (const char *)name.data);
}

/* The namespace that the body names; empty: none. */
static struct bytes namespace_of_body(const struct req *req)
{
    static const char name[] = "Namespace";
    if (req->method != METHOD_PUT)
        return (struct bytes){0};
    TEXT_FOR (v, req->data)
        if (v->kind == TEXT_STRING && v->name.len == sizeof name - 1 &&
            strncasecmp((const char *)v->name.data, name, v->name.len) == 0)
            return v->text;
    return (struct bytes){0};
}

/* Run a write in the namespace that its body names; the handler looks for it. */
static enum status write_by_body(struct req *req)
{
    const struct elsewhere *at = CONTAINER_OF(req->route, const struct elsewhere, route);
    bool steps = at->own->prepare != NULL || at->own->outside != NULL || at->own->finish != NULL;
    if (namespace_of_body(req).len == 0 || steps)
        return fail_write(req, req->ns_unknown);
    req->ns_unknown = (struct bytes){0};
    req->route = at->own;
    TRY(req_need_feature(req, req->route->feature));
    return req->route->handler(req);
}

enum status registry_namespace_serve(struct req *req)
{
    const struct registry_row *row = req->route->of_dialect;
    bool list = row != NULL && row->collection;
    ASSERT(req->ns_unknown.len != 0);
    if (req->route->handler == NULL || req->route->place == PLACE_NODE)
        return ST_OK; /* the reply does not depend on a namespace */
    if (list && text_is(req->ns_unknown, "*")) {
        req->ns_unknown = (struct bytes){0};
        return ST_OK;
    }
    struct elsewhere *at = arena_alloc(req->arena, sizeof *at);
    if (at == NULL)
        return ST_NOMEM;
    *at = (struct elsewhere){*req->route, req->route};
    at->route.prepare = at->route.outside = at->route.finish = NULL;
    at->route.feature = 0;
    at->route.handler = list                        ? reply_nothing
                        : req->method == METHOD_GET ? fail_read
                                                    : write_by_body;
    req->route = &at->route;
    return ST_OK;
}

enum status registry_namespace_use(struct req *req, const char *name)
{
    if (name == NULL || name[0] == '\0')
        return ST_OK;
    struct bytes given = strcmp(name, "default") == 0 ? (struct bytes){0} : bytes_str(name);
    enum status st = auth_namespace_find(given, &req->ns);
    return st == ST_NOT_FOUND ? fail_write(req, given) : st;
}
