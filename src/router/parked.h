/* Parked requests, as a transport and the program around the router see them. A request parks when
 * its client waits for a newer result than there is (request/block.h). It holds no arena and no
 * transaction. */
#ifndef HOLDFAST_ROUTER_PARKED_H
#define HOLDFAST_ROUTER_PARKED_H

#include "base/macros.h"

#include <stdint.h>

struct router_worker;

/* The transport sets the members in `park`. */
struct router_parked {
    /* Run the request again, from its head on: make a router_request that has this in `resumed`,
     * and hand it in, or else drop it. */
    void (*resume)(struct router_parked *parked);
    void *transport, *request;
};
/* The client of a parked request has gone, or the request could not be run again. On the thread of
 * its worker; last touch of `parked`. */
void router_parked_drop(struct router_parked *parked);

/* A version of the state was published: parked requests may have a newer result. Any thread, after
 * the worker has its state and before it is freed. */
void router_worker_published(struct router_worker *worker);
/* Whether the worker asks the replica for nothing. On its thread, after router_worker_leave. */
bool router_worker_idle(const struct router_worker *worker);
/* The worker is about to drain: reply to all parked requests, and park no more. On its thread. */
void router_worker_leave(struct router_worker *worker);
/* Requests that wait for a newer result. */
struct router_parked_counters {
    uint64_t now;               /* parked requests */
    uint64_t parked, refused;   /* requests that were parked; refused, because too many were */
    uint64_t changed, timeouts; /* ends: by a change; by their time */
    uint64_t gone, ended;       /* ends: the client has gone; any other reason */
    uint64_t again;             /* woken, and parked again without a reply */
    uint64_t walks, visited;    /* walks over the watched keys; nodes that they visited */
};

#endif
