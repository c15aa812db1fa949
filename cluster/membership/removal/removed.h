/* Removed nodes: whether another node was removed, and how this node learns of its own removal. A
 * part (part.h). Raft thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_REMOVAL_REMOVED_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_REMOVAL_REMOVED_H

#include "cluster/membership/bootstrap/bootstrap.h"

enum { REMOVED_PEERS_MAX = 16 };
static_assert((int)REMOVED_PEERS_MAX >= (int)RLOG_MEMBERS_MAX &&
                  (int)REMOVED_PEERS_MAX >= (int)INITIAL_MEMBERS_MAX,
              "peers are members or initial members");

struct removed {
    struct part_host *host;
    struct bootstrap *bootstrap;
    /* names of peers that say this node is no member */
    char refused_by[REMOVED_PEERS_MAX][MESH_NAME_MAX];
    unsigned n_refused_by;
    /* monotonic: when the leader was lost (0: there is one); when this node last asked */
    uint64_t alone_ms, alone_asked_ms;
};

extern const struct part removed_part;

/* Whether another node was removed; `unsure`: the result where the state cannot be read now. */
bool removed_is(const struct part_host *host, const char *name, bool unsure);
/* Whether to refuse a link of the node of this name and raft id as that of a removed node. Not on a
 * node that may lag: what it takes for a removed node may be the leader that was let in again. */
bool removed_refuses(const struct part_host *host, const char *name, uint64_t id);
/* Note that the peer `from` says this node is no member. */
void removed_hear(struct removed *r, const char *from);
/* Whether a raft id belongs to the cluster from before a recovery. */
bool removed_is_superseded(const struct part_host *host, uint64_t id);
/* The member `from` refuses this node, because the cluster was recovered without its data. */
void removed_hear_superseded(struct removed *r, const char *from);

#endif
