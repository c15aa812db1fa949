/* Reports of the other members on themselves. A part (part.h). Raft thread, but for peers_get. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_MEMBERS_PEERS_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_MEMBERS_PEERS_H

#include "cluster/membership/part.h"

#include <pthread.h>

/* The last report that a node sent about itself, and its time. */
struct peer_report {
    uint64_t id;     /* raft id of the node; 0: the slot is free */
    bool unsealed;   /* and able to record requests */
    uint64_t ms;     /* monotonic: when the report came */
    int64_t wall_ms; /* when the report came, by the wall clock of this node */
    char api_addr[160], version[32];
    uint16_t feature; /* feature level that the node understands; RLOG_FEATURE_FIRST if unknown */
    uint64_t feature_ms;                /* monotonic: when the node reported `feature`; 0: never */
    uint8_t seal_mark[SEAL_MARK_BYTES]; /* of the seal key that the node is configured for */
    uint64_t seal_ms; /* monotonic: when the node reported `seal_mark`; 0: never */
};

struct peers {
    struct part_host *host;
    pthread_mutex_t lock;
    struct peer_report heard[RLOG_MEMBERS_MAX]; /* written under the lock by the raft thread */
    uint64_t reported_leader;                   /* raft id that our last report went to */
    uint64_t reported_ms;                       /* monotonic: when our last report was sent */
    uint8_t reported_unsealed;
};

extern const struct part peers_part;
/* Release what `start` made. No other thread may use `p` any more. */
void peers_done(struct peers *p);

/* The raft id of another voter whose recent report says that it can serve; 0: none. */
uint64_t peers_target(struct peers *p);
/* Monotonic time of the last report of a member; 0: none came. */
uint64_t peers_heard_ms(const struct peers *p, uint64_t id);
/* The feature level that a member reported lately; RLOG_FEATURE_FIRST where it reported none. */
uint16_t peers_feature(struct peers *p, uint64_t id);
/* Whether a linked member reported lately that it is configured for the seal key of this mark,
 * which has SEAL_MARK_BYTES. */
bool peers_has_seal(struct peers *p, uint64_t id, const uint8_t *mark);
/* The last report of a member. False: there is none. Any thread. */
bool peers_get(struct peers *p, uint64_t id, struct peer_report *ret_report);

#endif
