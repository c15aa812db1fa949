/* The stages of the pipeline that do not wait. Inside src/router. */
#ifndef HOLDFAST_ROUTER_PIPELINE_STAGES_H
#define HOLDFAST_ROUTER_PIPELINE_STAGES_H

#include "router/router.h"

/* stage_target.c */

/* Read path, query, method and namespace of the request, and find the API if the path is fixed.
 * ST_INVALID, ST_NOT_FOUND (with the request's error), ST_UNSUPPORTED, ST_NOMEM. */
NODISCARD enum status stage_target(struct req *req, const struct router *router,
                                   const struct router_request *request);

/* The operation as audit records name it: "read", "update" and so on. */
const char *stage_operation(enum http_method method);
/* Find out whether a write with an existence check creates its object: upstream calls such a
 * request a creation. Only for audit records: the check decides nothing, so no read of it is a
 * precondition. Needs the token, whose storage the path may be in. */
void stage_note_creation(struct req *req);
/* Whether the request only reads, as far as its row is known. */
bool stage_reads(const struct req *req);
static inline bool stage_lists(const struct req *req)
{
    return req->method == METHOD_LIST || req->method == METHOD_SCAN;
}

/* stage_route.c */

/* Find the mount and the row of its engine, unless the path is fixed. Needs a transaction. The
 * result of matching is only stored in req->matched, because a sender without the right must not
 * learn that a path does not exist. ST_OK, or a failure of the state. */
NODISCARD enum status stage_route(struct req *req, const struct router *router);

/* Set req->likely to the row of a request below a mount, as the state of this node has the mount:
 * another node may have moved the mount since. Opens no transaction that outlives the call. */
void stage_guess(struct req *req, const struct router *router, struct state_txn *txn);

/* Find the row in the tables of the mount, or else of the fixed path. Sets req->api and req->route;
 * the result of matching is only stored in req->matched. ST_NOMEM. */
NODISCARD enum status stage_match(struct req *req, const struct router *router);

/* Keep the result of a search for the row, `st`, in the request. Statuses of rule_path. */
NODISCARD enum status stage_matched(struct req *req, enum status st,
                                    const struct route_found *found);

/* stage_authorise.c */

/* Whether the request carries a token at all. */
bool stage_has_bearer(const struct req *req, const struct router_request *request);
/* The token that came with the request; empty: none. */
struct bytes stage_bearer(const struct req *req, const struct router_request *request);
/* Authenticate the request and set req->token; NULL: the request has no token, and its dialect
 * decides what such a client may do. ST_DENIED. */
NODISCARD enum status stage_authenticate(struct req *req, const struct router_request *request);
void stage_forget_token(struct req *req);
/* For WHO_CEREMONY: authenticate the request and check that its token has the right. If either
 * fails, the request is anonymous, and req->token is NULL. Sets req->token and req->acl. A failure
 * of the state. */
NODISCARD enum status stage_admit(struct req *req, const struct router_request *request);
/* Stage one use of the token, if the number of its uses is limited. The use counts whether or not
 * the request succeeds (PROTOCOL R3). Statuses as state_put. */
NODISCARD enum status stage_use(struct req *req);
/* Whether the token has the right on the path, decided before the body is parsed. Sets req->acl and
 * req->rule. If the token has the right, returns the result of matching the tables: ST_OK,
 * ST_NOT_FOUND or ST_UNSUPPORTED. Else ST_DENIED, or a failure of the state. */
NODISCARD enum status stage_authorise_path(struct req *req);
/* Whether the rule of the path allows the parsed parameters, req->data. ST_DENIED. Deletions and
 * listings have no parameters. */
NODISCARD enum status stage_authorise_parameters(const struct req *req);

#endif
