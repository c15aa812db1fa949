/* Counts the keys of an archive by prefix, without any key of the seal: names of keys are in clear,
 * values are encrypted.
 *
 * A name here is a key without its segment "s/". A group holds the keys that begin with the same
 * `depth` parts between slashes, "core/" for the depth 1; a key with fewer parts is a group of its
 * own, without a slash at its end. Archives have their keys in order, so the keys of a group follow
 * each other, and only the newest group can grow. */
#ifndef HOLDFAST_RAFT_SNAPSHOT_RLOG_INSPECT_H
#define HOLDFAST_RAFT_SNAPSHOT_RLOG_INSPECT_H

#include "base/arena.h"
#include "raft/snapshot/rlog_archive.h"

struct fs;

/* Most groups, and most bytes of their names. Keys of further groups are counted together. */
enum { RLOG_INSPECT_GROUPS_MAX = 65536, RLOG_INSPECT_NAMES_MAX = 16 * 1024 * 1024 };

struct rlog_inspect_options {
    bool groups;         /* count keys by group */
    uint64_t depth;      /* parts of a name that make a group; 0: all, each key is a group */
    struct bytes filter; /* count only keys whose names begin with this; empty: all keys */
};

struct rlog_inspect_count {
    uint64_t keys, bytes; /* bytes of the names, with "s/", and of the values as stored */
};

struct rlog_inspect_group {
    struct bytes name; /* any bytes; in the arena */
    struct rlog_inspect_count count;
};

struct rlog_inspect {
    struct rlog_archive_found *found;  /* in the arena */
    struct rlog_inspect_group *groups; /* the ones with the most keys first, then by name */
    size_t n_groups;
    struct rlog_inspect_count total, others; /* others: keys of groups beyond the bounds */
};

/* Read all of an archive. `ret` is valid only with ST_OK, that is, if the archive is whole; it lies
 * in the arena. `in->key` is not used. Statuses of rlog_archive_read. */
NODISCARD enum status rlog_inspect(const struct rlog_archive_in *in,
                                   const struct rlog_inspect_options *options, struct arena *arena,
                                   struct rlog_inspect *ret, struct reason *reason);
/* The same for a file. Also ST_NOT_FOUND, ST_IO. */
NODISCARD enum status rlog_inspect_file(struct fs *fs, const char *path,
                                        const struct rlog_inspect_options *options,
                                        struct arena *arena, struct rlog_inspect *ret,
                                        struct reason *reason);

#endif
