/* A call that came over HTTP. Inside src/front. */
#ifndef HOLDFAST_FRONT_FRONT_CALL_H
#define HOLDFAST_FRONT_FRONT_CALL_H

#include "http/http.h"
#include "router/router.h"

struct forward;
struct forwarder;
struct upload;

/* Lies in the arena of the request, whose `user` it is until a download begins. */
struct front_call {
    struct router_call call;
    struct http_request *req;
    const struct forwarder *forwarder; /* NULL: the call does not go on from here */
    struct forward *forward;           /* reads or answers the request piece by piece; NULL: none */
    struct upload *upload;             /* reads the request into a file; NULL: none */
    struct router_collect *collect;    /* NULL: the body is not being read into memory */
    char peer[HTTP_PEER_TEXT];
};

static inline struct front_call *front_call_of(const struct router_call *call)
{
    return CONTAINER_OF(call, struct front_call, call);
}

static inline struct front_call *front_call_get(const struct http_request *req)
{
    struct front_call *call = req->user;
    ASSERT(call != NULL && call->req == req);
    return call;
}

#endif
