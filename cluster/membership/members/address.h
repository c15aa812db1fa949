/* Addresses of the members' cluster ports, in the members' records. A part (part.h). Raft thread.
 */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_MEMBERS_ADDRESS_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_MEMBERS_ADDRESS_H

#include "cluster/membership/part.h"

struct address {
    struct part_host *host;
    struct rlog_admin change; /* change of a member's record, in use while `storing` */
    bool storing;
    uint64_t said_ms; /* monotonic: when this node last sent its address to the leader */
};

extern const struct part address_part;

#endif
