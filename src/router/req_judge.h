/* The one judgement of a token: whether it counts, on this request and from this client, and what
 * its policies allow. Whatever carries the token, a header or the body, is judged by these. */
#ifndef HOLDFAST_ROUTER_REQ_JUDGE_H
#define HOLDFAST_ROUTER_REQ_JUDGE_H

#include "router/request/req.h"

/* Find the valid token of a bearer that the client may use from its address. Sets req->token_ref;
 * *ret_token lives as long as the request. ST_DENIED. ST_BUSY with the request's error: the token
 * expires, and this node does not know the time. Else as auth_token_hold. */
NODISCARD enum status req_judge_token(struct req *req, struct bytes bearer,
                                      const struct auth_token **ret_token);
/* Whether an ACL gives the capabilities on the path of the request. *ret_rule is the rule that
 * does, as long as the ACL lives; NULL: not needed. ST_DENIED. */
NODISCARD enum status req_judge_path(const struct req *req, const struct acl *acl, unsigned caps,
                                     const struct policy_rule **ret_rule);
/* Whether the rule allows the parsed parameters, an object. Deletions and listings have none.
 * `rule` may be NULL. ST_DENIED. */
NODISCARD enum status req_judge_parameters(const struct req *req, const struct policy_rule *rule,
                                           const struct text_value *data);

#endif
