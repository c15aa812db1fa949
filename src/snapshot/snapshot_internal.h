/* Shared by the files of this folder, and private to it. */
#ifndef HOLDFAST_SNAPSHOT_SNAPSHOT_INTERNAL_H
#define HOLDFAST_SNAPSHOT_SNAPSHOT_INTERNAL_H

#include "cluster/membership/wait.h"
#include "snapshot/snapshot.h"

enum {
    SNAPSHOT_PROOF_BYTES = 1 + BARRIER_MAC_BYTES,
    SNAPSHOT_ROOM_EVERY_BYTES = 8 * 1024 * 1024,
};

/* Claim the node's one place for saving or restoring. ST_BUSY with a reason. */
NODISCARD enum status snapshot_begin(struct snapshot *s, struct reason *reason);
void snapshot_end(struct snapshot *s);
/* The proof that the checksums `sums` were made under our root key. ST_SEALED, ST_NOMEM, ST_CRYPTO.
 */
NODISCARD enum status snapshot_prove(struct snapshot *s, struct bytes sums,
                                     uint8_t ret_proof[SNAPSHOT_PROOF_BYTES]);
/* Where the archive of a saved state goes. */
struct snapshot_target {
    /* Take the next piece. A failure ends the saving and is returned. */
    enum status (*write)(void *ctx, struct bytes piece);
    void *ctx;
};
/* Write a state no older than the call to the target; *ret_proof is its SHA256SUMS.sealed. Blocks,
 * on any thread but the raft thread. ST_BUSY with a reason; ST_SEALED, ST_NOMEM, ST_CRYPTO,
 * ST_CLOSED, or what the target fails with. */
NODISCARD enum status snapshot_write(struct snapshot *s, const struct snapshot_target *target,
                                     uint8_t ret_proof[SNAPSHOT_PROOF_BYTES],
                                     struct reason *reason);
/* Whether the replica must not be used any more. Raft thread. */
static inline bool snapshot_closed(const struct snapshot *s)
{
    return s->host->stopping || s->host->replica_closed;
}

#endif
