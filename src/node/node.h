/* This node: its raft thread, its place in the cluster, and what follows from it.
 *
 * Owns the raft thread (replica and cluster port), the barrier's unsealing, the role, and the work
 * that belongs to a role. It is "active" when it leads, is unsealed and has caught up (PROTOCOL
 * R15, R17). Workers read the published status from any thread and never wait for it. */
#ifndef HOLDFAST_NODE_NODE_H
#define HOLDFAST_NODE_NODE_H

#include "base/env.h"
#include "base/status.h"

struct node;

/* A copy of the newest published facts. */
struct node_status {
    char name[64], cluster_name[64];
    char cluster_id[40];      /* UUID text */
    char leader_name[64];     /* "" when unknown */
    char leader_address[160]; /* the active node's client address, a URL; "" when unknown */
    char leader_cluster[160]; /* the active node's cluster port, host:port; "" when unknown */
    bool initialized, sealed;
    bool active;       /* this node runs write handlers */
    bool perf_standby; /* a standby that answers reads itself */
    bool has_leader;
    uint64_t term, committed_index, applied_index;
    uint64_t version;        /* of the replicated state */
    int64_t cluster_time_ms; /* of the last applied entry; 0 before the first */
    int64_t active_since_ms; /* wall clock of this node, 0 when not active */
    uint64_t root_version;   /* the last computed Merkle root: its version … */
    uint8_t root[32];        /* … and value; all zero before the first */
};

/* Any thread. */
void node_status_get(struct node *node, struct node_status *ret_status);

#endif
