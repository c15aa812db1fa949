#include "store/retain.h"

enum { MARK = 0x50 };

bool store_retain_valid(const struct store_retain *retain, size_t value_len)
{
    return value_len <= STORE_VALUE_MAX && retain->len <= STORE_VALUE_MAX - value_len &&
           retain->from <= STORE_VALUE_MAX;
}

struct bytes store_retain_cut(const struct store_retain *retain, struct bytes stored)
{
    size_t from = MIN(retain->from, stored.len);
    return bytes_of(stored.data + from, MIN(retain->len, stored.len - from));
}

void store_retain_encode(const struct store_retain *retain, struct buf *out)
{
    ASSERT(store_retain_valid(retain, 0));
    buf_add_varint(out, retain->from);
    buf_add_varint(out, retain->len);
}

struct store_retain store_retain_decode(struct reader *r)
{
    uint64_t from = reader_varint(r), len = reader_varint(r);
    return (struct store_retain){.from = from, .len = len};
}

enum status store_retain_split(struct bytes stored, struct store_retain_parts *ret_parts)
{
    if (stored.len < STORE_RETAIN_FRAME || stored.data[0] != MARK) {
        *ret_parts = (struct store_retain_parts){.head = stored};
        return ST_OK;
    }
    size_t head_len = le32_get(stored.data + 1);
    struct bytes parts = bytes_from(stored, STORE_RETAIN_FRAME);
    if (head_len > parts.len)
        return ST_CORRUPT;
    *ret_parts = (struct store_retain_parts){.head = bytes_of(parts.data, head_len),
                                             .suffix = bytes_from(parts, head_len)};
    return ST_OK;
}

uint8_t *store_retain_frame(uint8_t *room, size_t head_len)
{
    ASSERT(head_len <= STORE_VALUE_MAX);
    room[0] = MARK;
    le32_put(room + 1, (uint32_t)head_len);
    return room + STORE_RETAIN_FRAME;
}

void store_retain_add(struct store_retain_suffix *suffix, struct bytes piece)
{
    ASSERT(piece.data != NULL && piece.len != 0);
    if (suffix->copy.len == 0 && suffix->run.len == 0) {
        suffix->run = piece;
    } else if (suffix->copy.len == 0 && piece.data == suffix->run.data + suffix->run.len) {
        suffix->run.len += piece.len;
    } else {
        buf_add(&suffix->copy, suffix->run);
        suffix->run = (struct bytes){0};
        buf_add(&suffix->copy, piece);
    }
}

struct store_retain store_retain_range(struct bytes run, struct bytes stored)
{
    ASSERT(run.data >= stored.data && run.data <= stored.data + stored.len);
    size_t from = (size_t)(run.data - stored.data);
    ASSERT(run.len <= stored.len - from);
    return (struct store_retain){.from = from, .len = run.len};
}

void store_retain_done(struct store_retain_suffix *suffix)
{
    buf_done(&suffix->copy);
    *suffix = (struct store_retain_suffix){0};
}
