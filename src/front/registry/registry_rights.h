/* The rights of a request's sender, for the dialect and for handlers of the registry. */
#ifndef HOLDFAST_FRONT_REGISTRY_REGISTRY_RIGHTS_H
#define HOLDFAST_FRONT_REGISTRY_REGISTRY_RIGHTS_H

#include "auth/registry/registry_rules.h"
#include "router/request/req.h"

/* The part of a row that the registry alone needs (route.of_dialect): the right that the row asks
 * for. A row without this part needs no right. */
struct registry_row {
    const char *permission; /* "acl:read" */
    enum registry_resource resource;
    enum registry_level level;
    bool collection; /* the reply is a list: empty, in a namespace that does not exist */
};

/* Whether the token of the request, or else the anonymous token, has a level (READ, LIST or WRITE)
 * at a name; `name` is ignored for a resource without names. A root token of the secrets service
 * has every right, and without ACLs every client. The policies, and a missing token's absence,
 * become preconditions of the request's transaction (PROTOCOL R3). It must not have staged policies
 * yet. ST_DENIED without an error text; else as registry_rules_allow. */
NODISCARD enum status registry_allow(struct req *req, enum registry_resource resource,
                                     struct bytes name, enum registry_level level);

#endif
