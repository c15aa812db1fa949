/* The WAL: the changes of the replicated keys, version by version, for a cluster that follows this
 * one (cluster/dr).
 *
 * Apply makes a record for each version and adds it to a ring in memory, on every node. The ring is
 * bounded in bytes and forgets its oldest records. Threads that send records read them by version.
 * The ring begins with what the process applies, so a restart fills it again from the replayed log.
 *
 *   apply (raft thread)                     senders (any thread)
 *   rlog_wal_begin, _op, _end, _append
 *   rlog_wal_publish ───────────────▶       rlog_wal_wait, rlog_wal_read
 *
 * 1. Records follow each other without a gap: each names the version before it, and that is the
 *    version of the record before.
 * 2. A replaced state (a swap, a loaded snapshot) has no record: it empties the ring. Who follows
 *    must then take over the whole state anew.
 * 3. A record contains operations on replicated keys only, values encrypted as the state has them.
 * 4. A lack of memory and a record beyond the bound empty the ring; they never fail an apply.
 *
 * Layout of a record: raft/FORMAT.md, "WAL". */
#ifndef HOLDFAST_RAFT_TXN_RLOG_WAL_H
#define HOLDFAST_RAFT_TXN_RLOG_WAL_H

#include "base/buf.h"
#include "raft/txn/rlog_txn.h"

#include <stdatomic.h>

enum {
    RLOG_WAL_BYTES = 64 * 1024 * 1024, /* bound of a ring that suits most clusters */
};

enum rlog_wal_kind {
    RLOG_WAL_OPS = 1,  /* operations, maybe none; the version before is one less */
    RLOG_WAL_JUMP = 2, /* the version rises, and nothing changes */
};

/* One record; everything is borrowed from the run. */
struct rlog_wal_record {
    enum rlog_wal_kind kind;
    uint64_t before;      /* version of the state before the record */
    uint64_t version;     /* and after it */
    int64_t time_ms;      /* cluster time of the transaction */
    struct bytes ops;     /* RLOG_WAL_OPS: a sequence for rlog_op_next */
    struct bytes encoded; /* the whole record */
};
/* Read the next record of a run and move *run behind it, without a look at its operations.
 * ST_NOT_FOUND at the end; ST_INVALID. */
NODISCARD enum status rlog_wal_next(struct bytes *run, struct rlog_wal_record *ret_record);

/* From where a run leads to where. */
struct rlog_wal_span {
    uint64_t before; /* version of the state before the first record */
    uint64_t last;   /* and after the last one */
    unsigned n;      /* number of records, at least 1 */
};
/* Check a run strictly, as bytes of another cluster: every record, every operation, and that the
 * versions follow each other. ST_INVALID: also an empty run. ST_TOO_BIG: a run longer than
 * RLOG_WAL_RECORD_MAX, the most that one transaction carries. */
NODISCARD enum status rlog_wal_check(struct bytes run, struct rlog_wal_span *ret_span);

struct rlog_wal;

/* A ring that collects from version 0 on. Its bound counts memory, with what is not used at the end
 * of a block. ST_NOMEM. */
NODISCARD enum status rlog_wal_new(uint64_t bytes_max, struct rlog_wal **ret_wal);
/* No reader may be left. NULL is allowed. */
void rlog_wal_free(struct rlog_wal *wal);

/* For readers. Any thread. */

/* Append whole records behind version `after` to `out`: about `bytes_max` bytes, or one longer
 * record. *ret_last: the version of the last one.
 *
 * ST_NOT_FOUND: there is no later record yet. ST_CONFLICT: take over the whole state anew, because
 * the ring no longer has the record behind `after`, the state was replaced since, or it never had
 * that version. ST_CLOSED: the ring is off. ST_NOMEM. In all these cases `out` is unchanged in
 * length. */
NODISCARD enum status rlog_wal_read(struct rlog_wal *wal, uint64_t after, size_t bytes_max,
                                    struct buf *out, uint64_t *ret_last);
/* Wait until rlog_wal_read would not end with ST_NOT_FOUND, until *stop is true, or for
 * `timeout_ms`. Who sets *stop calls rlog_wal_wake afterwards. */
void rlog_wal_wait(struct rlog_wal *wal, uint64_t after, unsigned timeout_ms,
                   const atomic_bool *stop);
void rlog_wal_wake(struct rlog_wal *wal);

/* Where a version lies in the ring. */
struct rlog_wal_place {
    int64_t time_ms; /* time in the record that made the version; 0: the ring does not know it */
    uint64_t behind; /* bytes of the records after it */
};
/* ST_NOT_FOUND: the state has no such version yet. ST_CONFLICT: the ring no longer has it, or never
 * had; `behind` counts every record then. ST_CLOSED: the ring is off. Any thread. */
NODISCARD enum status rlog_wal_find(struct rlog_wal *wal, uint64_t version,
                                    struct rlog_wal_place *ret_place);

struct rlog_wal_stats {
    bool on;
    uint64_t base; /* the records of the versions from base + 1 to last can be read */
    uint64_t last;
    uint64_t bytes, bytes_max;
};
void rlog_wal_stats(struct rlog_wal *wal, struct rlog_wal_stats *ret_stats);

/* For the raft thread, which is the only writer. */

/* Collect, or not. A ring that is switched off frees its records; switched on, it collects what
 * follows the present version. */
void rlog_wal_switch(struct rlog_wal *wal, bool on);
/* Whether records are of use. */
bool rlog_wal_on(const struct rlog_wal *wal);
/* A record of operations: begin, each operation in order, end. `ops_bytes_max`: the sum of
 * rlog_op_bytes_max of the operations, at least. Only while the ring is on. */
void rlog_wal_begin(struct rlog_wal *wal, size_t ops_bytes_max, uint64_t version, int64_t time_ms);
struct rlog_op;
void rlog_wal_op(struct rlog_wal *wal, const struct rlog_op *op);
void rlog_wal_end(struct rlog_wal *wal);
/* A record that another cluster made. Nothing happens while the ring is off. */
void rlog_wal_append(struct rlog_wal *wal, const struct rlog_wal_record *record);
/* A jump to `version`. Nothing happens while the ring is off. */
void rlog_wal_jump(struct rlog_wal *wal, uint64_t version, int64_t time_ms);
/* The state was replaced and has this version. */
void rlog_wal_reset(struct rlog_wal *wal, uint64_t version);
/* Show readers what was added, up to `version`, the state's. */
void rlog_wal_publish(struct rlog_wal *wal, uint64_t version);

#endif
