/* Long work for a client that has gone: `outside` of a route with `ends_with_client` ends it. */
#ifndef HOLDFAST_ROUTER_REQ_LEFT_H
#define HOLDFAST_ROUTER_REQ_LEFT_H

#include "router/request/req.h"

#include <stdatomic.h>

/* Whether the client has gone before the reply was complete. Any thread. */
static inline bool req_is_left(const struct req *req)
{
    ASSERT(req->left != NULL);
    return atomic_load(req->left);
}

#endif
