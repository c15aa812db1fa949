#include "raft/snapshot/rlog_snap_format.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "raft/disk/rlog_disk_format.h"

#include <lz4.h>

static const char header_magic[8] = {'H', 'F', 'S', 'N', 'A', 'P', '0', '1'};
static const uint32_t chunk_magic = 0x31634648;   /* the bytes "HFc1" */
static const uint32_t trailer_magic = 0x31744648; /* the bytes "HFt1" */

enum { HEADER_CONF = 48, HEADER_CRC = SNAP_HEADER - 4, CHUNK_CRC = 20, TRAILER_CRC = 44 };

void snap_header_encode(const struct rlog_snapshot_meta *meta, uint8_t header[SNAP_HEADER])
{
    ASSERT(meta->index > 0);
    ASSERT(meta->conf_len <= sizeof meta->conf);
    memset(header, 0, SNAP_HEADER);
    memcpy(header, header_magic, 8);
    le32_put(header + 8, SNAP_VERSION);
    le32_put(header + 12, SNAP_CHUNK_MAX);
    le64_put(header + 16, meta->index);
    le64_put(header + 24, meta->term);
    le64_put(header + 32, meta->conf_index);
    le32_put(header + 40, meta->conf_len);
    memcpy(header + HEADER_CONF, meta->conf, meta->conf_len);
    le32_put(header + HEADER_CRC, crc32c(0, bytes_of(header, HEADER_CRC)));
}

bool snap_header_decode(const uint8_t header[SNAP_HEADER], struct rlog_snapshot_meta *ret)
{
    if (memcmp(header, header_magic, 8) != 0 || le32_get(header + 8) != SNAP_VERSION ||
        le32_get(header + 12) != SNAP_CHUNK_MAX ||
        le32_get(header + HEADER_CRC) != crc32c(0, bytes_of(header, HEADER_CRC)))
        return false;
    struct rlog_snapshot_meta meta = {.index = le64_get(header + 16),
                                      .term = le64_get(header + 24),
                                      .conf_index = le64_get(header + 32),
                                      .conf_len = le32_get(header + 40)};
    if (meta.index == 0 || meta.index > UINT64_MAX / 2 || meta.conf_index > meta.index ||
        meta.conf_len > sizeof meta.conf)
        return false;
    memcpy(meta.conf, header + HEADER_CONF, meta.conf_len);
    *ret = meta;
    return true;
}

static uint32_t chunk_crc(const uint8_t *chunk, size_t stored)
{
    return crc32c(crc32c(0, bytes_of(chunk, CHUNK_CRC)),
                  bytes_of(chunk + SNAP_CHUNK_HEADER, stored));
}

size_t snap_chunk_encode(struct bytes content, uint64_t number, uint8_t *out, uint32_t *ret_crc)
{
    ASSERT(content.len > 0 && content.len <= SNAP_CHUNK_MAX);
    uint8_t *data = out + SNAP_CHUNK_HEADER;
    int packed = LZ4_compress_default((const char *)content.data, (char *)data, (int)content.len,
                                      (int)content.len - 1);
    size_t stored = packed > 0 ? (size_t)packed : content.len;
    ASSERT(stored <= content.len);
    if (packed <= 0) /* compression would not make the block smaller */
        memcpy(data, content.data, content.len);
    le32_put(out, chunk_magic);
    le32_put(out + 4, (uint32_t)number);
    le32_put(out + 8, (uint32_t)content.len);
    le32_put(out + 12, (uint32_t)stored);
    le32_put(out + 16, packed > 0 ? SNAP_LZ4 : 0);
    uint32_t crc = chunk_crc(out, stored);
    le32_put(out + CHUNK_CRC, crc);
    *ret_crc = crc;
    return SNAP_CHUNK_HEADER + stored;
}

void snap_trailer_encode(const struct snap_totals *totals, uint8_t trailer[SNAP_TRAILER])
{
    ASSERT(totals->file_bytes >= SNAP_HEADER + SNAP_TRAILER);
    memset(trailer, 0, SNAP_TRAILER);
    le32_put(trailer, trailer_magic);
    le64_put(trailer + 8, totals->chunks);
    le64_put(trailer + 16, totals->content);
    le64_put(trailer + 24, totals->file_bytes);
    le64_put(trailer + 32, totals->chain);
    le32_put(trailer + TRAILER_CRC, crc32c(0, bytes_of(trailer, TRAILER_CRC)));
}

static enum status corrupt(struct snap_scan *s, const char *what)
{
    reason_set(&s->reason, "chunk %llu at offset %llu: %s", (unsigned long long)s->chunks,
               (unsigned long long)s->off, what);
    return ST_CORRUPT;
}

static enum status read_exact(struct snap_scan *s, void *buf, size_t n, uint64_t off)
{
    size_t got = 0;
    TRY(fs_read_at(s->file, buf, n, off, &got));
    return got == n ? ST_OK : corrupt(s, "the file ends here");
}

enum status snap_scan_init(struct snap_scan *s, struct fs_file *file)
{
    *s = (struct snap_scan){.file = file};
    s->stored = mem_alloc(SNAP_CHUNK_HEADER + SNAP_CHUNK_MAX);
    s->plain = mem_alloc(SNAP_CHUNK_MAX);
    if (s->stored == NULL || s->plain == NULL)
        return ST_NOMEM;
    TRY(fs_size(file, &s->size));
    TRY(read_exact(s, s->stored, SNAP_HEADER, 0));
    if (!snap_header_decode(s->stored, &s->meta)) {
        reason_set(&s->reason, "the header is damaged");
        return ST_CORRUPT;
    }
    s->meta.bytes = s->size;
    s->off = SNAP_HEADER;
    return ST_OK;
}

static enum status trailer_read(struct snap_scan *s)
{
    const uint8_t *t = s->stored;
    ASSERT(!s->ended);
    TRY(read_exact(s, s->stored, SNAP_TRAILER, s->off));
    if (le32_get(t + TRAILER_CRC) != crc32c(0, bytes_of(t, TRAILER_CRC)))
        return corrupt(s, "the trailer is damaged");
    if (le64_get(t + 8) != s->chunks || le64_get(t + 16) != s->content ||
        le64_get(t + 24) != s->size || le64_get(t + 32) != s->chain ||
        s->off + SNAP_TRAILER != s->size)
        return corrupt(s, "the trailer does not agree with what precedes it");
    s->ended = true;
    return ST_OK;
}

static enum status chunk_read(struct snap_scan *s, struct bytes *ret_content)
{
    const uint8_t *c = s->stored, *data = c + SNAP_CHUNK_HEADER;
    uint32_t plain = le32_get(c + 8), stored = le32_get(c + 12), flags = le32_get(c + 16);
    ASSERT(!s->ended);
    if (le32_get(c + 4) != (uint32_t)s->chunks || plain == 0 || plain > SNAP_CHUNK_MAX ||
        stored == 0 || stored > plain || flags > SNAP_LZ4 || (flags == 0 && stored != plain))
        return corrupt(s, "its header is not well-formed");
    ASSERT(stored <= SNAP_CHUNK_MAX);
    TRY(read_exact(s, s->stored + SNAP_CHUNK_HEADER, stored, s->off + SNAP_CHUNK_HEADER));
    uint32_t crc = chunk_crc(c, stored);
    if (crc != le32_get(c + CHUNK_CRC))
        return corrupt(s, "it does not match its checksum");
    struct bytes content = bytes_of(data, stored);
    if (flags == SNAP_LZ4) {
        int n =
            LZ4_decompress_safe((const char *)data, (char *)s->plain, (int)stored, SNAP_CHUNK_MAX);
        if (n != (int)plain)
            return corrupt(s, "it does not decompress");
        content = bytes_of(s->plain, plain);
    }
    s->off += SNAP_CHUNK_HEADER + stored;
    s->chunks++;
    s->content += plain;
    s->chain = chain_next(s->chain, crc);
    *ret_content = content;
    return ST_OK;
}

enum status snap_scan_next(struct snap_scan *s, struct bytes *ret_content)
{
    *ret_content = (struct bytes){0};
    if (s->ended)
        return ST_OK;
    TRY(read_exact(s, s->stored, SNAP_CHUNK_HEADER, s->off));
    uint32_t magic = le32_get(s->stored);
    if (magic == chunk_magic)
        return chunk_read(s, ret_content);
    return magic == trailer_magic ? trailer_read(s) : corrupt(s, "neither chunk nor trailer");
}

void snap_scan_done(struct snap_scan *s)
{
    mem_free(s->stored);
    mem_free(s->plain);
    s->stored = s->plain = NULL;
}

enum status snap_verify(struct fs_file *file, struct rlog_snapshot_meta *ret_meta,
                        struct reason *reason)
{
    struct snap_scan scan;
    struct bytes content;
    enum status st = snap_scan_init(&scan, file);
    while (st == ST_OK && !scan.ended)
        st = snap_scan_next(&scan, &content);
    if (st == ST_OK)
        *ret_meta = scan.meta;
    else
        reason_set(reason, "%s", st == ST_CORRUPT ? scan.reason.text : status_text(st));
    snap_scan_done(&scan);
    return st;
}
