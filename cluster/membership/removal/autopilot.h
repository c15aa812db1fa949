/* Settings of autopilot, the health of a member, and the choice of a dead member to remove. Decides
 * only; health.c and cleanup.c act. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_REMOVAL_AUTOPILOT_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_REMOVAL_AUTOPILOT_H

#include "base/buf.h"
#include "raft/replica/rlog.h"

/* Key of the settings in the local state. */
#define AUTOPILOT_KEY RLOG_LOCAL "core/autopilot"

struct autopilot {
    bool cleanup_dead_servers;
    int64_t dead_server_last_contact_threshold, last_contact_threshold; /* durations in seconds */
    int64_t server_stabilization_time;                                  /* duration in seconds */
    int64_t max_trailing_logs, min_quorum;
};
extern const struct autopilot autopilot_default;

/* Append the stored form of the settings. ST_NOMEM. */
NODISCARD enum status autopilot_encode(const struct autopilot *autopilot, struct buf *out);
/* Decode the stored form. ST_CORRUPT: damaged, or of a later version. */
NODISCARD enum status autopilot_decode(struct bytes stored, struct autopilot *ret_autopilot);

struct autopilot_contact {
    bool heard;         /* the member has reported to this leader */
    uint64_t silent_ms; /* time since the last report */
    uint64_t behind;    /* entries of the log that the member lacks */
};
bool autopilot_silent(const struct autopilot *autopilot, const struct autopilot_contact *contact);
bool autopilot_healthy(const struct autopilot *autopilot, const struct autopilot_contact *contact);

struct autopilot_server {
    bool voter;
    uint64_t silent_ms; /* time since the last message of the server */
};
/* The index of the server to remove now; n: none. Never a server whose vote is needed for a
 * majority of the live voters or for min_quorum. */
unsigned autopilot_dead(const struct autopilot *autopilot, const struct autopilot_server *servers,
                        unsigned n);

#endif
