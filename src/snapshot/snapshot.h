/* Snapshots for operators: the whole replicated state as a file, and back
 * (raft/snapshot/rlog_archive.h). A part of the node (cluster/membership/part.h).
 *
 *   save     pin ─▶ write an archive to a file without a name
 *   restore  read and check the archive ─▶ begin a staged tree ─▶ read the archive again and put
 * its keys, a bounded transaction at a time ─▶ swap
 *
 * 1. Both run on the caller's thread, one at a time on a node. The raft thread only pins the state
 *    and proposes transactions.
 * 2. Until the swap is applied the old state is whole, on every node. The restore that begins a
 *    staged tree owns it (PROTOCOL R8a); the next active node drops a tree whose owner has gone.
 * 3. The swap also writes STATE_RESTORED, so that nothing which was decided or encrypted before it
 *    takes effect after it, and decides about the local key ring. Under the same root key the ring
 *    stays. Where a seal configured here, disabled or not, opens the other root key, the ring is
 *    wrapped anew.
 *    Otherwise no node can wrap it: the ring is deleted, and the first active node that was
 *    unsealed makes another. The remembered replies to repeated requests are lost with the ring;
 *    they were made in the old state, and a client that repeats such a request learns that its
 *    outcome is unknown. */
#ifndef HOLDFAST_SNAPSHOT_SNAPSHOT_H
#define HOLDFAST_SNAPSHOT_SNAPSHOT_H

#include "cluster/membership/part.h"

struct fs_file;

struct snapshot {
    struct part_host *host;
    const struct seal *seal;        /* configured seal; NULL: none */
    const struct seal *former_seal; /* the disabled one; NULL: none, or of key shares */
    uint64_t state_bytes_max;       /* most bytes of the state; 0: no limit */
    uint64_t reserve_bytes;         /* bytes of the disk to leave free; 0: the default */

    _Atomic bool busy;      /* one snapshot is being saved or restored */
    _Atomic uint64_t files; /* number of files made, for their names */
    uint64_t dropped_stage; /* the staged tree whose drop was last proposed; 0: none */
};

extern const struct part snapshot_part;

/* The functions below block; call them on any thread but the raft thread. */

/* Open a file without a name in the data directory; closing deletes it. ST_IO, ST_NO_SPACE. */
NODISCARD enum status snapshot_file(struct snapshot *s, struct fs_file **ret_file);
/* Whether the disk has room for some more megabytes of such a file. */
bool snapshot_room(struct snapshot *s);
/* Write a state no older than the call to a new file of snapshot_file. ST_BUSY with a reason;
 * ST_SEALED, ST_NO_SPACE, ST_IO, ST_NOMEM, ST_CRYPTO, ST_CLOSED. */
NODISCARD enum status snapshot_save(struct snapshot *s, struct fs_file **ret_file,
                                    uint64_t *ret_bytes, struct reason *reason);

/* A snapshot to restore. */
struct snapshot_source {
    struct fs_file *file; /* file with the snapshot; borrowed */
    uint64_t bytes;
    bool force; /* accept a snapshot of another root key */
};
/* Replace the replicated state by a snapshot, on every node, at once or not at all. `env` is the
 * caller's. ST_INVALID, ST_TOO_BIG with a reason: the snapshot is refused. ST_BUSY, ST_NO_SPACE,
 * ST_CLOSED, ST_SEALED: nothing was changed. ST_UNKNOWN_OUTCOME: the leader changed in the last
 * moment. */
NODISCARD enum status snapshot_restore(struct snapshot *s, struct env *env,
                                       const struct snapshot_source *source, struct reason *reason);

#endif
