/* The handler that turns requests of an HTTP server into requests of the router. */
#ifndef HOLDFAST_FRONT_FRONT_HTTP_H
#define HOLDFAST_FRONT_FRONT_HTTP_H

#include "cluster/mesh/mesh.h"
#include "front/client_addr.h"
#include "http/http.h"
#include "router/router.h"

struct forwarder;

/* The `ctx` of front_http_handler, one for each server. */
struct front_http {
    struct router_worker *worker;
    /* way to the active node; NULL with `peers`: no request is forwarded twice */
    const struct forwarder *forwarder;
    const struct dialect_map *dialects; /* dialects that clients may speak; NULL: all */
    bool peers;                         /* the connections come from nodes of the cluster */
    /* With `peers`: whether the sender is a member now, and its name. A removed node still has
     * connections and a certificate; its requests are refused (PROTOCOL R18). */
    bool (*is_member)(const struct front_http *http, const struct http_request *req,
                      char ret_name[static MESH_NAME_MAX]);
    /* serve nothing but a POST to one of these paths below the root, a list that NULL ends;
     * NULL: everything */
    const char *const *only;
    bool open_metrics;                /* serve metrics without a token */
    bool closed_ceremonies;           /* serve WHO_CEREMONY with a token only */
    const struct client_rule *client; /* proxies that may name the client; NULL: none */
    /* Refuse a client's request without the header that no web page of another site can add, where
     * the dialect has such a header. */
    bool require_request_header;
};
extern const struct http_handler front_http_handler;

#endif
