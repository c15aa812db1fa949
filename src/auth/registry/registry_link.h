/* Links of a token of the registry: texts that name what gives the token its rights.
 *
 *   0b0cf8fd-6e1e-4c8d-b0a1-4b7b7c8e9f01   the policy of this id (lower case)
 *   service/web                            service identity "web"
 *   service/web@dc1,dc2                    the same, valid in these datacenters alone
 *   node/n1@dc1                            node identity "n1", valid in the datacenter "dc1"
 */
#ifndef HOLDFAST_AUTH_REGISTRY_LINK_H
#define HOLDFAST_AUTH_REGISTRY_LINK_H

#include "text/schema.h"

enum {
    REGISTRY_IDENTITY_MAX = 256, /* longest name of an identity */
    REGISTRY_LINK_MAX = 1024,    /* longest link */
};

enum registry_link_kind { REGISTRY_LINK_POLICY, REGISTRY_LINK_SERVICE, REGISTRY_LINK_NODE };

struct registry_link {
    enum registry_link_kind kind;
    struct bytes name; /* id of the policy, or name of the identity */
    /* datacenters of an identity, separated by commas; data NULL: the link is valid everywhere */
    struct bytes datacenters;
};

/* Take a link apart. Borrows from `text`. */
struct registry_link registry_link_read(struct bytes text);
/* Take the next datacenter from the front of *rest; false: none is left. */
bool registry_link_next_datacenter(struct bytes *rest, struct bytes *ret_datacenter);

/* Whether an identity may have this name: 1 to REGISTRY_IDENTITY_MAX lower-case letters, digits,
 * '-' and '_'; the first and the last are letters or digits. */
bool registry_link_is_name(const char *name);
/* Whether an identity may name this datacenter: 1 to REGISTRY_IDENTITY_MAX letters, digits, '-' and
 * '_'. */
bool registry_link_is_datacenter(const char *name);
/* The link of an identity, in the arena. Name and datacenters have the form above. ST_TOO_BIG: the
 * link would be longer than REGISTRY_LINK_MAX. ST_NOMEM. */
NODISCARD enum status registry_link_of(struct arena *arena, enum registry_link_kind kind,
                                       const char *name, const struct field_strings *datacenters,
                                       const char **ret_link);

#endif
