/* Policies, password policies, capabilities of tokens. */
#ifndef HOLDFAST_API_POLICIES_POLICIES_H
#define HOLDFAST_API_POLICIES_POLICIES_H

#include "router/req_node.h"

extern const struct module policies_module;

extern const struct route_table policies_acl_table;
extern const struct route_table policies_capabilities_table;
extern const struct route_table policies_password_table;

/* policies_acl.c: the text of a policy, which the request gives as it is or in base64. No policy is
 * valid base64, except an empty policy or one of comments only. ST_NOMEM. */
NODISCARD enum status policies_given_text(struct req *req, const char *given,
                                          struct bytes *ret_text);

#endif
