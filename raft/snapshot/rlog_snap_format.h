/* Bytes of a snapshot file.
 *
 *   header   4096 bytes: magic, version, meta, CRC-32C over all of it
 *   chunk    24 bytes: magic, number, content bytes, stored bytes, flags, CRC-32C of header and
 *            stored bytes; then the stored bytes: an LZ4 block or the content itself
 *   ...
 *   trailer  48 bytes: magic, 0, chunks, content bytes, file bytes, chain of the chunks' sums, 0,
 *            CRC-32C
 *
 * Nothing follows the trailer. A file is valid only if all of it was read and checked. */
#ifndef HOLDFAST_RAFT_SNAPSHOT_RLOG_SNAP_FORMAT_H
#define HOLDFAST_RAFT_SNAPSHOT_RLOG_SNAP_FORMAT_H

#include "raft/disk/rlog_disk.h"

enum {
    SNAP_VERSION = 1,
    SNAP_HEADER = 4096,
    SNAP_CHUNK_HEADER = 24,
    SNAP_TRAILER = 48,
    SNAP_CHUNK_MAX = 256 * 1024,
    SNAP_LZ4 = 1,
};

/* The header of a snapshot file. False: damaged, or of another version. */
void snap_header_encode(const struct rlog_snapshot_meta *meta, uint8_t header[SNAP_HEADER]);
bool snap_header_decode(const uint8_t header[SNAP_HEADER], struct rlog_snapshot_meta *ret);

/* Reads a file from its beginning, checking everything on the way. */
struct snap_scan {
    struct fs_file *file;
    uint64_t off, size;
    uint64_t chunks, content; /* number of chunks and bytes of content read so far */
    uint64_t chain;
    bool ended; /* the trailer was read and matches */
    struct rlog_snapshot_meta meta;
    /* buffers of SNAP_CHUNK_HEADER + SNAP_CHUNK_MAX and of SNAP_CHUNK_MAX bytes */
    uint8_t *stored, *plain;
    struct reason reason; /* for ST_CORRUPT: where the damage is */
};
/* Read the header. The caller owns the file. ST_CORRUPT, ST_NOMEM, ST_IO; call snap_scan_done in
 * any case. */
NODISCARD enum status snap_scan_init(struct snap_scan *scan, struct fs_file *file);
/* The content of the next chunk; empty after a trailer that matches. */
NODISCARD enum status snap_scan_next(struct snap_scan *scan, struct bytes *ret_content);
void snap_scan_done(struct snap_scan *scan);
/* Read and check the whole file. */
NODISCARD enum status snap_verify(struct fs_file *file, struct rlog_snapshot_meta *ret_meta,
                                  struct reason *reason);

/* Encode one chunk with its header into `out` (SNAP_CHUNK_HEADER + SNAP_CHUNK_MAX bytes). */
size_t snap_chunk_encode(struct bytes content, uint64_t number, uint8_t *out, uint32_t *ret_crc);
struct snap_totals {
    uint64_t chunks, content, file_bytes, chain;
};
void snap_trailer_encode(const struct snap_totals *totals, uint8_t trailer[SNAP_TRAILER]);

#endif
