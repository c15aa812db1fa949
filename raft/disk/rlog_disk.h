/* The durable part of a replica, in one directory: log segments, vote file, snapshot files.
 *
 *   DIR/lock             held while open
 *   DIR/identity         cluster id, node name, raft id (checksummed)
 *   DIR/slot             term and vote, two checksummed copies
 *   DIR/install          a snapshot is being installed: the log may end below it
 *   DIR/log/%016x.seg    preallocated, zeroed, recycled segments
 *   DIR/snap/%016x-%016x.snap   index-term, several kept
 *
 * Owned by the raft thread. Blocking calls run on lanes of the env: LANE_LOG (long writes,
 * compaction), LANE_POOL (zeroing the next segment), LANE_BULK (snapshot files); short writes use
 * env_write. Formats: raft/FORMAT.md. A failed write or sync is reported once, by `fatal` or by the
 * status of a blocking call; after that nothing is acknowledged (PROTOCOL R12). */
#ifndef HOLDFAST_RAFT_DISK_RLOG_DISK_H
#define HOLDFAST_RAFT_DISK_RLOG_DISK_H

#include "base/env.h"
#include "base/fs.h"
#include "raft/disk/rlog_block.h"
#include "raft/disk/rlog_identity.h"

struct rlog_disk;

struct rlog_snapshot_meta {
    uint64_t index, term; /* of the last entry that the snapshot covers; index 0: no snapshot */
    uint64_t conf_index;  /* index of the newest CHANGE committed at or below `index` */
    uint8_t conf[2048];   /* the configuration, encoded as in the CHANGE entry */
    uint32_t conf_len;
    uint64_t bytes; /* size of the file */
};

/* The findings of rlog_disk_open. `entries` has the `n` entries from index `first` on; the caller
 * owns them. */
struct rlog_loaded {
    uint64_t term, vote;
    struct rlog_snapshot_meta snapshot;
    uint64_t first, n;
    uint64_t prev_term; /* term of entry first-1; 0: `first` is 1 */
    struct rlog_entry *entries;
    bool corrupt;             /* acknowledged data is damaged (PROTOCOL R13): `reason` says where */
    bool torn;                /* the log had a torn end, which was cut */
    bool vote_file_fell_back; /* one copy in the vote file was bad, the other one good */
    bool snapshot_fell_back;  /* the newest snapshot is damaged; an older one and the log suffice */
    uint64_t truncations;     /* truncations found in the log while it was read */
    bool reset;               /* an interrupted install was completed: the log starts after it */
    struct reason reason;     /* reason of ST_CORRUPT: file, offset, index */
};
void rlog_loaded_done(struct rlog_loaded *loaded);

struct rlog_disk_ops {
    /* The writes up to `write_seq` are durable, with their entries up to `index`. Called in order,
     * on the raft thread. */
    void (*written)(void *ctx, uint64_t write_seq);
    /* A write, a sync (ST_IO, ST_NO_SPACE) or an allocation (ST_NOMEM) failed; the process must
     * stop. Called once. */
    void (*fatal)(void *ctx, enum status why, const struct reason *reason);
    void *ctx;
};

struct rlog_disk_options {
    struct env *env;
    const char *dir;
    struct rlog_disk_ops ops;
    uint64_t segment_bytes;  /* size of a segment; 0: 8 MiB */
    uint64_t reserve_bytes;  /* free space below which rlog_disk_full() is true; 0: 128 MiB */
    unsigned snapshots_kept; /* number of snapshot files to keep; 0: 2 */
    /* rlog_disk_idle() became true; called with ops.ctx. The disk may be closed from here, and from
     * no callback of `ops`. May be NULL. */
    void (*idle)(void *ctx);
    /* Appends wait for rlog_disk_release. Until then the disk may be closed at any time, and
     * waiting appends are never written: for a start that may still fail. */
    bool held;
};

/* Create DIR for a new replica: identity, vote file, empty log. ST_EXISTS: DIR has a replica. */
NODISCARD enum status rlog_disk_create(struct env *env, const char *dir,
                                       const struct rlog_identity *identity, struct reason *reason);
/* Remove a damaged replica, so that rlog_disk_create can make a new one there (PROTOCOL R13):
 * identity first, so that a half-removed replica does not open. ST_OK: also without a replica.
 * ST_BUSY: in use. */
NODISCARD enum status rlog_disk_wipe(struct env *env, const char *dir, struct reason *reason);
/* Lock and load. ST_NOT_FOUND: no replica here. ST_BUSY: in use by another process. ST_INVALID:
 * belongs to another cluster or node (when `expect` is not NULL: its cluster and name must match).
 * Damage is not a failure of open: see ret_loaded->corrupt; then nothing in DIR was changed, the
 * disk can only be closed, and an identity that is lost has id 0. Blocks; start-up only. */
NODISCARD enum status rlog_disk_open(const struct rlog_disk_options *options,
                                     const struct rlog_identity *expect,
                                     struct rlog_disk **ret_disk,
                                     struct rlog_identity *ret_identity,
                                     struct rlog_loaded *ret_loaded, struct reason *reason);
void rlog_disk_release(struct rlog_disk *disk);
/* After every submitted work is done (the caller waits for rlog_disk_idle), or before the release.
 */
void rlog_disk_close(struct rlog_disk *disk);
bool rlog_disk_idle(const struct rlog_disk *disk);

/* Store term and vote; durable on return, before any message that depends on them is sent. Blocks,
 * but is rare. After a failure nothing more is written. */
NODISCARD enum status rlog_disk_set_term(struct rlog_disk *disk, uint64_t term, uint64_t vote);

/* Queue `n` entries from `index` on, which replace all entries from `index` on. rlog_disk_write
 * begins to write the queue. Several queued writes become one write and one sync; then `written` is
 * called. The disk holds references to the entries' blocks until then. Returns the write's sequence
 * number, growing by one. Writes that were queued before an install reset the log are dropped, but
 * their numbers are reported. Terms may not fall. */
uint64_t rlog_disk_append(struct rlog_disk *disk, uint64_t index, const struct rlog_entry *entries,
                          unsigned n);
/* Begin to write the queue, at the latest when the running write is done. */
void rlog_disk_write(struct rlog_disk *disk);
/* Drop the whole log, which then is empty and begins at `first`; the entry before has the term
 * `prev_term`. Needed if a crash came after an installed snapshot replaced the log and before the
 * log was reset. Start-up only, before the first append. Blocks; durable on return. */
NODISCARD enum status rlog_disk_reset(struct rlog_disk *disk, uint64_t first, uint64_t prev_term);
/* Entries ≤ `upto` are no longer needed. Removes whole segments, and none above the oldest of the
 * `snapshots_kept` newest snapshots: if the newest snapshot is damaged, an older one and the log
 * have every entry. */
void rlog_disk_compact(struct rlog_disk *disk, uint64_t upto);
uint64_t rlog_disk_queued_bytes(const struct rlog_disk *disk);
/* Index of the newest entry that is durable. Any thread. */
uint64_t rlog_disk_durable(const struct rlog_disk *disk);
/* Free space ran low (checked at each new segment and every few seconds): refuse new writes. */
bool rlog_disk_full(const struct rlog_disk *disk);
/* Bytes of the log that is not compacted, for the snapshot policy. Segments that are kept only for
 * an older snapshot do not count. */
uint64_t rlog_disk_log_bytes(const struct rlog_disk *disk);

/* Snapshot files. Called on LANE_BULK, unless a comment names another thread. */

/* A file being written: header with `meta`, then content in LZ4-compressed, CRC32C-checked chunks,
 * then a trailer with the totals and a chain of the chunk sums. The entry at meta->index must be
 * durable in the log. ST_IO anywhere: the disk failed, stop. */
struct rlog_snap_writer;
NODISCARD enum status rlog_snap_create(struct rlog_disk *disk,
                                       const struct rlog_snapshot_meta *meta,
                                       struct rlog_snap_writer **ret_writer);
NODISCARD enum status rlog_snap_write(struct rlog_snap_writer *w, struct bytes content);
/* Trailer, sync, verify by reading back, rename, sync the directory; frees the writer. */
NODISCARD enum status rlog_snap_commit(struct rlog_snap_writer *w, uint64_t *ret_bytes);
void rlog_snap_abort(struct rlog_snap_writer *w);

/* Receive a snapshot: the bytes of a peer's file, in order, into a temporary file. */
NODISCARD enum status rlog_snap_receive_create(struct rlog_disk *disk,
                                               struct rlog_snap_writer **ret_w);
NODISCARD enum status rlog_snap_receive_write(struct rlog_snap_writer *w, struct bytes raw);
/* Verify the whole file; *ret_meta is its header. The file stays temporary. */
NODISCARD enum status rlog_snap_receive_verify(struct rlog_snap_writer *w,
                                               struct rlog_snapshot_meta *ret_meta);
/* Sync, rename, sync directory, and reset the log on disk to start at meta.index + 1. The caller
 * has no append in flight and makes none until this is done. */
NODISCARD enum status rlog_snap_receive_install(struct rlog_snap_writer *w);

/* Reading: raw bytes for sending, or verified content for restoring. */
struct rlog_snap_reader;
NODISCARD enum status rlog_snap_open(struct rlog_disk *disk, uint64_t index, uint64_t term,
                                     struct rlog_snap_reader **ret_reader,
                                     struct rlog_snapshot_meta *ret_meta);
NODISCARD enum status rlog_snap_read_raw(struct rlog_snap_reader *r, void *buf, size_t n,
                                         uint64_t off, size_t *ret_n);
/* The next piece of content, verified; borrowed until the next call; empty at the end.
 * ST_CORRUPT names the chunk in the log. */
NODISCARD enum status rlog_snap_read(struct rlog_snap_reader *r, struct bytes *ret_content);
void rlog_snap_close(struct rlog_snap_reader *r);
/* Remove all but the newest `snapshots_kept` valid files. */
NODISCARD enum status rlog_snap_prune(struct rlog_disk *disk);

/* `holdfast dump log|snapshot`: explain a directory, or a file, line by line, without locking or
 * changing it, damaged or not; an operator's archive, too. ST_OK: it would open. ST_CORRUPT: what
 * is wrong was said. ST_NOT_FOUND, ST_IO, ST_NOMEM, ST_INVALID: it could not be read. */
NODISCARD enum status rlog_dump_log(struct fs *fs, const char *dir,
                                    void (*line)(void *ctx, const char *text), void *ctx);
NODISCARD enum status rlog_dump_snapshot(struct fs *fs, const char *path,
                                         void (*line)(void *ctx, const char *text), void *ctx);
/* For `holdfast operator raft snapshot verify`: check an operator's archive against the sums in the
 * archive, and print one line about the archive and one with the verdict. Statuses of
 * rlog_dump_snapshot. */
NODISCARD enum status rlog_verify_archive(struct fs *fs, const char *path,
                                          void (*line)(void *ctx, const char *text), void *ctx);

#endif
