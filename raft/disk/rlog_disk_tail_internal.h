/* The end of the log on disk, which rlog_disk_tail.c keeps. Part of rlog_disk_internal.h. */
#ifndef HOLDFAST_RAFT_DISK_RLOG_DISK_TAIL_INTERNAL_H
#define HOLDFAST_RAFT_DISK_RLOG_DISK_TAIL_INTERNAL_H

#include "raft/disk/rlog_disk_format.h"

struct rlog_disk;

enum { DISK_DIRTY_MAX = 8 };

struct segment {
    uint64_t number, size;
    uint64_t last; /* newest live entry in the segment; 0: none */
};

/* Entries from `first` on have this term, until the next run. */
struct term_run {
    uint64_t first, term;
};

/* The end of the log on disk. */
struct tail {
    /* segments in ascending order, without gaps; the last one is being written */
    struct segment *segments;
    size_t n_segments, segments_cap;
    /* terms of the entries; never empty, because it covers the entry before the first */
    struct term_run *runs;
    size_t n_runs, runs_cap;
    uint64_t last;       /* index of the newest entry */
    uint64_t seq, chain; /* number and chain of the newest batch */
    struct fs_file *file;
    uint64_t off;
    uint8_t partial[FS_BLOCK]; /* content of the last block up to `off` */
    bool marked;               /* the newest batch has the flag BATCH_MARK */
    bool broken;               /* a write failed: nothing more is written */
    struct reason why_broken;
    uint8_t *stage; /* whole blocks, in `stage_room` */
    void *stage_room;
    size_t stage_size;
    uint64_t upto;                  /* highest index that compaction may drop */
    uint64_t prepared;              /* number of the next segment if its file is ready, else 0 */
    uint64_t dirty[DISK_DIRTY_MAX]; /* numbers of spare files that are to be zeroed */
    size_t n_dirty;
};

/* A batch: its entries replace every entry from `first` on. */
struct batch_plan {
    uint64_t first;
    const struct rlog_entry **entries;
    unsigned n;
    uint64_t bytes;      /* bytes of the entries, with their headers */
    uint32_t flags;      /* flags BATCH_MARK and BATCH_CLEAN */
    bool roll;           /* the batch begins a new segment */
    bool reset;          /* the batch begins a new segment that voids the log before it */
    uint64_t reset_term; /* for `reset`: term of entry first-1 */
};

/* The bytes in the stage and their place in the file: `n` bytes, of which the file has `before`
 * already. */
struct staged {
    const struct segment *fresh; /* new segment; NULL: the active segment goes on */
    struct fs_file *file;
    size_t before, n, all; /* before: bytes of the last block; all: n filled up to whole blocks */
    uint64_t off, chain;
};

/* Functions in rlog_disk_tail.c. The caller holds the lock. */
void tail_done(struct tail *t);
void tail_break(struct tail *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
NODISCARD enum status tail_open_run(struct tail *t, uint64_t index, uint64_t term);
NODISCARD enum status tail_add_segment(struct tail *t, const struct segment *segment);
NODISCARD enum status tail_write(struct rlog_disk *disk, const struct batch_plan *plan,
                                 struct reason *reason);
/* tail_write in two steps, for a batch that fits the active segment. The caller writes `all` bytes
 * of the stage to staged.file at staged.off, then calls tail_staged with the status. Between the
 * two calls only the spares of the tail may change. False: use tail_write. */
bool tail_stage(struct rlog_disk *disk, const struct batch_plan *plan, struct staged *ret);
NODISCARD enum status tail_staged(struct rlog_disk *disk, const struct batch_plan *plan,
                                  const struct staged *staged, enum status st,
                                  struct reason *reason);
/* The number of a spare file to zero: one that compaction left, else a new one. */
uint64_t tail_take_spare(struct rlog_disk *disk);
NODISCARD enum status tail_prepare(struct rlog_disk *disk, uint64_t spare);
/* Remove the oldest segment if all its live entries are ≤ upto and no kept snapshot needs them. One
 * segment a call, so that writes can run between. */
NODISCARD enum status tail_compact(struct rlog_disk *disk, uint64_t upto, bool *ret_more,
                                   struct reason *reason);
/* Begin a new log behind an installed snapshot. */
NODISCARD enum status tail_reset(struct rlog_disk *disk, uint64_t index, uint64_t term,
                                 struct reason *reason);
NODISCARD enum status tail_mark(struct rlog_disk *disk, uint32_t flags, struct reason *reason);
void tail_count_bytes(struct rlog_disk *disk);
/* Open the last segment and write it again from `from` to the end of the log, with the rest of the
 * blocks that this touches, as `image` has it. */
NODISCARD enum status tail_rewrite(struct rlog_disk *disk, struct bytes image, uint64_t from);

#endif
