/* Any bytes as a snapshot file, as a peer may send one. Checksums are made right first when the
 * first byte is odd, so that what lies behind them is reached. */
#include "base/crc32c.h"
#include "raft/snapshot/rlog_snap_format.h"
#include "ram_files.h"

enum { SIZE_MAX_BYTES = 512 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore_line(void *ctx, const char *text)
{
    size_t *n = ctx;
    *n += strlen(text);
}

static void fix_sums(uint8_t *d, size_t size)
{
    if (size < SNAP_HEADER)
        return;
    le32_put(d + SNAP_HEADER - 4, crc32c(0, bytes_of(d, SNAP_HEADER - 4)));
    for (size_t off = SNAP_HEADER; size - off >= SNAP_CHUNK_HEADER;) {
        uint8_t *at = d + off;
        size_t stored = le32_get(at + 12);
        if (at[2] == 't' && size - off >= SNAP_TRAILER) {
            le64_put(at + 24, size);
            le32_put(at + 44, crc32c(0, bytes_of(at, 44)));
            return;
        }
        if (stored > size - off - SNAP_CHUNK_HEADER)
            return;
        uint32_t crc = crc32c(0, bytes_of(at, 20));
        le32_put(at + 20, crc32c(crc, bytes_of(at + SNAP_CHUNK_HEADER, stored)));
        off += SNAP_CHUNK_HEADER + stored;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t copy[SIZE_MAX_BYTES];
    struct ram_fs ram;
    struct snap_scan scan;
    struct bytes content;
    struct fs_file *file = NULL;
    size_t said = 0;

    if (size < 1 || size > sizeof copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    if ((data[0] & 1) != 0)
        fix_sums(copy, size - 1);
    ram_init(&ram);
    ram_add(&ram, "d", "x.snap", bytes_of(copy, size - 1));
    enum status dumped = rlog_dump_snapshot(&ram.fs, "d/x.snap", ignore_line, &said);
    ASSERT(said > 0);
    if (fs_open(&ram.fs, "d/x.snap", FS_READ, &file) != ST_OK)
        return 0;
    enum status st = snap_scan_init(&scan, file);
    uint64_t total = 0;
    while (st == ST_OK && !scan.ended) {
        st = snap_scan_next(&scan, &content);
        ASSERT(st != ST_OK || content.len <= SNAP_CHUNK_MAX);
        total += st == ST_OK ? content.len : 0;
    }
    ASSERT(st == dumped);
    ASSERT(st != ST_OK || (total == scan.content && scan.meta.index > 0));
    snap_scan_done(&scan);
    fs_close(file);
    return 0;
}
