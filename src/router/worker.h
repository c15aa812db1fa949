/* The part of the router that belongs to one thread. Inside src/router. */
#ifndef HOLDFAST_ROUTER_WORKER_H
#define HOLDFAST_ROUTER_WORKER_H

#include "router/router.h"

#include <stdatomic.h>

struct router_worker {
    const struct router *router;
    struct env *env;
    struct state *state;
    struct barrier_seat *seat;
    struct acl_cache *acls;
    struct audit audit;
    struct token_cache *tokens;
    unsigned running, inflight_max;
    atomic_ullong calls, forwards, reruns, refused;
};

#endif
