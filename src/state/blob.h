/* Large values: chunks under ordinary keys, put by several transactions.
 *
 *   s/blob/chunk/ID/NNNNNNNN   BLOB_CHUNK_BYTES each, the last one may be shorter
 *   s/blob/whole/ID            the manifest: length and SHA-256; the blob exists when this key does
 *   s/blob/open/TIME/ID        a blob whose manifest is not stored yet; deleted with its chunks
 *                              BLOB_OPEN_MS after TIME
 *
 * An id is random, and used once. Log, snapshots, restore and disaster recovery see ordinary keys.
 *
 * 1. The manifest is put by the transaction that refers to the blob, after all chunks.
 * 2. Reading checks length and digest: a blob is whole or ST_CORRUPT. */
#ifndef HOLDFAST_STATE_BLOB_H
#define HOLDFAST_STATE_BLOB_H

#include "base/env.h"
#include "state/state.h"

enum {
    BLOB_CHUNK_BYTES = 512 * 1024,
    BLOB_TURN_CHUNKS = 6, /* chunks of one transaction */
    BLOB_ID_LEN = 24,
    BLOB_OPEN_MS = 3600 * 1000,
};

/* Draw a new id, terminated. */
void blob_id(struct env *env, char ret_id[BLOB_ID_LEN + 1]);
/* Stage the chunks of one turn, counted from 0. The first turn also notes that the blob is open, as
 * of `now_ms`. *ret_more: there are more turns. As state_put. */
NODISCARD enum status blob_put(struct state_txn *txn, const char *id, struct bytes content,
                               unsigned turn, int64_t now_ms, bool *ret_more);
/* Stage the manifest of a blob whose chunks are stored or staged; `opened_ms` is the time of the
 * first turn. As state_put; ST_CRYPTO. */
NODISCARD enum status blob_close(struct state_txn *txn, const char *id, struct bytes content,
                                 int64_t opened_ms);
/* Read a blob into the arena. ST_NOT_FOUND; ST_CORRUPT; else as state_get. */
NODISCARD enum status blob_read(struct state_txn *txn, const char *id, struct bytes *ret_content);
/* Stage the deletion of a blob, also of an open one. As state_delete. */
NODISCARD enum status blob_delete(struct state_txn *txn, const char *id);
/* About how many bytes all blobs have. No precondition. */
uint64_t blob_total(const struct state_txn *txn);
/* Duty: delete blobs that stayed open. */
NODISCARD enum status blob_sweep(struct state_txn *txn, int64_t now_ms);

#endif
