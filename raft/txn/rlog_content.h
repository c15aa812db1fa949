/* Reading the content of a snapshot, strictly, in pieces that may be cut anywhere. Layout:
 * raft/FORMAT.md, "Snapshot content". */
#ifndef HOLDFAST_RAFT_TXN_RLOG_CONTENT_H
#define HOLDFAST_RAFT_TXN_RLOG_CONTENT_H

#include "raft/txn/rlog_txn.h"

struct rlog_content;

/* Callbacks for each part, in order. Everything is borrowed during the call. */
struct rlog_content_visit {
    /* called without a store; or NULL */
    void (*header)(void *ctx, const struct rlog_machine *counters);
    void (*key)(void *ctx, const struct store_item *item);
    /* called as store_raise_newest is */
    void (*newest)(void *ctx, struct bytes at, uint64_t version);
    void *ctx;
};

NODISCARD enum status rlog_content_begin(const struct rlog_content_visit *visit,
                                         struct rlog_content **ret_content); /* ST_NOMEM. */
/* ST_CORRUPT; ST_UNSUPPORTED: of a later format; ST_NOMEM. A failure stays. */
NODISCARD enum status rlog_content_piece(struct rlog_content *c, struct bytes content);
/* The failure, or ST_CORRUPT when the content was cut short. Frees `c`. */
NODISCARD enum status rlog_content_end(struct rlog_content *c);

#endif
