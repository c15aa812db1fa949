/* The status of this node, as the raft thread publishes it for every other thread. */
#ifndef HOLDFAST_NODE_BOARD_H
#define HOLDFAST_NODE_BOARD_H

#include "cluster/dr/role.h"
#include "cluster/membership/part.h"

#include <pthread.h>

/* A copy of the newest published facts. */
struct node_status {
    char name[64], cluster_name[64];
    char cluster_id[40]; /* id of the cluster, as UUID text */
    uint8_t cluster[MESH_CLUSTER_ID_BYTES];
    uint8_t ca_sha256[32];    /* SHA-256 of the authority's certificate, as ca_file has it */
    char leader_name[64];     /* name of the leader; "" when unknown */
    char leader_address[160]; /* the active node's client address, a URL; "" when unknown */
    char leader_cluster[160]; /* the active node's cluster port, host:port; "" when unknown */
    bool initialized, sealed;
    bool active;                /* this node runs write handlers */
    bool perf_standby;          /* a standby that serves reads itself */
    bool removed, waits;        /* removed from the cluster; waits for a join request */
    bool has_leader, no_quorum; /* no_quorum: the result of node_ops.no_quorum */
    uint64_t term, committed_index, applied_index;
    uint64_t version;        /* version of the replicated state */
    int64_t cluster_time_ms; /* cluster time of the last applied entry; 0 before the first entry */
    int64_t active_since_ms; /* when this node became active, by its wall clock; 0: not active */
    struct dr_role dr;       /* role of the cluster in disaster recovery */
    bool dr_sync;            /* a DR primary whose replies to writes wait for a secondary */
    uint64_t root_version;   /* version of the last computed Merkle root */
    uint8_t root[32];        /* last computed Merkle root; all zero before the first */
    struct rlog_status raft;
};

/* The part of node_status that every request needs. */
struct node_brief {
    bool initialized, sealed, active, perf_standby, removed, waits, no_quorum;
    bool secondary;   /* this cluster is a DR secondary */
    bool superseded;  /* this cluster is a DR primary that refuses writes */
    bool dr_sync;     /* replies to writes wait for a secondary */
    bool leads;       /* this node leads: `leader_name` is its own name */
    uint16_t feature; /* feature level of the cluster; 0 before this node knows it */
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
        .feature = s->raft.feature,
        .secondary = s->dr.mode == DR_MODE_SECONDARY,
        .superseded = s->dr.phase == DR_PHASE_SUPERSEDED,
        .dr_sync = s->dr_sync,
        .leads = s->leader_name[0] != '\0' && strcmp(s->leader_name, s->name) == 0,
    };
}

struct board {
    pthread_mutex_t lock;
    bool open;                       /* whether the lock is initialised */
    struct node_status status;       /* guarded by the lock; the raft thread may read it without */
    _Atomic unsigned brief;          /* node_brief of `status`, as bits */
    int64_t clock_ms, clock_mono_ms; /* a cluster time, and the monotonic clock at that time */
};

/* Initialise the status of a sealed node without a cluster. Both names are shorter than 64 bytes.
 * ST_NOMEM. */
NODISCARD enum status board_init(struct board *board, const char *name, const char *cluster_name);
/* Release the board; no thread uses it any more. Allowed after a board_init that failed. */
void board_done(struct board *board);

/* board_begin takes the lock to write the status; board_end drops it and publishes the change. Any
 * thread. */
struct node_status *board_begin(struct board *board);
void board_end(struct board *board);
/* Publish that an entry was applied. Called for each entry, so the brief, which has no index, is
 * not computed. */
void board_applied(struct board *board, uint64_t index, uint64_t version);
/* Publish the facts of the host. Raft thread. */
void board_show(struct board *board, const struct part_host *host);

/* Copy the status. Any thread. */
void board_get(struct board *board, struct node_status *ret_status);
/* The brief without a lock; its facts are of one moment. Any thread. */
struct node_brief board_brief(const struct board *board);
/* Cluster time: on the leader its own; elsewhere the last time that was heard plus the time since;
 * 0 before any was heard. Any thread. */
int64_t board_time_ms(struct board *board);

#endif
