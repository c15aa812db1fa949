/* Rules about the addresses that this node may connect to outside of the cluster.
 *
 * An address is refused if it is unspecified, or if it is link-local or in a block of `deny`, and
 * in no block of `allow`. To allow a few blocks only, deny 0.0.0.0/0 and ::/0.
 *
 * 1. The rules judge the address of the socket, after the name was resolved: a name that gets
 *    another address between two lookups is no way around them.
 * 2. An IPv6 address that embeds an IPv4 address (mapped, compatible, NAT64, 6to4) must pass as
 *    both: a translator on the way would connect to the IPv4 address.
 * 3. The unspecified addresses are always refused: Linux connects them to the loopback. */
#ifndef HOLDFAST_OUT_OUT_RULES_H
#define HOLDFAST_OUT_OUT_RULES_H

#include "text/cidr.h"

enum { OUT_RULES_MAX = 256 }; /* most entries of one list */

/* The lists are borrowed. All zero: everything but link-local addresses, on every port. */
struct out_rules {
    const struct cidr *deny, *allow; /* blocks as cidr_parse reads them */
    size_t n_deny, n_allow;
    const uint16_t *ports; /* the only ports that are allowed; none: every port */
    size_t n_ports;
};

/* Whether a connection to the address and port is allowed. ST_REFUSED with a reason that names the
 * address. Any thread. */
NODISCARD enum status out_rules_judge(const struct out_rules *rules, const struct ip *ip,
                                      uint16_t port, struct reason *reason);

#endif
