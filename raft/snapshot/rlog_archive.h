/* A snapshot as operators keep it: a gzip tar that upstream's tools can list and check.
 *
 *   meta.json          what it is a snapshot of, and in which format
 *   state.bin          content of raft/FORMAT.md, of the replicated keys alone; values as stored,
 *                      that is encrypted
 *   SHA256SUMS         of the two, as sha256sum prints them
 *   SHA256SUMS.sealed  a proof that SHA256SUMS was written with the root key
 *
 * Layout: raft/FORMAT.md, "Archive". Reading is strict and holds one record at a time: no field of
 * an archive decides how much memory is used. The functions here do not check the proof: the caller
 * makes it and judges it. */
#ifndef HOLDFAST_RAFT_SNAPSHOT_RLOG_ARCHIVE_H
#define HOLDFAST_RAFT_SNAPSHOT_RLOG_ARCHIVE_H

#include "base/buf.h"
#include "raft/txn/rlog_txn.h"

enum {
    RLOG_ARCHIVE_FORMAT = 1,
    RLOG_ARCHIVE_META_MAX = 64 * 1024,
    RLOG_ARCHIVE_SUMS_MAX = 4096,
    RLOG_ARCHIVE_SEALED_MAX = 4096,
    RLOG_ARCHIVE_CLUSTER_TEXT = 40,
};

/* Versions never go back: an archive with a version near the largest number would leave few
 * versions for later writes. */
#define RLOG_ARCHIVE_VERSION_MAX (UINT64_C(1) << 60)

/* The content of meta.json. */
struct rlog_archive_facts {
    uint64_t index, term;                    /* last entry of the log that the state contains */
    uint64_t version;                        /* version of the state */
    int64_t time_ms;                         /* cluster time of the state */
    char cluster[RLOG_ARCHIVE_CLUSTER_TEXT]; /* id of the cluster, as UUID text */
};

struct rlog_archive_out {
    /* write a piece; a failure ends the writing */
    enum status (*write)(void *ctx, struct bytes piece);
    /* Append the proof for `sums`, 1 to RLOG_ARCHIVE_SEALED_MAX bytes. */
    enum status (*seal)(void *ctx, struct bytes sums, struct buf *out);
    void *ctx;
};
/* Write the state pinned by `dump`. The state is walked twice, because sizes and sums stand before
 * the content. `facts` has index, term and cluster. Blocks; LANE_BULK or a pool thread. ST_NOMEM,
 * or what `out` fails with. */
NODISCARD enum status rlog_archive_write(struct rlog_machine_dump *dump,
                                         const struct rlog_archive_facts *facts,
                                         const struct rlog_archive_out *out);

struct rlog_archive_in {
    /* Read `n` bytes; fewer only at the end. */
    enum status (*read)(void *ctx, void *room, size_t n, size_t *ret_n);
    /* Each replicated key in order, valid for rlog_txn_stage_put; borrowed. May be NULL. A failure
     * ends the reading and is returned. No key is verified until rlog_archive_read returned
     * ST_OK. */
    enum status (*key)(void *ctx, const struct store_item *item);
    void *ctx;
    uint64_t state_bytes_max; /* a larger state.bin is refused before it is unpacked; 0: any */
};

struct rlog_archive_found {
    struct rlog_archive_facts facts;
    uint64_t n_keys, state_bytes;
    uint16_t feature; /* feature level of the cluster that saved the state */
    size_t sums_len, sealed_len;
    uint8_t sums[RLOG_ARCHIVE_SUMS_MAX], sealed[RLOG_ARCHIVE_SEALED_MAX];
};
/* Read all of it and check it against itself. ST_INVALID with a reason: it is cut short, damaged or
 * no archive of ours. ST_UNSUPPORTED with a reason: of another format. ST_TOO_BIG with a reason.
 * ST_NOMEM, or what `in` fails with. */
NODISCARD enum status rlog_archive_read(const struct rlog_archive_in *in,
                                        struct rlog_archive_found *ret_found,
                                        struct reason *reason);

#endif
