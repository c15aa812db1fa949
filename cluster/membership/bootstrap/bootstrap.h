/* How this node gets its replica: bootstrap, joining, replacing a lost or damaged disk. A part
 * (part.h). Raft thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_BOOTSTRAP_BOOTSTRAP_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_BOOTSTRAP_BOOTSTRAP_H

#include "cluster/membership/bootstrap/step_file.h"
#include "cluster/membership/part.h"

struct bootstrap {
    struct part_host *host;
    struct initial_members initial;
    bool decided;           /* how to start: the phase follows when the cluster port has closed */
    uint64_t complained_ms; /* monotonic: initial members that do not answer were last named */
    uint64_t folder;        /* number of the replica's folder (step_file.h) */
    bool non_voter;  /* the join request asks for no vote; false once this node is a member */
    bool superseded; /* removed, because the cluster was recovered without this node's data */
};

extern const struct part bootstrap_part;

/* Read the certificate, which exists, and start the replica, or ask the other initial members
 * first. Every status with a reason. */
NODISCARD enum status bootstrap_open(struct bootstrap *b, struct reason *reason);
/* This node became a member: record the step on disk. ST_IO, ST_NO_SPACE, ST_NOMEM. */
NODISCARD enum status bootstrap_joined(struct bootstrap *b);
/* This node was removed: record the step on disk if the node was a member; forget every key. */
void bootstrap_removed(struct bootstrap *b);
/* The same, because the cluster was recovered without this node, as the member `from` says. */
void bootstrap_superseded(struct bootstrap *b, const char *from);

/* The identity of the replica, as host->id and the certificate say. */
void bootstrap_identity(const struct part_host *host, struct rlog_identity *ret_identity);
/* Fill in the initial members of the configuration, as voters with raft ids from 1 on. Returns
 * their number. */
unsigned bootstrap_members(const struct member_options *o,
                           struct rlog_member ret_members[INITIAL_MEMBERS_MAX]);

#endif
