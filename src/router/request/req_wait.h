/* Work of a module's own threads between the handler and the step outside (route.h, `waits`). */
#ifndef HOLDFAST_ROUTER_REQUEST_REQ_WAIT_H
#define HOLDFAST_ROUTER_REQUEST_REQ_WAIT_H

#include "base/env.h"

/* A request that waits. */
struct req_wait {
    struct env *env;
    struct env_task task;
};
/* The work is over: call once, on any thread. The caller touches the request no more. */
static inline void req_wait_done(struct req_wait *wait)
{
    env_post(wait->env, &wait->task);
}

#endif
