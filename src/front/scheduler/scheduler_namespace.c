#include "front/scheduler/scheduler_namespace.h"

#include "front/scheduler/scheduler_rights.h"

static enum status reply_nothing(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    text_open_list(&w);
    text_close(&w);
    return req_reply_end(req);
}

enum status scheduler_namespace_serve(struct req *req)
{
    const struct scheduler_row *row = req->route->of_dialect;
    ASSERT(req->route != NULL);
    ASSERT(req->ns_unknown.len != 0);
    bool all = row != NULL && row->collection && text_is(req->ns_unknown, "*");
    if (req->route->handler == NULL || row == NULL || row->any_namespace || all) {
        req->ns_unknown = (struct bytes){0};
        return ST_OK;
    }
    if (!row->collection)
        return req_fail(req, ST_REFUSED, "Namespace \"%.*s\" does not exist",
                        (int)MIN(req->ns_unknown.len, (size_t)128),
                        (const char *)req->ns_unknown.data);
    struct route *route = arena_alloc(req->arena, sizeof *route);
    if (route == NULL)
        return ST_NOMEM;
    *route = *req->route;
    route->handler = reply_nothing;
    route->prepare = route->outside = route->finish = NULL;
    req->route = route;
    return ST_OK;
}
