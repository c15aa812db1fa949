/* Removal of dead members, as the settings of autopilot say. A part (part.h). Raft thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_REMOVAL_CLEANUP_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_REMOVAL_CLEANUP_H

#include "cluster/membership/members/admin.h"
#include "cluster/membership/removal/health.h"

struct cleanup {
    struct part_host *host;
    struct admin *admin;
    struct health *health;
    struct peers *peers;
    uint64_t term; /* term in which this node is active; 0: not active */
    /* monotonic: when the node became active; last look at the members */
    uint64_t since_ms, looked_ms;
};

extern const struct part cleanup_part;

#endif
