/* The rights of a request's sender, for the dialect and for handlers of the scheduler. */
#ifndef HOLDFAST_FRONT_SCHEDULER_SCHEDULER_RIGHTS_H
#define HOLDFAST_FRONT_SCHEDULER_SCHEDULER_RIGHTS_H

#include "auth/scheduler/scheduler_policy.h"
#include "router/request/req.h"

/* The part of a row that the scheduler alone needs (route.of_dialect). */
struct scheduler_row {
    const char *permission; /* "namespace:read-job" */
    unsigned caps;          /* the sender needs one of these; 0: any valid token */
    bool collection;        /* the reply is a list: empty, in a namespace that does not exist */
    bool any_namespace;     /* the parameter `namespace` has no meaning */
    bool hides;             /* the refusal does not tell whether the allocation exists */
    bool upgrades;          /* the reply to an upgrade of the connection: errors are close frames */
};

/* The capabilities of the request's token, enum scheduler_cap, in the namespace of the request; 0
 * without a token. As scheduler_policy_caps. */
NODISCARD enum status scheduler_caps(struct req *req, unsigned *ret_caps);
/* The node whose token the request has; "" for other tokens. ST_CORRUPT. */
NODISCARD enum status scheduler_node_of(struct req *req, const char **ret_node);

#endif
