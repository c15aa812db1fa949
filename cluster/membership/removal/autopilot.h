/* How the members are watched: settings, and which dead one goes. Decides, does nothing. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_REMOVAL_AUTOPILOT_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_REMOVAL_AUTOPILOT_H

#include "base/buf.h"
#include "raft/replica/rlog.h"

/* Key of the local state. */
#define AUTOPILOT_KEY RLOG_LOCAL "core/autopilot"

struct autopilot {
    bool cleanup_dead_servers;
    int64_t dead_server_last_contact_threshold, last_contact_threshold; /* seconds */
    int64_t server_stabilization_time;                                  /* seconds */
    int64_t max_trailing_logs, min_quorum;
};
extern const struct autopilot autopilot_default;

/* As stored. ST_NOMEM. */
NODISCARD enum status autopilot_encode(const struct autopilot *autopilot, struct buf *out);
/* ST_CORRUPT, also for a later version's. */
NODISCARD enum status autopilot_decode(struct bytes stored, struct autopilot *ret_autopilot);

struct autopilot_server {
    bool voter;
    uint64_t silent_ms; /* since it was last heard */
};
/* The one of `n` that is to be removed now; n: none. Never one whose vote is needed, for a majority
 * of those that are alive or for min_quorum. */
unsigned autopilot_dead(const struct autopilot *autopilot, const struct autopilot_server *servers,
                        unsigned n);

#endif
