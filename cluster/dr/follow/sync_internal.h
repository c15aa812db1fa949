/* Shared by the two kinds of sync: the staged tree, filled transaction by transaction, and its
 * swap. */
#ifndef HOLDFAST_CLUSTER_DR_FOLLOW_SYNC_INTERNAL_H
#define HOLDFAST_CLUSTER_DR_FOLLOW_SYNC_INTERNAL_H

#include "cluster/dr/diff/dr_diff.h"
#include "cluster/dr/follow/follow_internal.h"
#include "cluster/dr/follow/sync_pipe.h"
#include "raft/txn/rlog_content.h"
#include "state/state_dr.h"

struct sync {
    struct dr_follow *f;
    struct rlog_content *content;
    struct sync_pipe pipe;
    struct rlog_txn_builder txn;
    size_t txn_bytes;
    enum status st; /* first failure of a step */
    uint64_t stage; /* number of the staged tree; 0: none */
    uint64_t role;  /* local version of the record of the role */
    uint64_t target, total, done, bytes, used;
    uint64_t hashed; /* bytes whose keys were hashed ahead */
    uint64_t floor;  /* lower bound of newest versions after the swap; 0: none */
    int64_t time_ms; /* cluster time of the target */
    uint32_t crc;
    uint8_t root[DR_ROOT_BYTES]; /* of the primary's replicated state at the target */
    struct state_dr_source source;
    bool same_keys;       /* of the barrier: there is nothing to adopt */
    bool swapping;        /* every key is staged */
    struct dr_diff *diff; /* a difference sync; else NULL */
};

/* Propose the transaction in y->txn, unless it is empty, and wait until all that were proposed are
 * applied; y->txn is empty afterwards. ST_DENIED: the role changed, or another sync has begun; else
 * as rlog_propose. */
NODISCARD enum status sync_commit(struct sync *y);
/* Make room for one more operation of about `bytes` on the staged tree. False: y->st says why not.
 */
NODISCARD bool sync_op(struct sync *y, size_t bytes);
/* Name the version in the role, and learn the record's version for the steps that follow. */
NODISCARD enum status sync_aim(struct sync *y);
/* Whether the target lies below this cluster's version, which the facts tell then. */
NODISCARD bool sync_leads_back(struct sync *y, uint64_t version);
/* Receive content and stage it. ST_DENIED: refused. ST_CORRUPT, ST_INVALID. */
NODISCARD enum status sync_receive(struct sync *y);
/* Compare the root of the staged tree with the primary's. The caller unpins the tree, which is
 * pinned on ST_OK only. ST_CORRUPT: the roots differ. */
NODISCARD enum status sync_check(struct sync *y, struct store_pin *ret_staged);
/* The last step: the state, the keys and the phase change at once. */
NODISCARD enum status sync_swap(struct sync *y);
/* Release what `y` holds; `st`: how the sync ended. */
void sync_done(struct sync *y, enum status st);

#endif
