#include "base/buf.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

enum { BUF_FIRST = 256, VARINT_BYTES_MAX = 10 };

void buf_done(struct buf *b)
{
    if (b->data != NULL)
        mem_wipe(b->data, b->cap);
    mem_free(b->data);
    *b = (struct buf){0};
}

void buf_drop(struct buf *b)
{
    mem_free(b->data);
    *b = (struct buf){0};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
}

enum status buf_status(const struct buf *b)
{
    return b->failed ? ST_NOMEM : ST_OK;
}

/* Make room for `need` bytes. Not by realloc: the old memory may contain a secret and is wiped. */
static bool grow(struct buf *b, size_t need)
{
    ASSERT(need > b->cap);
    size_t cap = b->cap != 0 ? b->cap : BUF_FIRST;
    while (cap < need)
        cap *= 2;
    uint8_t *data = mem_alloc(cap);
    if (data == NULL)
        return false;
    if (b->len != 0)
        memcpy(data, b->data, b->len);
    if (b->data != NULL)
        mem_wipe(b->data, b->cap);
    mem_free(b->data);
    b->data = data;
    b->cap = cap;
    return true;
}

enum status buf_reserve(struct buf *b, size_t more)
{
    if (!b->failed &&
        (more > SIZE_MAX / 4 - b->len || (b->len + more > b->cap && !grow(b, b->len + more))))
        b->failed = true;
    return buf_status(b);
}

void buf_add(struct buf *b, struct bytes bytes)
{
    if (bytes.len == 0)
        return;
    uint8_t *at = buf_extend(b, bytes.len);
    if (at != NULL)
        memcpy(at, bytes.data, bytes.len);
}

void buf_add_u16(struct buf *b, uint16_t v)
{
    uint8_t raw[2];
    le16_put(raw, v);
    buf_add(b, bytes_of(raw, sizeof raw));
}

void buf_add_u32(struct buf *b, uint32_t v)
{
    uint8_t raw[4];
    le32_put(raw, v);
    buf_add(b, bytes_of(raw, sizeof raw));
}

void buf_add_u64(struct buf *b, uint64_t v)
{
    uint8_t raw[8];
    le64_put(raw, v);
    buf_add(b, bytes_of(raw, sizeof raw));
}

void buf_add_varint(struct buf *b, uint64_t v)
{
    if (v < 0x80) { /* fast path: most varints have one byte */
        buf_add_u8(b, (uint8_t)v);
        return;
    }
    uint8_t *at = buf_extend(b, VARINT_BYTES_MAX);
    if (at == NULL)
        return;
    for (; v >= 0x80; v >>= 7)
        *at++ = (uint8_t)(v | 0x80);
    *at++ = (uint8_t)v;
    ASSERT((size_t)(at - b->data) <= b->len); /* a varint has at most VARINT_BYTES_MAX */
    b->len = (size_t)(at - b->data);
}

void buf_add_block(struct buf *b, struct bytes bytes)
{
    buf_add_varint(b, bytes.len);
    buf_add(b, bytes);
}

void buf_add_str(struct buf *b, const char *text)
{
    buf_add(b, bytes_str(text));
}

void buf_add_text(struct buf *b, const char *text)
{
    ASSERT(text != NULL);
    buf_add_block(b, bytes_of(text, strlen(text) + 1));
}

void buf_add_format(struct buf *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(n >= 0);
    if (buf_reserve(b, (size_t)n + 1) == ST_OK) {
        (void)vsnprintf((char *)b->data + b->len, (size_t)n + 1, format,
                        again); /* the length was measured above */
        b->len += (size_t)n;
    }
    va_end(again);
}

void buf_consume(struct buf *b, size_t n)
{
    ASSERT(n <= b->len);
    b->len -= n;
    if (b->len != 0 && n != 0)
        memmove(b->data, b->data + n, b->len);
}

struct bytes reader_take(struct reader *r, size_t n)
{
    if (r->failed || n > reader_left(r)) {
        r->failed = true;
        return (struct bytes){0};
    }
    struct bytes taken = bytes_of(r->at, n);
    if (n != 0)
        r->at += n;
    return taken;
}

uint8_t reader_u8(struct reader *r)
{
    struct bytes b = reader_take(r, 1);
    return b.len != 0 ? b.data[0] : 0;
}

uint16_t reader_u16(struct reader *r)
{
    struct bytes b = reader_take(r, 2);
    return b.len != 0 ? le16_get(b.data) : 0;
}

uint32_t reader_u32(struct reader *r)
{
    struct bytes b = reader_take(r, 4);
    return b.len != 0 ? le32_get(b.data) : 0;
}

uint64_t reader_u64(struct reader *r)
{
    struct bytes b = reader_take(r, 8);
    return b.len != 0 ? le64_get(b.data) : 0;
}

uint64_t reader_varint_any(struct reader *r)
{
    size_t most = r->failed ? 0 : MIN(reader_left(r), (size_t)VARINT_BYTES_MAX), i = 0;
    uint64_t v = 0;
    while (i < most && (r->at[i] & 0x80) != 0) {
        v |= (uint64_t)(r->at[i] & 0x7F) << (7 * i);
        i++;
    }
    bool ended = i < most;
    bool overflow = ended && i == VARINT_BYTES_MAX - 1 && r->at[i] > 1;
    bool padded = ended && i > 0 && r->at[i] == 0; /* only the shortest form is accepted */
    if (!ended || overflow || padded) {
        r->failed = true;
        return 0;
    }
    v |= (uint64_t)r->at[i] << (7 * i);
    r->at += i + 1;
    return v;
}

struct bytes reader_block(struct reader *r)
{
    uint64_t n = reader_varint(r);
    if (n > reader_left(r)) {
        r->failed = true;
        return (struct bytes){0};
    }
    return reader_take(r, (size_t)n);
}

const char *reader_text(struct reader *r)
{
    struct bytes block = reader_block(r);
    if (block.len == 0 || memchr(block.data, 0, block.len) != block.data + block.len - 1) {
        r->failed = true;
        return "";
    }
    return (const char *)block.data;
}

enum status reader_end(const struct reader *r)
{
    return r->failed || r->at != r->end ? ST_INVALID : ST_OK;
}
