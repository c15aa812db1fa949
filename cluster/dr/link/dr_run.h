/* A run of WAL records on its way: cut into frames by the primary, joined by the secondary.
 *
 * Most runs fit one frame. A run that holds a record of more than DR_RAW_MAX bytes travels in
 * several frames, which follow each other without other frames of WAL between them. One thread at
 * a time. */
#ifndef HOLDFAST_CLUSTER_DR_LINK_DR_RUN_H
#define HOLDFAST_CLUSTER_DR_LINK_DR_RUN_H

#include "base/buf.h"
#include "cluster/dr/link/dr_frame.h"

/* A run being joined. Zero-initialise. */
struct dr_run {
    uint64_t first, last;
    uint32_t bytes, got; /* bytes of the run, and bytes that came; got 0: no run has begun */
    struct buf raw;
};

/* Add the content of a frame. ST_OK: the run is whole; its records are borrowed until the next call
 * from `run` or from the frame. ST_NOT_FOUND: more frames belong to the run. ST_INVALID: the frame
 * does not continue the run, or its block does not decompress. ST_NOMEM. After an error the run is
 * of no use but for dr_run_done. */
NODISCARD enum status dr_run_add(struct dr_run *run, const struct dr_wal *wal,
                                 struct bytes *ret_records);
/* Release the memory, wiped. */
void dr_run_done(struct dr_run *run);
/* Fill in the frame for the bytes of a run from `at` on: one call for each frame, until `at` plus
 * raw_bytes is the length of the run. `room` has DR_RAW_MAX bytes and is borrowed by the frame.
 * `ret_wal` has `first` and `last`. */
void dr_run_cut(struct bytes records, size_t at, uint8_t *room, struct dr_wal *ret_wal);

#endif
