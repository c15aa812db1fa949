/* The anonymous token of the registry: a client that sends no token has its rights. Without a
 * record of the token these are the rights that no rule decides. Source: spec 3, A6. */
#ifndef HOLDFAST_AUTH_REGISTRY_ANONYMOUS_H
#define HOLDFAST_AUTH_REGISTRY_ANONYMOUS_H

#include "auth/acl_cache.h"
#include "auth/token.h"

/* Accessor of the anonymous token. A policy has the same id, in a table of its own. */
#define REGISTRY_ANONYMOUS "00000000-0000-0000-0000-000000000002"

/* The links of the anonymous token, in the arena; none if there is no such token. The record, or
 * its absence, is a precondition of the transaction (PROTOCOL R3). As auth_token_find_any, without
 * ST_NOT_FOUND. */
NODISCARD enum status registry_anonymous_links(const struct auth_scope *scope,
                                               struct acl_names *ret_links);

#endif
