/* Reading transactions and entries in place; the inside of rlog_txn.h. All pointers borrow from the
 * input. Layout: raft/FORMAT.md, "Entry". */
#ifndef HOLDFAST_RAFT_RLOG_TXN_READ_H
#define HOLDFAST_RAFT_RLOG_TXN_READ_H

#include "raft/rlog_txn.h"

enum {
    RLOG_TXN_FORMAT = 1,
    RLOG_ENTRY_FORMAT = 1,
    RLOG_ENTRY_HEADER_BYTES = 21,
    RLOG_TXN_HAS_ID = 1 << 0,
    RLOG_ENTRY_LZ4 = 1 << 0,
};

enum rlog_need_kind { RLOG_NEED_KEY = 1, RLOG_NEED_PREFIX = 2, RLOG_NEED_STAGE = 3 };

struct rlog_need {
    enum rlog_need_kind kind;
    struct bytes key;
    uint64_t version;
};

enum rlog_op_kind {
    RLOG_OP_PUT = 1,
    RLOG_OP_DELETE = 2,
    RLOG_OP_DELETE_PREFIX = 3,
    RLOG_OP_STAGE_BEGIN = 4,
    RLOG_OP_STAGE_PUT = 5,
    RLOG_OP_STAGE_SWAP = 6,
    RLOG_OP_STAGE_DROP = 7,
};

struct rlog_op {
    enum rlog_op_kind kind;
    struct bytes key, value;
    uint64_t created, modified;
};

struct rlog_txn_view {
    bool has_id;
    struct rlog_request_id id;
    struct bytes response;
    struct bytes needs, ops; /* sequences for rlog_need_next, rlog_op_next */
};

/* The frame of a transaction; its sequences are checked as they are walked.
 * ST_INVALID, ST_TOO_BIG, ST_UNSUPPORTED. */
NODISCARD enum status rlog_txn_open(struct bytes txn, struct rlog_txn_view *ret_view);

/* The next element, and *seq moved behind it. ST_NOT_FOUND at the end; ST_INVALID. */
NODISCARD enum status rlog_need_next(struct bytes *seq, struct rlog_need *ret_need);
NODISCARD enum status rlog_op_next(struct bytes *seq, struct rlog_op *ret_op);

struct rlog_entry_view {
    struct rlog_entry_header header;
    struct bytes txns; /* sequence of blocks, for rlog_entry_next */
};

/* Decompresses into `room` when needed. ST_INVALID, ST_UNSUPPORTED, ST_NOMEM. */
NODISCARD enum status rlog_entry_open(struct bytes entry, struct buf *room,
                                      struct rlog_entry_view *ret_view);
/* The next transaction. ST_NOT_FOUND at the end; ST_INVALID. */
NODISCARD enum status rlog_entry_next(struct bytes *seq, struct bytes *ret_txn);

static inline bool rlog_key_is_local(struct bytes key)
{
    return bytes_has_prefix(key, BYTES(RLOG_LOCAL));
}

#endif
