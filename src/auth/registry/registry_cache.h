/* Rights of a token of the registry: the rules of its policies and identities, compiled and kept
 * between requests by an acl_cache.
 *
 * The record of a token has one list of links (registry_link.h).
 *
 * A policy that does not exist grants nothing. An identity stands for the rules of upstream's
 * template. A policy or an identity that names datacenters counts only in these.
 *
 * The newest change below the prefix of all policies is a precondition of the transaction, so what
 * a policy allowed is still true when the request is committed (PROTOCOL R3). Source: spec 3, A5
 * and A6. */
#ifndef HOLDFAST_AUTH_REGISTRY_CACHE_H
#define HOLDFAST_AUTH_REGISTRY_CACHE_H

#include "auth/acl_cache.h"
#include "auth/registry/registry_rules.h"

/* The kind of an acl_cache of the registry. `datacenter` outlives it; `otherwise` is REGISTRY_WRITE
 * or REGISTRY_DENY: the level where no rule decides. */
struct registry_kind {
    struct acl_kind kind;
    const char *datacenter;
    enum registry_level otherwise;
};
struct registry_kind registry_kind(const char *datacenter, enum registry_level otherwise);

/* A request that asks for rights. */
struct registry_scope {
    struct acl_cache *cache; /* made with a struct registry_kind */
    struct state_txn *txn;
    const char *ns;
    struct acl_names links; /* the links of the token; `now_ms` is not used */
    bool management;        /* every right, whatever the links say */
};

/* Whether the links give a level (READ, LIST or WRITE) at a name; `name` is ignored for a resource
 * without names. ST_DENIED; ST_CORRUPT: a stored policy does not compile; ST_SEALED, ST_NOMEM. */
NODISCARD enum status registry_rules_allow(const struct registry_scope *scope,
                                           enum registry_resource resource, struct bytes name,
                                           enum registry_level level);

#endif
