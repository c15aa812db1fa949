/* A growable byte buffer, and a bounded reader for the same encodings.
 *
 * Numbers are little-endian. "varint" is unsigned LEB128 of at most 10 bytes in its shortest form.
 * A "block" is a varint length followed by that many bytes. One thread at a time. */
#ifndef HOLDFAST_BASE_BUF_H
#define HOLDFAST_BASE_BUF_H

#include "base/bytes.h"
#include "base/status.h"

/* Zero-initialise. A failed append sets `failed`, changes nothing else, and every later append
 * fails too, so a writer checks once, with buf_status. */
struct buf {
    uint8_t *data;
    size_t len, cap;
    bool failed;
};

void buf_done(struct buf *b);  /* wipes the content; the buffer is empty and usable again */
void buf_drop(struct buf *b);  /* buf_done without wiping, for content that is no secret */
void buf_clear(struct buf *b); /* the buffer is empty and keeps its memory */
NODISCARD enum status buf_status(const struct buf *b); /* ST_OK or ST_NOMEM */
NODISCARD enum status buf_reserve(struct buf *b, size_t more);
void buf_add(struct buf *b, struct bytes bytes);
void buf_add_u16(struct buf *b, uint16_t v);
void buf_add_u32(struct buf *b, uint32_t v);
void buf_add_u64(struct buf *b, uint64_t v);
void buf_add_varint(struct buf *b, uint64_t v);
void buf_add_block(struct buf *b, struct bytes bytes);
void buf_add_str(struct buf *b, const char *text);
/* A text with its zero byte as a block, which reader_text borrows in place. */
void buf_add_text(struct buf *b, const char *text);
void buf_add_format(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *b, size_t n); /* drop the first n ≤ len bytes */

static inline struct bytes buf_bytes(const struct buf *b)
{
    return (struct bytes){b->data, b->len};
}

/* Append `n` bytes for the caller to fill at once; NULL when out of memory. */
static inline uint8_t *buf_extend(struct buf *b, size_t n)
{
    bool fits = !b->failed && n <= b->cap - b->len;
    if (!fits && buf_reserve(b, n) != ST_OK)
        return NULL;
    b->len += n;
    return b->data + b->len - n;
}

static inline void buf_add_u8(struct buf *b, uint8_t v)
{
    uint8_t *at = buf_extend(b, 1);
    if (at != NULL)
        *at = v;
}

/* Reads never pass `end`. A short or malformed read sets `failed` and gives zeroes from then on;
 * a caller checks once, with reader_end. */
struct reader {
    const uint8_t *at, *end;
    bool failed;
};

static inline struct reader reader_of(struct bytes b)
{
    return (struct reader){b.data, b.len != 0 ? b.data + b.len : b.data, false};
}

static inline size_t reader_left(const struct reader *r)
{
    return (size_t)(r->end - r->at);
}

/* Numbers are little-endian. Past the end of the input a read gives 0 or nothing, and sets
 * `failed`. A varint that is longer than needed fails too. */
uint8_t reader_u8(struct reader *r);
uint16_t reader_u16(struct reader *r);
uint32_t reader_u32(struct reader *r);
uint64_t reader_u64(struct reader *r);
uint64_t reader_varint_any(struct reader *r);
struct bytes reader_take(struct reader *r, size_t n);
struct bytes reader_block(struct reader *r); /* borrows from the input */
/* A block whose last byte is its only zero byte; "" after a failure. Borrows from the input. */
const char *reader_text(struct reader *r);
static inline uint64_t reader_varint(struct reader *r)
{
    if (!r->failed && r->at != r->end && *r->at < 0x80) /* most varints have one byte */
        return *r->at++;
    return reader_varint_any(r);
}
/* ST_OK when nothing failed and everything was read; else ST_INVALID. */
NODISCARD enum status reader_end(const struct reader *r);

#endif
