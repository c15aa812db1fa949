/* The stages of the pipeline that do not wait. Inside src/router. */
#ifndef HOLDFAST_ROUTER_PIPELINE_STAGES_H
#define HOLDFAST_ROUTER_PIPELINE_STAGES_H

#include "router/router.h"

/* stage_target.c */

/* Path, query, method and namespace of the request; and the API at a fixed path, if it is one.
 * ST_INVALID, ST_NOT_FOUND (with the request's error), ST_UNSUPPORTED, ST_NOMEM. */
NODISCARD enum status stage_target(struct req *req, const struct router *router,
                                   const struct router_request *request);

/* The operation as records name it: "read", "update" and so on. */
const char *stage_operation(enum http_method method);
/* Whether the method only reads. */
bool stage_reads(const struct req *req);
static inline bool stage_lists(const struct req *req)
{
    return req->method == METHOD_LIST || req->method == METHOD_SCAN;
}

/* stage_route.c */

/* With a transaction: the mount and its engine's row, where the path is not fixed. What is not
 * found is kept in req->matched, because only those who may see it are told. ST_OK, or a failure of
 * the state. */
NODISCARD enum status stage_route(struct req *req, const struct router *router);

/* The row of the tables of req->api. What is not found is kept in req->matched. ST_NOMEM. */
NODISCARD enum status stage_match(struct req *req);

/* stage_authorise.c */

/* Whether the request carries a token at all. */
bool stage_has_bearer(const struct req *req, const struct router_request *request);
/* The token that came with the request; empty: none. */
struct bytes stage_bearer(const struct req *req, const struct router_request *request);
/* Authenticate the request and set req->token. ST_DENIED. */
NODISCARD enum status stage_authenticate(struct req *req, const struct router_request *request);
void stage_forget_token(struct req *req);
/* For ROUTE_CEREMONY: the same, if the token may do this; otherwise the request is anonymous, and
 * req->token is NULL. Sets req->token and req->acl. A failure of the state. */
NODISCARD enum status stage_admit(struct req *req, const struct router_request *request);
/* Stage one use of the token, if its uses are limited: it is counted whether or not the request
 * succeeds (PROTOCOL R3). As state_put. */
NODISCARD enum status stage_use(struct req *req);
/* Whether the token may do this by the path alone, before the body is parsed. If the token may, the
 * result of matching the tables. Sets req->acl and req->rule. ST_DENIED, ST_NOT_FOUND,
 * ST_UNSUPPORTED; a failure of the state. */
NODISCARD enum status stage_authorise_path(struct req *req);
/* Whether the rule of the path allows the parsed parameters, req->data. Deleting and listing have
 * none. ST_DENIED. */
NODISCARD enum status stage_authorise_parameters(const struct req *req);

#endif
