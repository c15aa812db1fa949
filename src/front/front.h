/* The way in for every request, over any transport: probes and cross-origin rules, then the
 * router. */
#ifndef HOLDFAST_FRONT_FRONT_H
#define HOLDFAST_FRONT_FRONT_H

#include "router/router.h"

/* Serve a probe, check the origin of a browser's request, and hand the request to the router. The
 * node that forwards a request has checked it already. Calls request->respond once. On the thread
 * of the worker. */
void front_handle(struct router_worker *worker, struct router_request *request);

#endif
