/* Reading transactions and entries in place; the inside of rlog_txn.h. Pointers borrow from the
 * input, those to keys of an entry from its rlog_prior too. Layout: raft/FORMAT.md, "Entry". */
#ifndef HOLDFAST_RAFT_TXN_RLOG_TXN_READ_H
#define HOLDFAST_RAFT_TXN_RLOG_TXN_READ_H

#include "raft/txn/rlog_txn.h"

enum {
    RLOG_TXN_FORMAT = 1,
    RLOG_ENTRY_FORMAT = 2,
    RLOG_ENTRY_HEADER_BYTES = 16,
    RLOG_TXN_HAS_ID = 1 << 0,
    RLOG_PLACES_MAX = 16,    /* most preconditions of a transaction to which the next may refer */
    RLOG_LIKE_KEY_MAX = 256, /* longest key that is encoded by what it shares with another */
};

enum rlog_need_kind { RLOG_NEED_KEY = 1, RLOG_NEED_PREFIX = 2, RLOG_NEED_STAGE = 3 };

/* Kinds that occur only inside an entry: they refer to earlier preconditions instead of repeating
 * them. */
enum { RLOG_NEED_SAME = 4, RLOG_NEED_LIKE = 5, RLOG_OP_PUT_AT = 8, RLOG_OP_PUT_RETAIN_AT = 10 };

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
    RLOG_OP_PUT_RETAIN = 9,
    RLOG_OP_WAL = 11,
    RLOG_OP_STAGE_NEWEST = 12,
    RLOG_OP_STAGE_SWAP_AT = 13,
    RLOG_OP_RAISE = 14,
    RLOG_OP_STAGE_CLONE = 15,
    RLOG_OP_STAGE_DELETE = 16,
    RLOG_OP_LAST = RLOG_OP_STAGE_DELETE,
};

struct rlog_op {
    enum rlog_op_kind kind;
    struct bytes key, value; /* RLOG_OP_WAL: `value` is the run, which rlog_wal_check checks */
    uint64_t created;        /* RLOG_OP_STAGE_SWAP_AT: cluster time, ms */
    uint64_t modified;       /* also the version of RLOG_OP_STAGE_NEWEST and the kinds after it */
    uint64_t floor;             /* of RLOG_OP_STAGE_SWAP_AT; 0: none */
    struct store_retain retain; /* arguments of RLOG_OP_PUT_RETAIN */
};

/* At least as many bytes as rlog_op_encode appends. */
static inline size_t rlog_op_bytes_max(const struct rlog_op *op)
{
    enum { FRAME = 64 }; /* kind, lengths, versions and a range, each varint as long as can be */
    return FRAME + op->key.len + op->value.len;
}
/* Append a valid operation to a sequence. A failure shows in buf_status. */
void rlog_op_encode(const struct rlog_op *op, struct buf *out);

/* Whether a precondition or an operation is within its bounds. */
bool rlog_need_valid(const struct rlog_need *need);
bool rlog_op_valid(const struct rlog_op *op);
/* Whether the encoding of an operation has a key, a version, and a value. */
bool rlog_op_has_key(enum rlog_op_kind kind);
bool rlog_op_has_version(enum rlog_op_kind kind);
bool rlog_op_has_value(enum rlog_op_kind kind);
/* The strict check of an operation that was read: of the run that it carries. ST_INVALID,
 * ST_TOO_BIG. */
NODISCARD enum status rlog_op_check(const struct rlog_op *op);
bool rlog_id_is_zero(const struct rlog_request_id *id); /* no request has this id */

struct rlog_txn_view {
    bool has_id;
    struct rlog_request_id id;
    struct bytes response;
    struct bytes needs, ops; /* sequences for rlog_need_next, rlog_op_next */
};

/* Open the frame of a transaction. Its sequences are checked later, while they are walked.
 * ST_INVALID, ST_TOO_BIG, ST_UNSUPPORTED. */
NODISCARD enum status rlog_txn_open(struct bytes txn, struct rlog_txn_view *ret_view);

/* Read the next element and move *seq behind it. ST_NOT_FOUND at the end; ST_INVALID. */
NODISCARD enum status rlog_need_next(struct bytes *seq, struct rlog_need *ret_need);
NODISCARD enum status rlog_op_next(struct bytes *seq, struct rlog_op *ret_op);

struct rlog_entry_view {
    struct rlog_entry_header header;
    struct bytes txns; /* sequence of blocks, for rlog_entry_next */
};

/* Open an entry. ST_INVALID, ST_UNSUPPORTED, ST_TOO_BIG. */
NODISCARD enum status rlog_entry_open(struct bytes entry, struct rlog_entry_view *ret_view);
/* The next transaction. ST_NOT_FOUND at the end; ST_INVALID. */
NODISCARD enum status rlog_entry_next(struct bytes *seq, struct bytes *ret_txn);

/* The first preconditions of a transaction of an entry, by place. They stay until the preconditions
 * of the next transaction are read. Begins with `n` 0. */
struct rlog_prior {
    unsigned n;
    struct rlog_need needs[RLOG_PLACES_MAX];
    /* memory for keys that are put together from two parts */
    uint8_t keys[RLOG_PLACES_MAX][RLOG_LIKE_KEY_MAX];
};

/* One precondition, or a run of preconditions that the previous transaction has too. */
struct rlog_need_run {
    unsigned place, n;
    bool same;             /* the run repeats preconditions of the prior transaction */
    struct rlog_need need; /* if `same` is not set: the precondition, and n is 1 */
};

/* Read the next precondition or run of a transaction of an entry; *place begins with 0. Read all of
 * them before the operations and before the next transaction. Statuses as rlog_need_next. */
NODISCARD enum status rlog_entry_need_next(struct rlog_prior *prior, struct bytes *seq,
                                           unsigned *place, struct rlog_need_run *ret_run);
/* The next operation, as rlog_op_next. */
NODISCARD enum status rlog_entry_op_next(const struct rlog_prior *prior, struct bytes *seq,
                                         struct rlog_op *ret_op);

static inline bool rlog_key_is_local(struct bytes key)
{
    return bytes_has_prefix(key, BYTES(RLOG_LOCAL));
}

#endif
