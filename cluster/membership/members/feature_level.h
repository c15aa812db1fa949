/* The decision which feature level a cluster may have. feature.h has the rules. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_MEMBERS_FEATURE_LEVEL_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_MEMBERS_FEATURE_LEVEL_H

#include "raft/replica/rlog.h"

/* Key of the local state: while there is a record, the level is not raised. Its value says nothing.
 * Builds of the first level ignore the record. */
#define FEATURE_HOLD_DIR RLOG_LOCAL "core/feature/"
#define FEATURE_HOLD_NAME "hold"
#define FEATURE_HOLD FEATURE_HOLD_DIR FEATURE_HOLD_NAME

/* The highest level that every member understands. `of` says what a member that is not `raft->id`
 * understands; the first level while that is unknown. */
uint16_t feature_common(const struct rlog_status *raft, uint16_t own,
                        uint16_t (*of)(void *ctx, const struct rlog_member *member), void *ctx);

#endif
