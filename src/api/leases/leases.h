/* Leases: lookup, renewal, revocation, counts. */
#ifndef HOLDFAST_API_LEASES_LEASES_H
#define HOLDFAST_API_LEASES_LEASES_H

#include "router/req_node.h"

extern const struct module leases_module;

extern const struct route_table leases_count_table;
extern const struct route_table leases_routes_table;

#endif
