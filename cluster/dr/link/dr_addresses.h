/* The cluster ports of a primary, as frames, records and tokens carry them. Any thread. */
#ifndef HOLDFAST_CLUSTER_DR_LINK_DR_ADDRESSES_H
#define HOLDFAST_CLUSTER_DR_LINK_DR_ADDRESSES_H

#include "base/record.h"

enum {
    DR_ADDRESSES_MAX = 16,
    DR_ADDRESS_MAX = 264, /* longest "host:port" with its zero */
    DR_URL_MAX = 161,     /* longest URL of an API with its zero */
};

/* Cluster ports of the nodes, each "host:port". */
struct dr_addresses {
    uint8_t n;
    char at[DR_ADDRESSES_MAX][DR_ADDRESS_MAX];
};

extern const struct record dr_address_record; /* an address in a list */
/* Append an address. ST_INVALID: not "host:port". ST_TOO_BIG: no more fit. */
NODISCARD enum status dr_addresses_add(struct dr_addresses *addresses, struct bytes address);
/* The URL of this node's API, as frames carry it; empty where it is longer. */
struct bytes dr_url(const char *api_addr);
bool dr_addresses_has(const struct dr_addresses *addresses, const char *address);

#endif
