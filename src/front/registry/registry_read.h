/* Reads of the registry: how new the state is, waits for a newer result, and what a reply says of
 * both. Inside src/front/registry. */
#ifndef HOLDFAST_FRONT_REGISTRY_REGISTRY_READ_H
#define HOLDFAST_FRONT_REGISTRY_REGISTRY_READ_H

#include "router/router.h"

/* The first value of a parameter of the query; empty: absent. */
struct bytes registry_parameter(const struct req *req, const char *name);
/* Set req->mode, req->max_stale_ms and req->block of a GET. ST_INVALID with the request's error. */
NODISCARD enum status registry_read_query(struct req *req);
/* Add the headers of a read; without memory some are missing. */
void registry_read_tell(const struct req *req, struct router_reply *reply);

#endif
