/* Reads the log of a directory back, checks it, and shows it to an observer. */
#ifndef HOLDFAST_RAFT_DISK_RLOG_DISK_FOUND_H
#define HOLDFAST_RAFT_DISK_RLOG_DISK_FOUND_H

#include "raft/disk/rlog_disk_internal.h"

struct log_found {
    struct rlog_entry *entries;
    size_t n, cap;
    uint64_t base, prev_term; /* index of entries[0]; term of the entry before it */
    uint64_t seq, chain;      /* number and chain of the newest batch */
    struct segment *segments; /* segments in use */
    size_t n_segments, segments_cap;
    uint64_t end;        /* offset where the last segment ends */
    uint64_t last_batch; /* offset of the newest batch in the last segment; 0: none */
    bool last_marked;
    uint8_t *image; /* content of the last segment */
    size_t image_size;
    uint64_t *unused; /* numbers of segments before and behind the segments in use */
    size_t n_unused;
    uint64_t truncations;   /* batches that replaced entries before them */
    bool torn, torn_unused; /* the last segment, or a segment behind it, ends with a torn write */
    bool damaged;  /* `reason` says where; harmless if a snapshot covers all below `base` */
    bool lost_end; /* the damage may have taken the newest entries */
    struct reason reason;
};
void log_found_done(struct log_found *found);
/* Observer of the log while it is read, for dump. Members may be NULL. */
struct log_watch {
    void (*segment)(void *ctx, uint64_t number, const struct segment_header *header);
    void (*batch)(void *ctx, uint64_t off, const struct batch_found *found, struct bytes payload);
    void (*note)(void *ctx, const char *text);
    void *ctx;
};
/* Find the log. ST_IO and ST_NOMEM only; *ret reports damage. */
NODISCARD enum status log_find(struct fs *fs, const char *dir, uint64_t id,
                               const struct log_watch *watch, struct log_found *ret);

/* Report what disk_load would find, without changing a file. Needs fs, dir, identity and lock. */
NODISCARD enum status disk_examine(struct rlog_disk *disk, const struct log_watch *watch,
                                   struct rlog_loaded *ret);

#endif
