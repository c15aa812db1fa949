/* What the files of the disk share; nobody else includes this.
 *
 * Three threads meet here: the raft thread owns the queue and the slot file; LANE_LOG and, for the
 * reset of an installed snapshot, LANE_BULK own `tail` under `lock`. The raft thread takes the lock
 * only in open and close. */
#ifndef HOLDFAST_RAFT_RLOG_DISK_PARTS_H
#define HOLDFAST_RAFT_RLOG_DISK_PARTS_H

#include "raft/rlog_disk_format.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
    DISK_PATH_MAX = 512,
    DISK_DIR_MAX = 400,
    DISK_SEGMENTS_MAX = 1 << 20,
    DISK_SNAPSHOTS_MAX = 64, /* files looked at */
    DISK_VERIFIED_MAX = 8,
    DISK_DIRTY_MAX = 8,
    DISK_TICK_MS = 2000,
    DISK_RESERVE_DEFAULT = 128 << 20,
};

struct segment {
    uint64_t number, size;
    uint64_t last; /* newest live entry that lies in it, 0 none */
};

/* Entries from `first` on have this term, until the next run. */
struct term_run {
    uint64_t first, term;
};

/* The end of the log on disk. */
struct tail {
    struct segment *segments; /* ascending, without gaps; the last one is being written */
    size_t n_segments, segments_cap;
    struct term_run *runs; /* never empty; covers the entry before the first one too */
    size_t n_runs, runs_cap;
    uint64_t last;       /* index of the newest entry */
    uint64_t seq, chain; /* of the newest batch */
    struct fs_file *file;
    uint64_t off;
    bool marked; /* the newest batch is a mark */
    bool broken; /* a write failed: no more */
    struct reason why_broken;
    uint8_t *stage;
    size_t stage_size;
    uint64_t upto;                  /* entries up to here are not needed */
    uint64_t prepared;              /* number of the next segment if its file is ready, else 0 */
    uint64_t dirty[DISK_DIRTY_MAX]; /* numbers of spare files that are to be zeroed */
    size_t n_dirty;
};

/* Entries that replace everything from `first` on. */
struct batch_plan {
    uint64_t first;
    const struct rlog_entry **entries;
    unsigned n;
    uint64_t bytes;      /* with headers */
    uint32_t flags;      /* BATCH_MARK, BATCH_CLEAN */
    bool roll;           /* begin a segment */
    bool reset;          /* begin one that voids what went before */
    uint64_t reset_term; /* of entry first-1 */
};

struct append {
    struct list link;
    uint64_t seq, generation, index, bytes;
    unsigned n;
    struct rlog_entry entries[];
};

struct disk_work {
    struct env_work work;
    struct rlog_disk *disk;
    bool running;
    enum status st;
    struct reason reason;
};

struct disk_snapshot {
    uint64_t index, term;
};

struct rlog_disk {
    struct env *env;
    struct fs *fs;
    char dir[DISK_DIR_MAX];
    struct rlog_disk_ops ops;
    void (*idle)(void *ctx);
    uint64_t segment_bytes, reserve_bytes, group_bytes;
    unsigned snapshots_kept;
    struct rlog_identity identity;
    struct fs_file *lock_file;

    /* raft thread */
    struct list queue;
    uint64_t queued_bytes, write_seq, compact_upto;
    bool failed; /* nothing is written or acknowledged any more */
    bool corrupt;
    bool held; /* appends wait for rlog_disk_release */
    struct fs_file *slot_file;
    struct slot_record slot;
    struct env_timer tick;
    struct disk_work write, compact, tend, prep;
    struct list group; /* of the running write */
    uint64_t group_seq;
    uint64_t compacting; /* what the running compaction goes up to */
    bool compact_more;   /* it left something for another run */

    /* any thread */
    _Atomic uint64_t durable_seq;  /* batch */
    _Atomic uint64_t durable_last; /* entry */
    _Atomic uint64_t log_bytes;
    _Atomic uint64_t generation; /* counts resets */
    _Atomic uint64_t spare_number, temp_number;
    _Atomic bool full, want_next;

    pthread_mutex_t lock;
    struct tail tail;
    uint64_t tick_seq;                                /* newest batch at the last tick */
    struct disk_snapshot verified[DISK_VERIFIED_MAX]; /* newest first */
    unsigned n_verified;
};

static inline uint64_t tail_term(const struct tail *t)
{
    return t->runs[t->n_runs - 1].term;
}

/* rlog_disk_file.c: paths, and writes whose failure is final. */
void disk_path(const struct rlog_disk *disk, char path[DISK_PATH_MAX], const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void segment_path(const struct rlog_disk *disk, uint64_t number, char path[DISK_PATH_MAX]);
void spare_path(const struct rlog_disk *disk, uint64_t number, char path[DISK_PATH_MAX]);
bool segment_name_parse(const char *name, uint64_t *ret_number);
bool snapshot_name_parse(const char *name, uint64_t *ret_index, uint64_t *ret_term);
/* Write to a file opened with FS_DSYNC. */
NODISCARD enum status disk_write(struct fs_file *file, struct bytes data, uint64_t off);
NODISCARD enum status disk_sync(struct fs_file *file);
NODISCARD enum status disk_sync_dir(const struct rlog_disk *disk, const char *sub);
/* Zero all of a file of `size` bytes, creating it, and sync. */
NODISCARD enum status disk_zero(struct fs *fs, const char *path, uint64_t size);
/* All of a file, at most `max` bytes; freed by the caller with mem_free. */
NODISCARD enum status file_read(struct fs *fs, const char *path, uint64_t max, uint8_t **ret_data,
                                size_t *ret_size);
void disk_free_check(struct rlog_disk *disk);

/* rlog_disk_small.c: slot, identity, install. */
struct slot_found {
    struct slot_record record;
    bool fell_back, corrupt;
    const char *why;
};
NODISCARD enum status slot_create(struct fs *fs, const char *path, uint64_t id);
NODISCARD enum status slot_load(struct rlog_disk *disk, struct slot_found *ret);
/* Both copies, one after the other: at most one is ever torn. */
NODISCARD enum status slot_write(struct rlog_disk *disk, const struct slot_record *record);
NODISCARD enum status identity_create(struct fs *fs, const char *dir,
                                      const struct rlog_identity *identity);
/* ST_NOT_FOUND; ST_CORRUPT when neither copy is whole. */
NODISCARD enum status identity_load(struct fs *fs, const char *dir, struct rlog_identity *ret);
NODISCARD enum status install_begin(struct rlog_disk *disk, const struct install_record *record);
NODISCARD enum status install_end(struct rlog_disk *disk);
/* Index 0 when no install was interrupted. */
NODISCARD enum status install_load(struct rlog_disk *disk, struct install_record *ret);

/* rlog_disk_tail.c: under the lock. */
void tail_done(struct tail *t);
void tail_break(struct tail *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
NODISCARD enum status tail_open_run(struct tail *t, uint64_t index, uint64_t term);
NODISCARD enum status tail_add_segment(struct tail *t, const struct segment *segment);
NODISCARD enum status tail_write(struct rlog_disk *disk, const struct batch_plan *plan,
                                 struct reason *reason);
/* A file to zero for a segment: what compaction left, else a new one. */
uint64_t tail_take_spare(struct rlog_disk *disk);
NODISCARD enum status tail_prepare(struct rlog_disk *disk, uint64_t spare);
/* Remove the oldest segment if its live entries are all ≤ upto and no snapshot kept needs them: one
 * at a time, so that writes get between. */
NODISCARD enum status tail_compact(struct rlog_disk *disk, uint64_t upto, bool *ret_more,
                                   struct reason *reason);
/* The log starts anew behind an installed snapshot. */
NODISCARD enum status tail_reset(struct rlog_disk *disk, uint64_t index, uint64_t term,
                                 struct reason *reason);
NODISCARD enum status tail_mark(struct rlog_disk *disk, uint32_t flags, struct reason *reason);
void tail_count_bytes(struct rlog_disk *disk);

/* rlog_disk.c */
void disk_works_init(struct rlog_disk *disk);
void disk_drop_held(struct rlog_disk *disk); /* what was appended before the release */
void disk_lock(struct rlog_disk *disk);
void disk_unlock(struct rlog_disk *disk);

/* rlog_disk_load.c */
NODISCARD enum status disk_load(struct rlog_disk *disk, struct rlog_loaded *ret,
                                struct reason *reason);

/* rlog_snap_store.c: which snapshot files there are. */
struct snapshots_found {
    struct rlog_snapshot_meta newest; /* that verifies; index 0 none */
    uint64_t bad_index, bad_term;     /* newest damaged file above it, 0 none */
    struct reason reason;             /* about that file */
};
NODISCARD enum status snapshots_find(struct rlog_disk *disk, struct snapshots_found *ret);
/* Temporary files of an earlier process. */
NODISCARD enum status snapshots_tidy(struct rlog_disk *disk);
NODISCARD enum status snapshot_remove(struct rlog_disk *disk, uint64_t index, uint64_t term);
void snapshot_path(const struct rlog_disk *disk, uint64_t index, uint64_t term,
                   char path[DISK_PATH_MAX]);
/* Remember a file that was read back whole. Takes the lock. */
void snapshot_verified(struct rlog_disk *disk, uint64_t index, uint64_t term);
/* The oldest of the snapshots kept: the log above it must stay. 0 when there are too few. Under the
 * lock. */
uint64_t snapshot_floor(const struct rlog_disk *disk);

#endif
