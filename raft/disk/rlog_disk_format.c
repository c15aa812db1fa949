#include "raft/disk/rlog_disk_format.h"
#include "base/crc32c.h"

#include <assert.h>

enum { AT_SEQ = 500, AT_KIND = 504, AT_CRC = 506, AT_MARK = 510 };

static const char segment_magic[8] = {'H', 'F', 'L', 'O', 'G', 'S', 'E', 'G'};
static const uint32_t batch_magic = 0x31624648; /* the bytes "HFb1" */
static const char vote_file_magic[8] = {'H', 'F', 'S', 'L', 'O', 'T', '0', '1'};
static const char identity_magic[8] = {'H', 'F', 'I', 'D', 'E', 'N', 'T', '1'};
static const char install_magic[8] = {'H', 'F', 'I', 'N', 'S', 'T', '0', '1'};

static_assert((int)SECTOR_DATA == (int)AT_SEQ && AT_MARK + 2 == (int)SECTOR, "sector layout");
static_assert(BATCH_MAX + BATCH_HEADER + (BATCH_MAX / SECTOR_DATA + 3) * (SECTOR - SECTOR_DATA) +
                      2 * SECTOR <
                  SEGMENT_MAX,
              "the largest batch fits the largest segment");

uint32_t segment_salt(uint64_t id, uint64_t number)
{
    uint8_t raw[16];
    le64_put(raw, id);
    le64_put(raw + 8, number);
    return crc32c(0, bytes_of(raw, sizeof raw));
}

uint64_t chain_next(uint64_t chain, uint32_t crc)
{
    uint64_t x = (chain ^ crc) * 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}

static uint32_t sector_crc(const uint8_t *sector, uint32_t salt, uint64_t number)
{
    return crc32c(salt ^ (uint32_t)number, bytes_of(sector, AT_CRC));
}

/* The number of set bits; counting stops above `enough`. */
static unsigned bits_set(const uint8_t *sector, unsigned enough)
{
    unsigned n = 0;
    for (size_t i = 0; i < SECTOR && n <= enough; i += 8)
        n += (unsigned)__builtin_popcountll(le64_get(sector + i));
    return n;
}

struct sector_info sector_read(const uint8_t *sector, uint32_t salt, uint64_t number)
{
    struct sector_info info = {.state = SECTOR_DAMAGED};
    uint32_t crc = le32_get(sector + AT_CRC);
    uint16_t mark = le16_get(sector + AT_MARK), kind = le16_get(sector + AT_KIND);

    if (mark == SECTOR_MARK && crc == sector_crc(sector, salt, number)) {
        if (kind < SECTOR_SEGMENT || kind > SECTOR_REST)
            return info;
        return (struct sector_info){SECTOR_WHOLE, (enum sector_kind)kind, le32_get(sector + AT_SEQ),
                                    crc};
    }
    if (bits_set(sector, SECTOR_NOISE_BITS) <= SECTOR_NOISE_BITS)
        info.state = SECTOR_UNWRITTEN;
    else if (mark == 0 || mark == (SECTOR_MARK & 0xFF)) /* cut before the last byte */
        info.state = SECTOR_CUT;
    return info;
}

static void sector_close(struct sector_writer *w)
{
    uint8_t *s = w->at;
    memset(s + w->fill, 0, SECTOR_DATA - w->fill);
    le32_put(s + AT_SEQ, w->seq);
    le16_put(s + AT_KIND, (uint16_t)w->kind);
    uint32_t crc = sector_crc(s, w->salt, w->number);
    le32_put(s + AT_CRC, crc);
    le16_put(s + AT_MARK, SECTOR_MARK);
    if (w->kind != SECTOR_SEGMENT)
        w->chain = chain_next(w->chain, crc);
    w->at += SECTOR;
    w->number++;
    w->fill = 0;
    w->kind = SECTOR_REST;
}

void sector_put(struct sector_writer *w, struct bytes data)
{
    while (data.len != 0) {
        size_t n = MIN(data.len, SECTOR_DATA - w->fill);
        memcpy(w->at + w->fill, data.data, n);
        w->fill += n;
        data = bytes_from(data, n);
        if (w->fill == SECTOR_DATA)
            sector_close(w);
    }
}

void sector_flush(struct sector_writer *w)
{
    if (w->fill != 0)
        sector_close(w);
}

void segment_header_write(struct sector_writer *w, const struct segment_header *h)
{
    uint8_t raw[SECTOR_DATA] = {0};
    ASSERT(w->fill == 0 && w->number == 0);
    memcpy(raw, segment_magic, 8);
    le32_put(raw + 8, SEGMENT_VERSION);
    le32_put(raw + 12, h->flags);
    const uint64_t numbers[] = {h->id,        h->number, h->size,  h->start,
                                h->prev_term, h->seq,    h->chain, h->prev_end};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        le64_put(raw + 16 + 8 * i, numbers[i]);
    w->kind = SECTOR_SEGMENT;
    w->seq = (uint32_t)h->seq;
    sector_put(w, bytes_of(raw, sizeof raw));
}

enum status segment_header_read(const uint8_t *sector, struct segment_header *ret)
{
    uint64_t n[8];
    if (memcmp(sector, segment_magic, 8) != 0 || le32_get(sector + 8) != SEGMENT_VERSION)
        return ST_CORRUPT;
    for (size_t i = 0; i < ARRAY_LEN(n); i++)
        n[i] = le64_get(sector + 16 + 8 * i);
    struct segment_header h = {.id = n[0],
                               .number = n[1],
                               .size = n[2],
                               .start = n[3],
                               .prev_term = n[4],
                               .seq = n[5],
                               .chain = n[6],
                               .prev_end = n[7],
                               .flags = le32_get(sector + 12)};
    bool good = h.size >= SEGMENT_MIN && h.size <= SEGMENT_MAX && h.size % SECTOR == 0 &&
                h.start > 0 && h.seq > 0 && h.prev_end % SECTOR == 0 && h.prev_end <= SEGMENT_MAX &&
                (h.flags & ~(uint32_t)SEGMENT_RESET) == 0;
    if (!good)
        return ST_CORRUPT;
    *ret = h;
    return ST_OK;
}

void batch_header_write(struct sector_writer *w, const struct batch_header *h)
{
    uint8_t raw[BATCH_HEADER];
    ASSERT(w->fill == 0);
    ASSERT((h->flags & BATCH_MARK) == 0 || (h->n == 0 && h->bytes == 0));
    le32_put(raw, batch_magic);
    le32_put(raw + 4, h->flags);
    le64_put(raw + 8, h->seq);
    le64_put(raw + 16, h->first);
    le64_put(raw + 24, h->prev_term);
    le64_put(raw + 32, h->chain);
    le32_put(raw + 40, h->n);
    le32_put(raw + 44, h->bytes);
    w->kind = SECTOR_FIRST;
    w->seq = (uint32_t)h->seq;
    sector_put(w, bytes_of(raw, sizeof raw));
}

static bool batch_header_read(const uint8_t *sector, struct batch_header *ret)
{
    struct batch_header h = {
        .flags = le32_get(sector + 4),
        .seq = le64_get(sector + 8),
        .first = le64_get(sector + 16),
        .prev_term = le64_get(sector + 24),
        .chain = le64_get(sector + 32),
        .n = le32_get(sector + 40),
        .bytes = le32_get(sector + 44),
    };
    bool mark = (h.flags & BATCH_MARK) != 0, truncate = (h.flags & BATCH_TRUNCATE) != 0;
    bool good = le32_get(sector) == batch_magic && h.bytes <= BATCH_MAX &&
                (h.flags & ~(uint32_t)(BATCH_TRUNCATE | BATCH_MARK | BATCH_CLEAN)) == 0 &&
                h.seq > 0 && h.first > 0 && h.first <= UINT64_MAX / 2 &&
                (uint64_t)h.n * ENTRY_HEADER <= h.bytes && (h.n != 0 || h.bytes == 0) &&
                !(mark && (h.n != 0 || truncate)) && (mark || truncate || h.n != 0);
    if (good)
        *ret = h;
    return good;
}

static struct sector_info sector_at(const struct segment_image *image, uint64_t off)
{
    ASSERT(off + SECTOR <= image->size);
    return sector_read(image->data + off, image->salt, off / SECTOR);
}

/* Only the low halves of sequence numbers are compared: a segment has no room for 2^31 batches. */
static bool seq_after(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

static uint64_t next_whole_batch(const struct segment_image *image, const struct batch_want *want,
                                 uint64_t off)
{
    struct batch_header h;
    for (; off + SECTOR <= want->end; off += SECTOR) {
        struct sector_info s = sector_at(image, off);
        if (s.state == SECTOR_WHOLE && s.kind == SECTOR_FIRST &&
            seq_after(s.seq, (uint32_t)want->seq) && batch_header_read(image->data + off, &h))
            return off;
    }
    return 0;
}

static struct batch_found damaged(const struct segment_image *image, const struct batch_want *want,
                                  struct batch_found found, uint64_t bad_at, const char *why)
{
    found.state = BATCH_DAMAGED;
    found.bad_at = bad_at;
    found.why = why;
    /* If any batch was allowed here, the batch at this place is refused: search behind it. */
    found.resume_at = next_whole_batch(image, want, want->off + (want->any ? SECTOR : 0));
    return found;
}

/* No whole batch stands at want->off. That is a torn write only if every sector from here on is in
 * a state that a torn write leaves (new, old or cut), and no sector belongs to a later batch.
 * Batches are written one after another, so a later batch proves that the missing batch was
 * durable. */
static struct batch_found tail_judge(const struct segment_image *image,
                                     const struct batch_want *want, struct batch_found found)
{
    uint64_t extent = want->end, missing_at = 0;
    bool touched = false;
    if (found.header_whole)
        extent = found.end;
    for (uint64_t off = want->off; off + SECTOR <= want->end; off += SECTOR) {
        struct sector_info s = sector_at(image, off);
        if (s.state == SECTOR_DAMAGED)
            return damaged(image, want, found, off, "a sector does not match its checksum");
        if (s.state != SECTOR_WHOLE && missing_at == 0 && off < extent)
            missing_at = off;
        if (s.state == SECTOR_UNWRITTEN)
            continue;
        if (s.state == SECTOR_WHOLE && seq_after(s.seq, (uint32_t)want->seq))
            return damaged(image, want, found, want->off, "a batch is missing before a later one");
        if (s.state == SECTOR_WHOLE && (s.seq != (uint32_t)want->seq ||
                                        s.kind != (off == want->off ? SECTOR_FIRST : SECTOR_REST)))
            return damaged(image, want, found, off, "a sector is out of place");
        if (off >= extent)
            return damaged(image, want, found, off, "a sector lies behind the end of its batch");
        touched = true;
    }
    if (touched && missing_at == 0)
        return damaged(image, want, found, want->off, "a batch is whole but not readable");
    found.state = touched ? BATCH_TORN : BATCH_END;
    found.bad_at = missing_at;
    found.why = touched ? "a torn write" : NULL;
    return found;
}

bool segment_unused(const struct segment_image *image, uint64_t seq, bool *ret_torn,
                    uint64_t *ret_bad_at)
{
    bool torn = false;
    for (uint64_t off = 0; off < image->size; off += SECTOR) {
        struct sector_info s = sector_at(image, off);
        if (s.state == SECTOR_DAMAGED || (s.state == SECTOR_WHOLE && s.seq != (uint32_t)seq)) {
            *ret_bad_at = off;
            return false;
        }
        torn |= s.state != SECTOR_UNWRITTEN;
    }
    *ret_torn = torn;
    return true;
}

struct batch_found batch_find(const struct segment_image *image, const struct batch_want *given)
{
    struct batch_found found = {.state = BATCH_END};
    struct batch_want want = *given;
    ASSERT(want.off % SECTOR == 0 && want.off > 0 && want.end <= image->size);
    if (want.off + SECTOR > want.end)
        return found;

    struct sector_info s = sector_at(image, want.off);
    if (s.state == SECTOR_WHOLE && s.kind == SECTOR_FIRST && want.any)
        want.seq = le64_get(image->data + want.off + 8);
    if (s.state != SECTOR_WHOLE || s.kind != SECTOR_FIRST || s.seq != (uint32_t)want.seq)
        return tail_judge(image, &want, found);
    if (!batch_header_read(image->data + want.off, &found.header))
        return damaged(image, &want, found, want.off, "a batch header is not well-formed");
    const struct batch_header *h = &found.header;
    if (h->seq != want.seq || (!want.any && h->chain != want.chain))
        return damaged(image, &want, found, want.off, "a batch does not follow the one before it");
    found.header_whole = true;
    found.end = want.off + batch_sectors(h->bytes) * SECTOR;
    if (found.end > want.end)
        return damaged(image, &want, found, want.off, "a batch reaches beyond its segment");

    found.chain_after = chain_next(h->chain, s.crc);
    for (uint64_t off = want.off + SECTOR; off < found.end; off += SECTOR) {
        s = sector_at(image, off);
        if (s.state != SECTOR_WHOLE || s.kind != SECTOR_REST || s.seq != (uint32_t)want.seq)
            return tail_judge(image, &want, found);
        found.chain_after = chain_next(found.chain_after, s.crc);
    }
    found.state = BATCH_OK;
    return found;
}

void batch_payload(const struct segment_image *image, uint64_t off, const struct batch_header *h,
                   uint8_t *out)
{
    size_t left = h->bytes, skip = BATCH_HEADER;
    ASSERT(off + batch_sectors(left) * SECTOR <= image->size);
    for (; left != 0; off += SECTOR, skip = 0) {
        size_t n = MIN(left, SECTOR_DATA - skip);
        memcpy(out, image->data + off + skip, n);
        out += n;
        left -= n;
    }
}

void entry_header_write(struct sector_writer *w, const struct rlog_entry *entry)
{
    uint8_t raw[ENTRY_HEADER];
    le64_put(raw, entry->term);
    le32_put(raw + 8, (uint32_t)entry->data.len);
    le32_put(raw + 12, (uint32_t)entry->type);
    sector_put(w, bytes_of(raw, sizeof raw));
}

bool entry_next(struct bytes *payload, struct rlog_entry *ret_entry, bool *ret_bad)
{
    *ret_bad = false;
    if (payload->len == 0)
        return false;
    *ret_bad = true;
    if (payload->len < ENTRY_HEADER)
        return false;
    uint32_t len = le32_get(payload->data + 8), type = le32_get(payload->data + 12);
    uint64_t term = le64_get(payload->data);
    struct bytes rest = bytes_from(*payload, ENTRY_HEADER);
    if (len > rest.len || term == 0 || type < RLOG_COMMAND || type > RLOG_CHANGE)
        return false;
    *ret_bad = false;
    *ret_entry = (struct rlog_entry){
        .term = term, .type = (enum rlog_entry_type)type, .data = bytes_of(rest.data, len)};
    *payload = bytes_from(rest, len);
    return true;
}

/* Magic, then fields, zeros, and a CRC-32C over everything before it. */
static void block_close(uint8_t *block, const char magic[8])
{
    memcpy(block, magic, 8);
    le32_put(block + SMALL_BLOCK - 4, crc32c(0, bytes_of(block, SMALL_BLOCK - 4)));
}

static bool block_whole(const uint8_t *block, const char magic[8])
{
    return memcmp(block, magic, 8) == 0 &&
           le32_get(block + SMALL_BLOCK - 4) == crc32c(0, bytes_of(block, SMALL_BLOCK - 4));
}

void vote_file_encode(const struct vote_record *r, uint64_t id, uint8_t block[SMALL_BLOCK])
{
    const uint64_t fields[] = {id, r->seq, r->term, r->vote, r->log_seq};
    memset(block, 0, SMALL_BLOCK);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        le64_put(block + 8 + 8 * i, fields[i]);
    block_close(block, vote_file_magic);
}

bool vote_file_decode(const uint8_t block[SMALL_BLOCK], uint64_t id, struct vote_record *ret)
{
    if (!block_whole(block, vote_file_magic) || le64_get(block + 8) != id)
        return false;
    *ret = (struct vote_record){le64_get(block + 16), le64_get(block + 24), le64_get(block + 32),
                                le64_get(block + 40)};
    return true;
}

void identity_encode(const struct rlog_identity *identity, uint8_t block[SMALL_BLOCK])
{
    memset(block, 0, SMALL_BLOCK);
    le64_put(block + 8, identity->id);
    memcpy(block + 16, identity->cluster, sizeof identity->cluster);
    memcpy(block + 32, identity->name, strnlen(identity->name, sizeof identity->name - 1));
    block_close(block, identity_magic);
}

bool identity_decode(const uint8_t block[SMALL_BLOCK], struct rlog_identity *ret)
{
    if (!block_whole(block, identity_magic))
        return false;
    *ret = (struct rlog_identity){.id = le64_get(block + 8)};
    memcpy(ret->cluster, block + 16, sizeof ret->cluster);
    memcpy(ret->name, block + 32, sizeof ret->name - 1);
    return true;
}

void install_encode(const struct install_record *r, uint64_t id, uint8_t block[SMALL_BLOCK])
{
    memset(block, 0, SMALL_BLOCK);
    le64_put(block + 8, id);
    le64_put(block + 16, r->index);
    le64_put(block + 24, r->term);
    block_close(block, install_magic);
}

bool install_decode(const uint8_t block[SMALL_BLOCK], uint64_t id, struct install_record *ret)
{
    if (!block_whole(block, install_magic) || le64_get(block + 8) != id)
        return false;
    *ret = (struct install_record){le64_get(block + 16), le64_get(block + 24)};
    return true;
}
