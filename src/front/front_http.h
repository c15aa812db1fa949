/* Requests of an HTTP server as the router sees them. */
#ifndef HOLDFAST_FRONT_FRONT_HTTP_H
#define HOLDFAST_FRONT_FRONT_HTTP_H

#include "front/client_addr.h"
#include "http/http.h"
#include "router/router.h"

struct forwarder;

/* The `ctx` of the handler below, one for each server. */
struct front_http {
    struct router_worker *worker;
    const struct forwarder *forwarder; /* NULL with `peers`: no request goes on from here */
    bool peers;                        /* connections come from nodes of the cluster */
    /* With `peers`: whether the caller is a member now. A node that was removed keeps its
     * connections and its certificate, but is not believed any more (PROTOCOL R18). */
    bool (*is_member)(const struct front_http *http, const struct http_request *req);
    const char *only;  /* serve nothing but a POST to this path below the root; NULL: everything */
    bool open_metrics; /* metrics without a token */
    bool closed_ceremonies;           /* ROUTE_CEREMONY only with one */
    const struct client_rule *client; /* proxies that may name the client; NULL: none */
    bool require_request_header; /* of clients, where their dialect has one, against requests made
                                    by web pages */
};
extern const struct http_handler front_http_handler;

#endif
