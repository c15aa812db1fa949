/* Removal of dead members, as the settings of autopilot say. A part (part.h). Raft thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_REMOVAL_CLEANUP_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_REMOVAL_CLEANUP_H

#include "cluster/membership/local.h"
#include "cluster/membership/members/admin.h"

struct cleanup {
    struct part_host *host;
    struct admin *admin;
    struct local *local;
    struct peers *peers;
    uint64_t term;                /* active in; 0: not active */
    uint64_t since_ms, looked_ms; /* monotonic: active since; last look at the members */
};

extern const struct part cleanup_part;

#endif
