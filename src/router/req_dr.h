/* The authority of a request of disaster recovery on a DR secondary, where no token of clients
 * counts: the member `dr_operation_token` of the body.
 *
 * A DR operation token (cluster/dr/token.h) may do everything there. A batch token that the primary
 * made may do what its policies allow on the path, with the other members of the body as
 * parameters, from the addresses that it is bound to: such a token and the policies are replicated,
 * so an operator can keep one ready. Other tokens, root tokens included, are refused. */
#ifndef HOLDFAST_ROUTER_REQ_DR_H
#define HOLDFAST_ROUTER_REQ_DR_H

#include "router/request/req.h"
#include "text/schema.h"

#define REQ_DR_TOKEN "dr_operation_token"
/* The error of a DR secondary on every path that it does not serve. */
#define REQ_DR_DISABLED "path disabled in replication DR secondary mode"

/* The member of a body that authorises on a DR secondary. */
#define REQ_DR_TOKEN_FIELD(type)                                          \
    FIELD(type, dr_operation_token, STRING, .preset = "", .hidden = true, \
          .help = "The DR operation token, or a batch token of the primary that may do this.")

/* The body of a request that carries nothing but its authority. */
struct req_dr_authority {
    const char *dr_operation_token;
};
extern const struct schema req_dr_authority_schema;

/* Authorise by the body, req->data. A GET has no body: it is authorised by `bearer`, the token of
 * its header, as upstream's clients send a DR operation token with it; no other token counts there,
 * not even a batch token. ST_INVALID with the request's error: the token is missing, or
 * no valid one. ST_DENIED: the policies of a batch token do not allow it. */
NODISCARD enum status req_dr_authorise(struct req *req, struct bytes bearer);
/* The same with the token itself. */
NODISCARD enum status req_dr_authorise_by(struct req *req, struct bytes token);

#endif
