/* The way in for every request of this program, whatever transport it came by: what the front
 * serves or decides itself, then the router. */
#ifndef HOLDFAST_FRONT_FRONT_H
#define HOLDFAST_FRONT_FRONT_H

#include "router/router.h"

/* Serve a probe, judge the site that a browser's request comes from, and hand the request to the
 * router. Requests of other nodes were judged there. The request ends with `respond`, once. On the
 * thread of the worker. */
void front_handle(struct router_worker *worker, struct router_request *request);

#endif
