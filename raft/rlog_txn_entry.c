#include "raft/rlog_txn.h"
#include "raft/rlog_txn_read.h"

#include "base/plant.h"

#include <lz4.h>

enum { COMPRESS_FROM = 4096 }; /* below, the header of one key outweighs the gain */

/* Appends `body` compressed, if that saves an eighth; sealed values do not shrink, keys do. */
static bool add_compressed(struct buf *out, struct bytes body)
{
    if (body.len < COMPRESS_FROM)
        return false;
    size_t room = body.len - body.len / 8;
    uint8_t *at = buf_extend(out, room);
    if (at == NULL) {
        out->failed = false; /* the caller tries again, uncompressed */
        return false;
    }
    int n = LZ4_compress_default((const char *)body.data, (char *)at, (int)body.len, (int)room);
    out->len -= room - (size_t)MAX(n, 0);
    return n > 0;
}

static void add_header(uint8_t *at, int64_t time_ms, unsigned n_txns, bool lz4, size_t body_bytes)
{
    le16_put(at, RLOG_ENTRY_FORMAT);
    le16_put(at + 2, RLOG_FEATURE);
    le64_put(at + 4, (uint64_t)time_ms);
    le32_put(at + 12, n_txns);
    at[16] = lz4 ? RLOG_ENTRY_LZ4 : 0;
    le32_put(at + 17, (uint32_t)body_bytes);
}

enum status rlog_entry_encode(int64_t time_ms, const struct bytes *txns, unsigned n,
                              struct buf *out)
{
    CLEANUP(buf_done) struct buf body = {0};
    size_t start = out->len, total = 0;

    ASSERT(n > 0);
    ASSERT(time_ms >= 0);
    for (unsigned i = 0; i < n; i++) {
        ASSERT(txns[i].len > 0);
        total += txns[i].len;
        if (total > RLOG_ENTRY_MAX)
            return ST_TOO_BIG;
    }
    TRY(buf_reserve(&body, total + (size_t)n * 10)); /* a length is at most 10 bytes */
    for (unsigned i = 0; i < n; i++)
        buf_add_block(&body, txns[i]);
    TRY(buf_status(&body));
    if (body.len > RLOG_ENTRY_MAX - RLOG_ENTRY_HEADER_BYTES)
        return ST_TOO_BIG;

    TRY(buf_status(out));
    if (buf_extend(out, RLOG_ENTRY_HEADER_BYTES) == NULL)
        return ST_NOMEM;
    bool lz4 = add_compressed(out, buf_bytes(&body));
    if (!lz4)
        buf_add(out, buf_bytes(&body));
    if (buf_status(out) != ST_OK) {
        out->len = start;
        return ST_NOMEM;
    }
    add_header(out->data + start, time_ms, n, lz4, body.len);
    return ST_OK;
}

/* `ret_flags`, `ret_body_bytes`: as stored. `ret_stored`: what follows the header. */
static enum status read_header(struct bytes entry, struct rlog_entry_header *ret_header,
                               uint8_t *ret_flags, uint32_t *ret_body_bytes,
                               struct bytes *ret_stored)
{
    struct reader r = reader_of(entry);
    struct rlog_entry_header h = {.format = reader_u16(&r)};
    if (r.failed)
        return ST_INVALID;
    if (h.format != RLOG_ENTRY_FORMAT)
        return ST_UNSUPPORTED;
    h.feature = reader_u16(&r);
    h.time_ms = (int64_t)reader_u64(&r);
    h.n_txns = reader_u32(&r);
    *ret_flags = reader_u8(&r);
    *ret_body_bytes = reader_u32(&r);
    if (r.failed)
        return ST_INVALID;
    bool later = h.feature > RLOG_FEATURE && !planted(PLANT_LATER_FORMAT);
    if (later || (*ret_flags & ~RLOG_ENTRY_LZ4) != 0)
        return ST_UNSUPPORTED;
    if (h.time_ms < 0 || h.n_txns == 0)
        return ST_INVALID;
    *ret_stored = bytes_of(r.at, reader_left(&r));
    *ret_header = h;
    return ST_OK;
}

enum status rlog_entry_peek(struct bytes entry, struct rlog_entry_header *ret_header)
{
    uint8_t flags;
    uint32_t body_bytes;
    struct bytes stored;
    return read_header(entry, ret_header, &flags, &body_bytes, &stored);
}

enum status rlog_entry_open(struct bytes entry, struct buf *room, struct rlog_entry_view *ret_view)
{
    uint8_t flags = 0;
    uint32_t body_bytes = 0;
    struct bytes body = {0};
    struct rlog_entry_view view;

    if (entry.len > RLOG_ENTRY_MAX)
        return ST_TOO_BIG;
    TRY(read_header(entry, &view.header, &flags, &body_bytes, &body));
    if (body_bytes > RLOG_ENTRY_MAX || body_bytes == 0)
        return ST_INVALID;
    if ((flags & RLOG_ENTRY_LZ4) != 0) {
        buf_clear(room);
        uint8_t *at = buf_extend(room, body_bytes);
        if (at == NULL)
            return ST_NOMEM;
        int n = LZ4_decompress_safe((const char *)body.data, (char *)at, (int)body.len,
                                    (int)body_bytes);
        if (n < 0 || (uint32_t)n != body_bytes)
            return ST_INVALID;
        body = buf_bytes(room);
    }
    if (body.len != body_bytes)
        return ST_INVALID;
    view.txns = body;
    *ret_view = view;
    return ST_OK;
}

enum status rlog_entry_next(struct bytes *seq, struct bytes *ret_txn)
{
    if (seq->len == 0)
        return ST_NOT_FOUND;
    struct reader r = reader_of(*seq);
    struct bytes txn = reader_block(&r);
    if (r.failed)
        return ST_INVALID;
    *seq = bytes_of(r.at, reader_left(&r));
    *ret_txn = txn;
    return ST_OK;
}

enum status rlog_entry_check(struct bytes entry)
{
    CLEANUP(buf_done) struct buf room = {0};
    struct rlog_entry_view view;
    struct bytes txn;
    uint32_t n = 0;
    enum status st;

    TRY(rlog_entry_open(entry, &room, &view));
    while ((st = rlog_entry_next(&view.txns, &txn)) == ST_OK) {
        TRY(rlog_txn_check(txn));
        n++;
    }
    if (st != ST_NOT_FOUND)
        return st;
    return n == view.header.n_txns ? ST_OK : ST_INVALID;
}
