/* Any bytes as a snapshot file, as a peer may send one. Checksums are made right first when the
 * first byte is odd, so that what lies behind them is reached. */
#include "base/buf.h"
#include "base/crc32c.h"
#include "raft/disk/rlog_disk_format.h"
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

/* A snapshot that is written chunk by chunk. */
struct writer {
    struct buf file;
    struct snap_totals totals;
};

static void writer_done(struct writer *w)
{
    buf_done(&w->file);
}

static void write_header(struct writer *w, const struct rlog_snapshot_meta *meta)
{
    uint8_t header[SNAP_HEADER];
    snap_header_encode(meta, header);
    buf_add(&w->file, bytes_of(header, sizeof header));
}

static void write_chunk(struct writer *w, struct bytes content)
{
    static uint8_t out[SNAP_CHUNK_HEADER + SNAP_CHUNK_MAX];
    uint32_t crc;
    size_t len = snap_chunk_encode(content, w->totals.chunks, out, &crc);
    buf_add(&w->file, bytes_of(out, len));
    w->totals.chunks++;
    w->totals.content += content.len;
    w->totals.chain = chain_next(w->totals.chain, crc);
}

/* What was read and is written again is a whole snapshot with the same description. */
static void write_end(struct writer *w, const struct rlog_snapshot_meta *meta)
{
    uint8_t trailer[SNAP_TRAILER];
    struct rlog_snapshot_meta again = {0};
    struct fs_file *file = NULL;
    struct reason why;
    struct ram_fs ram;
    w->totals.file_bytes = w->file.len + SNAP_TRAILER;
    snap_trailer_encode(&w->totals, trailer);
    buf_add(&w->file, bytes_of(trailer, sizeof trailer));
    ASSERT(buf_status(&w->file) == ST_OK);
    ram_init(&ram);
    ram_add(&ram, "d", "x.snap", buf_bytes(&w->file));
    ASSERT(fs_open(&ram.fs, "d/x.snap", FS_READ, &file) == ST_OK);
    ASSERT(snap_verify(file, &again, &why) == ST_OK);
    ASSERT(again.index == meta->index && again.conf_len == meta->conf_len);
    ASSERT(memcmp(again.conf, meta->conf, meta->conf_len) == 0);
    fs_close(file);
}

/* Read the whole file to its end. */
static enum status read_all(struct snap_scan *scan, uint64_t *ret_total, struct writer *w)
{
    struct bytes content;
    enum status st = ST_OK;
    write_header(w, &scan->meta);
    while (st == ST_OK && !scan->ended) {
        st = snap_scan_next(scan, &content);
        if (st != ST_OK || scan->ended)
            break;
        ASSERT(content.len <= SNAP_CHUNK_MAX);
        write_chunk(w, content);
        *ret_total += content.len;
    }
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(writer_done) struct writer writer = {0};
    static uint8_t copy[SIZE_MAX_BYTES];
    struct ram_fs ram;
    struct snap_scan scan;
    struct rlog_snapshot_meta meta = {0};
    struct fs_file *file = NULL;
    struct reason why = {0};
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
    if (st == ST_OK)
        st = read_all(&scan, &total, &writer);
    ASSERT(st == dumped && snap_verify(file, &meta, &why) == st);
    ASSERT(st != ST_OK || (total == scan.content && scan.meta.index > 0));
    if (st == ST_OK)
        write_end(&writer, &scan.meta);
    snap_scan_done(&scan);
    fs_close(file);
    return 0;
}
