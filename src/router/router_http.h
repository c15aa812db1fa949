/* Between the HTTP server and the router, on both ends of a forwarded request.
 *
 * A forwarded request is the same HTTP request with headers added by the node that sends it on:
 *
 *   x-holdfast-id      32 hex digits, '-', a decimal number: PROTOCOL R14
 *   x-holdfast-again   "1": an earlier try with this id may have been executed
 *   x-holdfast-client  address of the client
 *   x-holdfast-closed  "1": the client's listener wants a token for ROUTE_CEREMONY
 *
 * and its answer may carry x-holdfast-retry: ST_NOT_LEADER or ST_UNKNOWN_OUTCOME instead of being
 * one. These headers mean nothing on a listener for clients. */
#ifndef HOLDFAST_ROUTER_ROUTER_HTTP_H
#define HOLDFAST_ROUTER_ROUTER_HTTP_H

#include "http/http.h"
#include "router/client_addr.h"
#include "router/router.h"

struct forwarder;

#define ROUTER_HEADER_ID "x-holdfast-id"
#define ROUTER_HEADER_AGAIN "x-holdfast-again"
#define ROUTER_HEADER_CLIENT "x-holdfast-client"
#define ROUTER_HEADER_CLOSED "x-holdfast-closed"
#define ROUTER_HEADER_RETRY "x-holdfast-retry"

/* The `ctx` of the handler below, one for each server. */
struct router_http {
    struct router_worker *worker;
    const struct forwarder *forwarder; /* NULL with `peers`: no call goes on from here */
    bool peers;                        /* connections come from nodes of the cluster */
    /* With `peers`: whether the caller is a member now. A node that was removed keeps its
     * connections and its certificate, but is not believed any more (PROTOCOL R18). */
    bool (*is_member)(const struct router_http *http, const struct http_request *req);
    const char *only;                 /* serve nothing but a POST to this path; NULL: everything */
    bool open_metrics;                /* metrics without a token */
    bool closed_ceremonies;           /* ROUTE_CEREMONY only with one */
    const struct client_rule *client; /* proxies that may name the client; NULL: none */
    bool require_request_header; /* of clients below /v1/, against requests made by web pages */
};
extern const struct http_handler router_http_handler;

/* From a call that came over HTTP to its request, and back: for forwarding. */
struct http_request *router_http_request(const struct router_call *call);
struct router_call *router_http_call(const struct http_request *req);

/* What forwards the request, for its streams. */
struct forward;
struct forward *router_http_forward(const struct http_request *req);
void router_http_set_forward(const struct http_request *req, struct forward *forward);

/* The upload that router_call.receive began for a request. */
struct upload *router_http_upload(const struct http_request *req);

enum { ROUTER_ID_TEXT = 32 + 1 + 20 + 1 };
/* A request id as text in a header between nodes. */
void router_id_put(const struct rlog_request_id *id, char ret_text[ROUTER_ID_TEXT]);
/* ST_INVALID. */
NODISCARD enum status router_id_parse(struct bytes text, struct rlog_request_id *ret_id);
/* ST_OK for no text; ST_INVALID for anything but the two statuses above. */
NODISCARD enum status router_retry_parse(struct bytes text, enum status *ret_retry);

#endif
