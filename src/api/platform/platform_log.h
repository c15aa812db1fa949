/* The logs of plans and applies: bytes that grow, read at any offset while they do.
 *
 *   s/platform/log/ID/at/OFFSET   a piece, at most PLATFORM_LOG_PIECE bytes; OFFSET in 12 hex
 * digits s/platform/log/ID/mark        how long the log is, where its last piece begins, whether it
 * ended
 *
 * A worker appends at an offset. A reader sees one byte 0x02, the bytes of the worker, and one byte
 * 0x03 once the log has ended: its offsets count the first byte too. Source: spec/platform.md 2.8.
 *
 * 1. Appending is idempotent: bytes below the length of the log are stored already.
 * 2. A short last piece is put again together with the bytes behind it, so that a log of many short
 *    appends has few pieces. Pieces follow each other without a gap.
 * 3. A log has at most log_bytes_max bytes (configuration). What is beyond is cut, and a line says
 *    so. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_LOG_H
#define HOLDFAST_API_PLATFORM_PLATFORM_LOG_H

#include "base/buf.h"
#include "state/state.h"

enum {
    PLATFORM_LOG_PIECE = 64 * 1024,
    PLATFORM_LOG_SHORT = 16 * 1024, /* a last piece below this is put again */
};

/* How many bytes the worker's part of the log has; 0: there is no log yet. */
NODISCARD enum status platform_log_length(struct state_txn *txn, const char *id,
                                          uint64_t *ret_length);
/* Stage bytes at an offset. *ret_length: of the log afterwards, set also with ST_REFUSED.
 * ST_REFUSED: there is a gap before the offset. ST_EXISTS: the log has ended. Else as state_put. */
NODISCARD enum status platform_log_append(struct state_txn *txn, const char *id, uint64_t offset,
                                          struct bytes data, uint64_t *ret_length);
/* Stage the end of the log, with a last line; "": none. A log that has ended stays as it is. */
NODISCARD enum status platform_log_end(struct state_txn *txn, const char *id, const char *line);
/* Append the bytes from `offset` on that a reader sees, at most `limit`. As state_get. */
NODISCARD enum status platform_log_read(struct state_txn *txn, const char *id, uint64_t offset,
                                        size_t limit, struct buf *out);
/* Stage the deletion of a log. As state_delete. */
NODISCARD enum status platform_log_delete(struct state_txn *txn, const char *id);

#endif
