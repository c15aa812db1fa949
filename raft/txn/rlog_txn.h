/* The content of a COMMAND entry, cluster time and transactions, and how the entry is applied.
 *
 * Wire form, versioned: raft/FORMAT.md. Encoded on worker threads, applied on the raft thread of
 * every node in the same way: nothing random and no clock is read at apply (PROTOCOL R6), and apply
 * cannot fail. */
#ifndef HOLDFAST_RAFT_TXN_RLOG_TXN_H
#define HOLDFAST_RAFT_TXN_RLOG_TXN_H

#include "base/buf.h"
#include "store/store.h"

enum {
    RLOG_TXN_MAX = 4 * 1024 * 1024,   /* most bytes of one encoded transaction */
    RLOG_ENTRY_MAX = 8 * 1024 * 1024, /* most bytes of one entry */
    RLOG_RESPONSE_MAX = 64 * 1024,    /* most bytes of a sealed reply kept for exactly-once */
    /* number of versions for which request ids are remembered */
    RLOG_ID_WINDOW = 65536,
    /* most bytes of remembered replies; above, the window shrinks */
    RLOG_ID_BYTES_MAX = 64 * 1024 * 1024,
    /* bytes beyond RLOG_TXN_MAX of a transaction that carries a run of the WAL: a record contains
     * the operations of a whole transaction, and has a header of its own */
    RLOG_TXN_WAL_MORE = 4096,
    RLOG_WAL_HEADER_BYTES = 1 + 8 + 8 + 4, /* of a record of the WAL (rlog_wal.h) */
    /* most bytes of a record, and of a run that a transaction carries */
    RLOG_WAL_RECORD_MAX = RLOG_WAL_HEADER_BYTES + RLOG_TXN_MAX,
    RLOG_FEATURE_FIRST = 1, /* feature level of a new cluster */
    RLOG_FEATURE_DR = 4,    /* feature level of what a cluster that follows another applies */
    RLOG_FEATURE = 6,       /* highest feature level this program understands */
};
/* The highest version that an operation can name. Versions can still grow then. */
#define RLOG_VERSION_MAX (UINT64_C(1) << 62)

/* First segments of every key. Local keys are in neither the WAL nor the compared root, and count
 * versions of their own. The two segments are themselves keys, always present, so that "newest
 * below a prefix" never mixes the two counters. */
#define RLOG_REPLICATED "s/"
#define RLOG_LOCAL "l/"
/* Written by apply alone; transactions that touch it are malformed. */
#define RLOG_REQUESTS RLOG_LOCAL "req/"
/* While this key exists, the cluster follows another one: its replicated keys change by runs of the
 * other cluster's WAL alone, and keep the other cluster's versions. Any other transaction that
 * changes replicated keys conflicts. A request id does not count: it would take a version. */
#define RLOG_FOLLOWING RLOG_LOCAL "dr/following"

/* A client request, once per client retry loop (PROTOCOL R14). All zero: none. */
struct rlog_request_id {
    uint8_t bytes[16];
    uint64_t issued; /* cluster index (state version) known to the issuer when it made the id */
};

/* Builder. Zero-initialise, begin, add preconditions and operations in any order, end. */
struct rlog_txn_builder {
    struct buf needs, ops;
    unsigned n_needs, n_ops;
    struct rlog_request_id id;
    struct buf response;
    bool too_big; /* a limit is exceeded; rlog_txn_encode reports it */
    bool wal;     /* there is a run of the WAL */
};
void rlog_txn_done(struct rlog_txn_builder *b);
/* Reserve bytes for preconditions and operations. Lack of memory is reported by rlog_txn_encode. */
void rlog_txn_reserve(struct rlog_txn_builder *b, size_t needs, size_t ops);
/* Whether a key is valid: in one of the two segments, outside RLOG_REQUESTS, longer than its
 * segment. */
bool rlog_txn_key_valid(struct bytes key);
/* Whether a prefix is valid for rlog_txn_need_prefix, and for rlog_txn_delete_prefix. */
bool rlog_txn_prefix_valid(struct bytes prefix);
bool rlog_txn_drop_valid(struct bytes prefix);
void rlog_txn_id(struct rlog_txn_builder *b, const struct rlog_request_id *id,
                 struct bytes response);
/* `key`'s modified version must still be `version`; 0: it must be absent. */
void rlog_txn_need_key(struct rlog_txn_builder *b, struct bytes key, uint64_t version);
/* No key below `prefix` (at least a segment) may have changed since `version`: the result of
 * store_newest when the prefix was read. */
void rlog_txn_need_prefix(struct rlog_txn_builder *b, struct bytes prefix, uint64_t version);
/* The staged tree must be the one that began with this number (rlog_applied.stage). */
void rlog_txn_need_stage(struct rlog_txn_builder *b, uint64_t stage);
void rlog_txn_put(struct rlog_txn_builder *b, struct bytes key, struct bytes value);
/* rlog_txn_put with room for `len` ≥ 1 bytes, which the caller fills at once. NULL: the encoding
 * will fail. */
uint8_t *rlog_txn_put_room(struct rlog_txn_builder *b, struct bytes key, size_t len);
/* rlog_txn_put_room for a value that ends with a range of the value it replaces
 * (store/retain.h). The caller adds the key as a precondition: the range is of the version read. */
uint8_t *rlog_txn_put_retain_room(struct rlog_txn_builder *b, struct bytes key, size_t len,
                                  struct store_retain retain);
void rlog_txn_delete(struct rlog_txn_builder *b, struct bytes key);
void rlog_txn_delete_prefix(struct rlog_txn_builder *b, struct bytes prefix);
/* A staged tree belongs to the writer that began it. A later transaction that puts into the tree,
 * swaps it in or drops it must name it by rlog_txn_need_stage, else the transaction conflicts. If
 * two writers begin a tree, the later writer owns the tree, and no key of the earlier writer gets
 * into it. */
/* begins a staged tree and drops an earlier one of any writer */
void rlog_txn_stage_begin(struct rlog_txn_builder *b);
void rlog_txn_stage_put(struct rlog_txn_builder *b, struct bytes key, struct bytes value,
                        uint64_t created, uint64_t modified);
/* Whether rlog_txn_stage_put accepts the item. */
bool rlog_txn_stage_valid(const struct store_item *item);
void rlog_txn_stage_swap(struct rlog_txn_builder *b);
void rlog_txn_stage_drop(struct rlog_txn_builder *b); /* discard the staged tree */

/* Operations of feature level RLOG_FEATURE_DR: the caller has checked that the cluster has it. */
/* Append a run of the WAL that rlog_wal_check accepted. Only a cluster that follows applies it: the
 * records above its version, which must continue that version; the others are known and do nothing.
 * A gap is a conflict. */
void rlog_txn_wal(struct rlog_txn_builder *b, struct bytes run);
/* Raise the newest version below `prefix` in the staged tree, as a "newest" record of snapshot
 * content does. In the order of the content, after the keys below the prefix. The first key staged
 * is RLOG_REPLICATED, as in the content, or versions can go to another node of the tree. */
void rlog_txn_stage_newest(struct rlog_txn_builder *b, struct bytes prefix, uint64_t version);
/* Swap the staged tree in at exactly this version, with its newest versions as they are, and raise
 * the cluster time to `time_ms`, the other cluster's at that version. The version is not below the
 * state's, nor below any version in the tree. Only a cluster that follows applies it. */
void rlog_txn_stage_swap_at(struct rlog_txn_builder *b, uint64_t version, int64_t time_ms);
/* The same, and no newest version of the state is below `floor` afterwards. */
void rlog_txn_stage_swap_floor(struct rlog_txn_builder *b, uint64_t version, int64_t time_ms,
                               uint64_t floor);
/* As rlog_txn_stage_begin, but the staged tree begins as a clone of the replicated keys. Any change
 * of replicated keys other than its swap drops a clone. Only a cluster that follows applies it. */
void rlog_txn_stage_clone(struct rlog_txn_builder *b);
/* Delete a key of the staged tree; newest versions stay as they are. */
void rlog_txn_stage_delete(struct rlog_txn_builder *b, struct bytes key);
/* Raise the version of the state to `version`, unless it is as high. A cluster that follows does
 * not apply it. */
void rlog_txn_raise(struct rlog_txn_builder *b, uint64_t version);
/* ST_OK and the encoded transaction appended to `out`; ST_TOO_BIG; ST_NOMEM. */
NODISCARD enum status rlog_txn_encode(const struct rlog_txn_builder *b, struct buf *out);

/* Strict check of bytes of another process. ST_INVALID, ST_TOO_BIG; ST_UNSUPPORTED: of a later
 * format. */
NODISCARD enum status rlog_txn_check(struct bytes txn);

/* Keys an encoded transaction needs or changes, for early conflict detection (PROTOCOL R5). */
enum rlog_touch {
    RLOG_TOUCH_NEED_KEY,
    RLOG_TOUCH_NEED_PREFIX,
    RLOG_TOUCH_PUT,
    RLOG_TOUCH_DELETE,
    RLOG_TOUCH_DELETE_PREFIX,
    RLOG_TOUCH_ALL
};
void rlog_txn_touch_needs(struct bytes txn,
                          void (*each)(void *ctx, enum rlog_touch, struct bytes key), void *ctx);
void rlog_txn_touch_ops(struct bytes txn,
                        void (*each)(void *ctx, enum rlog_touch, struct bytes key), void *ctx);

/* The header of an entry. Transactions follow; each may refer to preconditions of the one before.
 */
struct rlog_entry_header {
    uint16_t format;  /* format of the entry: 2 */
    uint16_t feature; /* feature level of the cluster */
    int64_t time_ms;  /* cluster time of the active node */
    uint32_t n_txns;
};
/* Appends to `out`. Applying the entry raises the cluster to `feature`, 1..RLOG_FEATURE, unless its
 * level is as high. ST_TOO_BIG, ST_NOMEM: `out` is unchanged in length. */
NODISCARD enum status rlog_entry_encode(uint16_t feature, int64_t time_ms, const struct bytes *txns,
                                        unsigned n, struct buf *out);
/* Check an entry and each of its transactions strictly. ST_INVALID, ST_TOO_BIG; ST_UNSUPPORTED:
 * another format, or a later feature level than this program understands. */
NODISCARD enum status rlog_entry_check(struct bytes entry);
/* Read the header only. ST_INVALID, ST_UNSUPPORTED. */
NODISCARD enum status rlog_entry_peek(struct bytes entry, struct rlog_entry_header *ret_header);

enum rlog_outcome {
    RLOG_APPLIED,
    RLOG_CONFLICTED,      /* a precondition failed: nothing changed */
    RLOG_REPEATED,        /* the id was applied before: `response` is the stored one */
    RLOG_OUTCOME_UNKNOWN, /* the id is older than the window: nothing changed */
};

/* Result of applying one transaction of an entry. */
struct rlog_applied {
    enum rlog_outcome outcome;
    uint64_t version;      /* state version after the transaction; RLOG_REPEATED: after the first */
    struct bytes response; /* RLOG_REPEATED: the stored sealed response, borrowed until publish */
    struct bytes conflict; /* RLOG_CONFLICTED: the key or prefix, borrowed during the call. It is
                              RLOG_FOLLOWING when following decides. Empty when a stage operation
                              found no stage open, or another's, and when a version does not fit */
    uint64_t stage;        /* number of the staged tree that is open afterwards; 0: none */
};

/* Counters that live beside the tree and travel in snapshots. */
struct rlog_machine {
    struct store *store;
    struct rlog_wal *wal;   /* NULL, or the ring that apply fills; borrowed (rlog_wal.h) */
    uint64_t version;       /* version of the replicated keys */
    uint64_t local_version; /* version of the local keys */
    int64_t time_ms;        /* cluster time of the last applied entry; never falls */
    uint16_t feature;
    bool following;        /* RLOG_FOLLOWING exists */
    bool staging;          /* a staged tree is open; no snapshot is created meanwhile */
    bool cloned;           /* the staged tree began as a clone of the replicated keys */
    uint64_t stage;        /* number of the staged tree: local_version when it began; 0: none */
    uint64_t stage_newest; /* newest version in the staged tree */
    uint64_t id_floor;     /* request ids issued below this version are forgotten */
    uint64_t id_bytes;     /* bytes of remembered responses */
};

/* Apply a whole COMMAND entry at `index` and publish. `each` (or NULL) is called per transaction,
 * in order, before the publish. A transaction with replicated operations or an id gets the next
 * `version`; one with local operations or an id the next `local_version`. Aborts, with a line in
 * the log, on what rlog_entry_check refuses: unknown formats stop the node. */
void rlog_machine_apply(struct rlog_machine *m, uint64_t index, struct bytes entry,
                        void (*each)(void *ctx, unsigned i, const struct rlog_applied *applied),
                        void *ctx);

/* Whether applying `txn` now would end with RLOG_CONFLICTED. Changes nothing. Raft thread.
 * *ret_conflict: the key or prefix, borrowed from `txn`. */
bool rlog_machine_conflicts(const struct rlog_machine *m, struct bytes txn,
                            struct bytes *ret_conflict);

/* Serialise a pinned state as content of a snapshot file, in pieces. LANE_BULK. */
struct rlog_machine_part {
    struct bytes at;
    bool exact; /* the key `at` alone; else every key that begins with `at` */
};
struct rlog_machine_dump {
    struct store_pin pin;
    uint64_t version, local_version;
    int64_t time_ms;
    uint64_t id_floor, id_bytes;
    uint16_t feature;
    bool replicated_only; /* set after the begin: leave out the local keys of this cluster */
    /* Set after the begin: with `parted`, write these keys alone, which ascend and do not overlap. */
    const struct rlog_machine_part *parts;
    size_t n_parts;
    bool parted;
};
/* Raft thread, right after an apply. ST_BUSY: a staged tree is open (it exists in memory and the
 * log only) or no pin is free; try again later. */
NODISCARD enum status rlog_machine_dump_begin(struct rlog_machine *m,
                                              struct rlog_machine_dump *dump);
NODISCARD enum status rlog_machine_dump_run(struct rlog_machine_dump *dump,
                                            enum status (*piece)(void *ctx, struct bytes content),
                                            void *ctx);
void rlog_machine_dump_end(struct rlog_machine_dump *dump);

/* Restore from content pieces into the machine's store (raft thread; the store is reset first).
 * Pieces may be cut anywhere. ST_CORRUPT; ST_UNSUPPORTED: content of a later format. After a
 * failure the store is empty and the machine may not apply: load another snapshot or stop. */
struct rlog_machine_load;
NODISCARD enum status rlog_machine_load_begin(struct rlog_machine *m,
                                              struct rlog_machine_load **ret);
NODISCARD enum status rlog_machine_load_piece(struct rlog_machine_load *l, struct bytes content);
/* ST_CORRUPT when the content was cut short. Publishes on success; frees `l` in any case. */
NODISCARD enum status rlog_machine_load_end(struct rlog_machine_load *l);

#endif
