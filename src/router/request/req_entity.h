/* The entity of a token, as far as a request needs it. */
#ifndef HOLDFAST_ROUTER_REQUEST_REQ_ENTITY_H
#define HOLDFAST_ROUTER_REQUEST_REQ_ENTITY_H

#include "router/request/req.h"

/* The entity of a token that has one, as the transaction sees it; valid until the transaction ends.
 * ST_DENIED: the entity was deleted or is disabled, or it is in too many groups. Else as
 * identity_hold. */
NODISCARD enum status req_entity(struct req *req, const struct auth_token *token,
                                 const struct identity **ret_identity);

/* Names of policies of a token: `add` and `to` together, sorted, each once. In the arena.
 * ST_NOMEM. */
NODISCARD enum status req_unite_policies(struct req *req, const struct field_strings *add,
                                         struct field_strings *to);

/* Add the policies of an entity to the names of a token's policies, and what fills templates.
 * ST_NOMEM. */
NODISCARD enum status req_entity_names(struct req *req, const struct identity *identity,
                                       struct acl_names *names);

/* The policies that a token has by its entity, also one that this transaction staged; in the arena.
 * An entity that was deleted or is disabled gives none. Else as identity_read. */
NODISCARD enum status req_entity_policies(struct req *req, const struct auth_token *token,
                                          struct field_strings *ret_policies);

#endif
