/* The feature level of the cluster: which formats of records, frames and entries may be written.
 *
 * 1. A build understands every level up to RLOG_FEATURE. A new cluster begins at the first level.
 * 2. The active node raises the cluster's level by one entry, once every member has reported lately
 *    that it understands the new level: standbys without a vote too. The level never falls.
 * 3. Nothing of a level is written before the level is applied on the active node. Later leaders
 *    have applied it too, because they apply every committed entry before they serve.
 * 4. A node that understands less than the cluster's level is refused at its link (mesh.h), and
 *    stops at the first entry of a later level (PROTOCOL R6).
 * 5. While an operator holds the level (FEATURE_HOLD), the active node does not raise it, and any
 *    member may go back to the older build.
 *
 * A part (part.h). Raft thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_MEMBERS_FEATURE_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_MEMBERS_FEATURE_H

#include "cluster/membership/members/feature_level.h"
#include "cluster/membership/members/peers.h"
#include "cluster/membership/part.h"

struct feature {
    struct part_host *host;
    struct peers *peers;
    struct rlog_propose propose; /* proposal of the new level, in use while `raising` */
    struct buf txn;              /* the encoded transaction that `propose` proposes */
    bool raising;
    uint64_t tried_ms; /* monotonic: when the last attempt began; 0: never */
};

extern const struct part feature_part;

#endif
