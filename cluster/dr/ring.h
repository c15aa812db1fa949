/* How close a secondary is to falling out of the WAL in memory (raft/txn/rlog_wal.h). A secondary
 * whose version the ring no longer has must sync anew. */
#ifndef HOLDFAST_CLUSTER_DR_RING_H
#define HOLDFAST_CLUSTER_DR_RING_H

#include "cluster/dr/site.h"
#include "raft/txn/rlog_wal.h"

enum { DR_RING_NEAR_PERCENT = 75 };

/* How much of the ring, in percent of its bound, lies behind `position`: the records that the
 * secondary lacks, if all records are equally long. 100: the ring has lost records that it lacks.
 */
unsigned dr_ring_used(const struct rlog_wal_stats *ring, uint64_t position);

/* Secondaries that were warned of. Zero-initialise. */
struct dr_ring_watch {
    char ids[DR_PEERS_MAX][DR_ID_MAX];
    unsigned n;
};
/* Whether a secondary has just come near the end of the ring: once until it has caught up by half.
 */
NODISCARD bool dr_ring_judge(struct dr_ring_watch *watch, const struct rlog_wal_stats *ring,
                             const struct dr_peer *peer);
/* Log one warning for each secondary that comes near the end of the ring, and again after it had
 * caught up. Any thread with a watch of its own, while the replica runs. */
void dr_ring_warn(struct dr *dr, struct dr_ring_watch *watch);

#endif
