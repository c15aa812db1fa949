/* A node joins as a member. A part (part.h). Raft thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_JOIN_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_JOIN_H

#include "cluster/membership/bootstrap/bootstrap.h"
#include "cluster/membership/removal/health.h"

struct join {
    struct part_host *host;
    struct bootstrap *bootstrap;
    struct health *health;
    uint64_t asked_ms;     /* monotonic: when this node last asked to be added */
    struct rlog_admin add; /* change that adds another node, in use while `adding` */
    bool adding;
};

extern const struct part join_part;

#endif
