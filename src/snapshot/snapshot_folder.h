/* Snapshots that the node keeps in a folder outside its data directory. A part of
 * sys/storage/raft/snapshot-auto, which decides when.
 *
 *   PREFIX-NANOSECONDS.snap       a whole snapshot; 19 digits, so names are in the order of time
 *   PREFIX-NANOSECONDS.snap.part  a snapshot that is being written
 *
 * save: delete what an earlier process left half-written ─▶ write .part ─▶ sync ─▶ read back and
 * compare ─▶ rename ─▶ sync the folder. A failure deletes the file again.
 *
 * 1. Only names of this form with the folder's own prefix are counted or deleted.
 * 2. The files never have more than `bytes_max` together, the one that is being written included.
 * 3. On the disk of the data directory, a snapshot leaves what snapshot_room leaves.
 *
 * The functions block; call them on any thread but the raft thread. */
#ifndef HOLDFAST_SNAPSHOT_SNAPSHOT_FOLDER_H
#define HOLDFAST_SNAPSHOT_SNAPSHOT_FOLDER_H

#include "snapshot/snapshot.h"

enum {
    SNAPSHOT_PREFIX_MAX = 64,
    SNAPSHOT_NAME_MAX = SNAPSHOT_PREFIX_MAX + sizeof "-0000000000000000000.snap.part" - 1,
};

struct snapshot_folder {
    struct fs *fs;      /* the folder is the root */
    const char *prefix; /* begins the names: 1 to SNAPSHOT_PREFIX_MAX characters, no '/' */
    uint64_t retain;    /* how many snapshots to keep, 1 or more */
    uint64_t bytes_max;
    bool same_disk; /* the data directory lies on the same file system */
    /* Whether to give up; asked between two pieces of work. */
    bool (*stop)(void *ctx);
    void *ctx;
};

/* Save a snapshot of the state now and check what the disk has of it. `time_ms` names the file;
 * *ret_name is zero-terminated. ST_EXISTS: the folder has a snapshot of that time. ST_TOO_BIG: it
 * does not fit into bytes_max. ST_CORRUPT: the disk gives back something else than was written.
 * ST_CLOSED: `stop`. ST_NO_SPACE, ST_IO, ST_NOT_FOUND, and what snapshot_save fails with; all with
 * a reason. */
NODISCARD enum status snapshot_folder_save(struct snapshot *s, const struct snapshot_folder *folder,
                                           int64_t time_ms, char ret_name[SNAPSHOT_NAME_MAX + 1],
                                           struct reason *reason);
/* Delete the oldest snapshots until `retain` are left. ST_NOT_FOUND: the folder is gone. ST_IO. */
NODISCARD enum status snapshot_folder_prune(const struct snapshot_folder *folder);
/* Delete the snapshot of this time. ST_NOT_FOUND: there is none. ST_IO. */
NODISCARD enum status snapshot_folder_drop(const struct snapshot_folder *folder, int64_t time_ms);

#endif
