#include "router/req_lease.h"
#include "router/router.h"

enum status req_lease_scope(struct req *req, struct lease_scope *ret_scope)
{
    struct lease_kinds *kinds = arena_zalloc(req->arena, sizeof *kinds);
    ASSERT(req->txn != NULL);
    if (kinds == NULL)
        return ST_NOMEM;
    module_lease_kinds(&req->router->options.modules, kinds);
    *ret_scope =
        (struct lease_scope){.txn = req->txn, .ns = req->ns, .kinds = kinds, .now_ms = req->now_ms};
    return ST_OK;
}

enum status req_lease_create(struct req *req, struct lease *lease)
{
    struct lease_scope scope;
    TRY(req_need_feature(req, LEASE_FEATURE));
    TRY(req_lease_scope(req, &scope));
    return lease_create(&scope, req->env, (const char *)req->path.data, lease);
}

void req_reply_lease(struct req *req, const struct lease *lease)
{
    ASSERT((req->route->flags & ROUTE_BARE) == 0 && req->reply.lease_id == NULL);
    ASSERT(lease->expire_ms == 0 || lease->expire_ms > req->now_ms);
    req->reply.kind = REPLY_DATA;
    req->reply.lease_id = lease->id;
    req->reply.renewable = lease->renewable;
    req->reply.lease_duration_s =
        lease->expire_ms != 0 ? (lease->expire_ms - req->now_ms) / 1000 : 0;
}
