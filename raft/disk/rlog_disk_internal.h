/* Shared by the files of the disk, and private to them.
 *
 * Three threads share this module. The raft thread owns the queue and the vote file. LANE_LOG owns
 * `tail` under `lock`; so does LANE_BULK, to reset the log for an installed snapshot. The raft
 * thread waits for the lock only in open and close. For a short write it takes the lock only if it
 * is free (rlog_disk_short.c), and submits no work to LANE_LOG before that write is done. */
#ifndef HOLDFAST_RAFT_DISK_RLOG_DISK_INTERNAL_H
#define HOLDFAST_RAFT_DISK_RLOG_DISK_INTERNAL_H

#include "raft/disk/rlog_disk.h"
#include "raft/disk/rlog_disk_tail_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
    DISK_PATH_MAX = 512,
    DISK_DIR_MAX = 400,
    DISK_SEGMENTS_MAX = 1 << 20,
    DISK_SNAPSHOTS_MAX = 64, /* most snapshot files that are examined, beginning with the newest */
    DISK_VERIFIED_MAX = 8,
    DISK_TICK_MS = 2000,
    DISK_RESERVE_DEFAULT = 128 << 20,
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

/* A short write: from the stage, without a thread of its own. Raft thread. */
struct disk_short {
    struct env_write write;
    struct batch_plan plan;
    struct staged staged;
    bool running; /* while set, the disk_work `write` is running too */
    bool refused; /* env_write needs a thread here: do not try short writes again */
};

/* The next segment while it is zeroed. Owned by the running work, else by the raft thread. */
struct disk_making {
    struct fs_file *file; /* the open file; NULL: none */
    uint64_t spare, off;  /* number of the spare file; it is durably zero up to `off` */
    struct env_timer pause;
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

    /* Members of the raft thread: */
    struct list queue;
    uint64_t queued_bytes, write_seq, compact_upto;
    bool failed; /* the disk has failed: nothing is written or acknowledged any more */
    bool corrupt;
    bool held; /* appends wait for rlog_disk_release */
    struct fs_file *vote_file;
    struct vote_record vote_record;
    struct env_timer tick;
    struct disk_work write, compact, tend, prep;
    struct disk_short short_write;
    bool tend_due; /* the tick fired during a short write */
    struct disk_making making;
    struct list group; /* appends that the running write covers */
    uint64_t group_seq;
    uint64_t compacting; /* index up to which the running compaction drops */
    bool compact_more;   /* work is left for another run */

    /* Members of any thread: */
    _Atomic uint64_t durable_seq;  /* number of the newest durable batch */
    _Atomic uint64_t durable_last; /* index of the newest durable entry */
    _Atomic uint64_t log_bytes;
    _Atomic uint64_t active_bytes; /* bytes used in the segment that is being written */
    _Atomic uint64_t generation;   /* number of resets of the log */
    _Atomic uint64_t spare_number, temp_number;
    _Atomic bool full, want_next;

    pthread_mutex_t lock;
    struct tail tail;
    /* number of the newest batch at the last tick */
    uint64_t tick_seq;
    struct disk_snapshot verified[DISK_VERIFIED_MAX]; /* verified snapshots, newest first */
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
/* Flags to open a segment of `size` bytes for writing. */
unsigned segment_flags(uint64_t size);
/* Write to a file opened with FS_DSYNC. */
NODISCARD enum status disk_write(struct fs_file *file, struct bytes data, uint64_t off);
/* The final result of a write or sync; the planted bug of R12 changes it. */
enum status disk_final(enum status st);
NODISCARD enum status disk_sync(struct fs_file *file);
NODISCARD enum status disk_sync_dir(const struct rlog_disk *disk, const char *sub);
/* Zero `n` bytes of an open file; durable as the file was opened. */
NODISCARD enum status disk_zero_piece(struct fs_file *file, uint64_t off, uint64_t n);
/* Create a file of `size` zero bytes, and sync it. */
NODISCARD enum status disk_zero(struct fs *fs, const char *path, uint64_t size);
/* All of a file, at most `max` bytes; freed by the caller with mem_free. */
NODISCARD enum status file_read(struct fs *fs, const char *path, uint64_t max, uint8_t **ret_data,
                                size_t *ret_size);
void disk_free_check(struct rlog_disk *disk);

/* Functions in rlog_disk.c for works. Raft thread. */
void disk_work_submit(struct disk_work *w);
void disk_work_take(struct disk_work *w);
void disk_go_on(struct rlog_disk *disk);

/* Merge the group into one batch. *ret_changes false: the batch does not change the log. */
NODISCARD enum status disk_group_plan(struct rlog_disk *disk, struct batch_plan *plan,
                                      bool *ret_changes);
void disk_write_over(struct rlog_disk *disk);

/* Functions in rlog_disk_short.c. Raft thread, except for the end. */
void disk_short_init(struct rlog_disk *disk);
/* Begin to write the group, which has `bytes` bytes. False: the write needs a thread. */
bool disk_short_begin(struct rlog_disk *disk, uint64_t bytes);
/* End a short write, done or failed. The caller holds the lock. */
NODISCARD enum status disk_short_end(struct rlog_disk *disk, struct reason *reason);

/* rlog_disk_prep.c: raft thread. */
void disk_prep_init(struct rlog_disk *disk);
void disk_prep_kick(struct rlog_disk *disk);
void disk_prep_close(struct rlog_disk *disk);

/* rlog_disk_small.c: vote file, identity, install. */
struct vote_file_found {
    struct vote_record record;
    bool fell_back, corrupt;
    const char *why;
};
NODISCARD enum status vote_file_create(struct fs *fs, const char *path, uint64_t id);
NODISCARD enum status vote_file_load(struct rlog_disk *disk, struct vote_file_found *ret);
/* Write both copies, one after the other, so that a crash tears at most one. */
NODISCARD enum status vote_file_write(struct rlog_disk *disk, const struct vote_record *record);
NODISCARD enum status identity_create(struct fs *fs, const char *dir,
                                      const struct rlog_identity *identity);
/* ST_NOT_FOUND; ST_CORRUPT: neither copy is whole. */
NODISCARD enum status identity_load(struct fs *fs, const char *dir, struct rlog_identity *ret);
NODISCARD enum status install_begin(struct rlog_disk *disk, const struct install_record *record);
NODISCARD enum status install_end(struct rlog_disk *disk);
/* Read the file `install`. Index 0: no install was interrupted. */
NODISCARD enum status install_load(struct rlog_disk *disk, struct install_record *ret);

/* rlog_disk.c */
void disk_works_init(struct rlog_disk *disk);
void disk_drop_held(struct rlog_disk *disk); /* drops the entries appended before the release */
void disk_lock(struct rlog_disk *disk);
void disk_unlock(struct rlog_disk *disk);

/* rlog_disk_load.c */
NODISCARD enum status disk_load(struct rlog_disk *disk, struct rlog_loaded *ret,
                                struct reason *reason);

/* Functions in rlog_snap_store.c: the snapshot files of the directory. */
struct snapshots_found {
    struct rlog_snapshot_meta newest; /* newest file that verifies; index 0: none */
    uint64_t bad_index, bad_term;     /* newest damaged file above `newest`; 0: none */
    struct reason reason;             /* reason for the damaged file */
};
NODISCARD enum status snapshots_find(struct rlog_disk *disk, struct snapshots_found *ret);
/* Remove temporary files of an earlier process. */
NODISCARD enum status snapshots_tidy(struct rlog_disk *disk);
NODISCARD enum status snapshot_remove(struct rlog_disk *disk, uint64_t index, uint64_t term);
void snapshot_path(const struct rlog_disk *disk, uint64_t index, uint64_t term,
                   char path[DISK_PATH_MAX]);
/* Remember that a file was read back and verified. Takes the lock. */
void snapshot_verified(struct rlog_disk *disk, uint64_t index, uint64_t term);
/* Index of the oldest snapshot that is kept: the log above that index must stay. 0: too few
 * snapshots. Under the lock. */
uint64_t snapshot_floor(const struct rlog_disk *disk);

#endif
