/* The status of this node, as the raft thread publishes it for every other thread. */
#ifndef HOLDFAST_NODE_BOARD_H
#define HOLDFAST_NODE_BOARD_H

#include "cluster/membership/part.h"

#include <pthread.h>

/* A copy of the newest published facts. */
struct node_status {
    char name[64], cluster_name[64];
    char cluster_id[40]; /* UUID text */
    uint8_t cluster[MESH_CLUSTER_ID_BYTES];
    uint8_t ca_sha256[32];    /* of the cluster's authority, as ca_file has it */
    char leader_name[64];     /* "" when unknown */
    char leader_address[160]; /* the active node's client address, a URL; "" when unknown */
    char leader_cluster[160]; /* the active node's cluster port, host:port; "" when unknown */
    bool initialized, sealed;
    bool active;                /* this node runs write handlers */
    bool perf_standby;          /* a standby that serves reads itself */
    bool removed, waits;        /* removed from the cluster; waits for a join request */
    bool has_leader, no_quorum; /* no_quorum: as node_ops.no_quorum */
    uint64_t term, committed_index, applied_index;
    uint64_t version;        /* of the replicated state */
    int64_t cluster_time_ms; /* of the last applied entry; 0 before the first */
    int64_t active_since_ms; /* wall clock of this node, 0 when not active */
    uint64_t root_version;   /* the last computed Merkle root: its version … */
    uint8_t root[32];        /* … and value; all zero before the first */
    struct rlog_status raft;
};

/* The part of node_status that every request asks for. */
struct node_brief {
    bool initialized, sealed, active, perf_standby, removed, waits, no_quorum;
    bool leads; /* as a candidate for active: `leader_name` is its own */
};
static inline struct node_brief node_brief_of(const struct node_status *s)
{
    return (struct node_brief){
        .initialized = s->initialized,
        .sealed = s->sealed,
        .active = s->active,
        .perf_standby = s->perf_standby,
        .removed = s->removed,
        .waits = s->waits,
        .no_quorum = s->no_quorum,
        .leads = s->leader_name[0] != '\0' && strcmp(s->leader_name, s->name) == 0,
    };
}

struct board {
    pthread_mutex_t lock;
    bool open;                       /* the lock is initialised */
    struct node_status status;       /* under the lock; the raft thread reads without */
    _Atomic unsigned brief;          /* of `status` */
    int64_t clock_ms, clock_mono_ms; /* cluster time at a moment of the monotonic clock */
};

/* A sealed node outside of any cluster. Both names are shorter than 64 bytes. ST_NOMEM. */
NODISCARD enum status board_init(struct board *board, const char *name, const char *cluster_name);
/* No thread uses the board any more. Also after a board_init that failed. */
void board_done(struct board *board);

/* Take the lock to write, and drop it: then the change is published. Any thread. */
struct node_status *board_begin(struct board *board);
void board_end(struct board *board);
/* Publish that an entry was applied: for each entry, so without the brief, which does not tell it.
 */
void board_applied(struct board *board, uint64_t index, uint64_t version);
/* Publish the facts of the host. Raft thread. */
void board_show(struct board *board, const struct part_host *host);

/* A copy of the status. Any thread. */
void board_get(struct board *board, struct node_status *ret_status);
/* The brief of one moment, without a lock. Any thread. */
struct node_brief board_brief(const struct board *board);
/* Cluster time as well as this node knows it: the leader's own, elsewhere carried on from what was
 * last heard; 0 before that. Any thread. */
int64_t board_time_ms(struct board *board);

#endif
