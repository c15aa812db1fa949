/* A request that came over HTTP. Inside src/front. */
#ifndef HOLDFAST_FRONT_FRONT_REQUEST_H
#define HOLDFAST_FRONT_FRONT_REQUEST_H

#include "cluster/mesh/mesh.h"
#include "http/http.h"
#include "router/router.h"

struct forward;
struct front_http;
struct forwarder;
struct upload;

/* Lies in the arena of the request, whose `user` it is until a download begins. */
struct front_request {
    struct router_request request;
    struct http_request *req;
    const struct front_http *http; /* listener that took the request */
    /* way to the active node; NULL: the request cannot be forwarded */
    const struct forwarder *forwarder;
    struct forward *forward; /* state of a streamed body or reply; NULL: none */
    struct upload *upload;   /* state of reading the body into a file; NULL: none */
    /* told when the body is in memory; NULL: the body is not being read */
    struct router_collect *collect;
    char peer[HTTP_PEER_TEXT];
    bool watched; /* `left` is set when the client goes */
    bool strange; /* another node forwards it for a dialect that this build does not know */
    char member[MESH_NAME_MAX]; /* name of the node that sends the request; "": a client */
};

static inline struct front_request *front_request_of(const struct router_request *request)
{
    return CONTAINER_OF(request, struct front_request, request);
}

static inline struct front_request *front_request_get(const struct http_request *req)
{
    struct front_request *request = req->user;
    ASSERT(request != NULL && request->req == req);
    return request;
}

#endif
