#include "api/platform/platform_log.h"
#include "api/platform/platform.h"
#include "base/record.h"

#include <inttypes.h>

#define KEYS STATE_SHARED "platform/log/"
#define CUT "\n[the log is longer than the server keeps: what follows is missing]\n"

enum { FIRST_BYTE = 0x02, LAST_BYTE = 0x03 };

struct mark {
    uint64_t length, last;
    bool ended, cut;
};
static const struct record_field mark_fields[] = {
    RECORD_FIELD(struct mark, length, VARINT, .help = "bytes of the worker"),
    RECORD_FIELD(struct mark, last, VARINT, .help = "where the last piece begins"),
    RECORD_FIELD(struct mark, ended, U8, .max = 1),
    RECORD_FIELD(struct mark, cut, U8, .max = 1, .help = "the log is longer than allowed"),
};
static const struct record mark_record = {RECORD(struct mark, mark_fields), .name = "platform/log",
                                          .key = KEYS "*/mark", .newest = 1};
RECORD_LISTED(mark_record);

static enum status log_key(struct state_txn *txn, const char *id, const char *what,
                           struct bytes *ret_key)
{
    const char *text = arena_format(txn->arena, KEYS "%s/%s", id, what);
    if (text == NULL)
        return ST_NOMEM;
    *ret_key = bytes_str(text);
    return ST_OK;
}

static enum status piece_key(struct state_txn *txn, const char *id, uint64_t offset,
                             struct bytes *ret_key)
{
    const char *text = arena_format(txn->arena, KEYS "%s/at/%012" PRIx64, id, offset);
    if (text == NULL)
        return ST_NOMEM;
    *ret_key = bytes_str(text);
    return ST_OK;
}

static enum status load_mark(struct state_txn *txn, const char *id, struct mark *ret_mark)
{
    struct state_value value;
    struct bytes key;
    *ret_mark = (struct mark){0};
    TRY(log_key(txn, id, "mark", &key));
    enum status st = state_get(txn, key, &value);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return record_decode(&mark_record, value.value, txn->arena, ret_mark);
}

static enum status put_mark(struct state_txn *txn, const char *id, const struct mark *mark)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct bytes key;
    TRY(log_key(txn, id, "mark", &key));
    TRY(record_encode(&mark_record, mark, &record));
    return state_put(txn, key, buf_bytes(&record));
}

enum status platform_log_length(struct state_txn *txn, const char *id, uint64_t *ret_length)
{
    struct mark mark;
    TRY(load_mark(txn, id, &mark));
    *ret_length = mark.length;
    return ST_OK;
}

/* The last piece, if it is short enough to be put again; else empty. */
static enum status short_piece(struct state_txn *txn, const char *id, const struct mark *mark,
                               struct bytes *ret_piece)
{
    struct state_value value;
    struct bytes key;
    *ret_piece = (struct bytes){0};
    if (mark->length == mark->last || mark->length - mark->last >= PLATFORM_LOG_SHORT)
        return ST_OK;
    TRY(piece_key(txn, id, mark->last, &key));
    TRY(state_get(txn, key, &value));
    if (value.value.len != mark->length - mark->last)
        return ST_CORRUPT;
    *ret_piece = value.value;
    return ST_OK;
}

/* Stage bytes at the end of the log, as one or more pieces. */
static enum status add_bytes(struct state_txn *txn, const char *id, struct mark *mark,
                             struct bytes data)
{
    CLEANUP(buf_done) struct buf piece = {0};
    struct bytes before;
    TRY(short_piece(txn, id, mark, &before));
    if (before.len == 0)
        mark->last = mark->length;
    buf_add(&piece, before);
    while (data.len != 0) {
        struct bytes key;
        size_t n = MIN(data.len, (size_t)PLATFORM_LOG_PIECE - piece.len);
        buf_add(&piece, bytes_of(data.data, n));
        TRY(buf_status(&piece));
        TRY(piece_key(txn, id, mark->last, &key));
        TRY(state_put(txn, key, buf_bytes(&piece)));
        data = bytes_from(data, n);
        mark->length += n;
        if (data.len != 0) {
            mark->last = mark->length;
            piece.len = 0;
        }
    }
    return ST_OK;
}

/* Stage what fits into the log; the first time that something does not, also the line about it. */
static enum status add_bounded(struct state_txn *txn, const char *id, struct mark *mark,
                               struct bytes data)
{
    uint64_t max = platform_config()->log_bytes_max;
    uint64_t room = mark->cut || mark->length >= max ? 0 : max - mark->length;
    bool fits = data.len <= room;
    TRY(add_bytes(txn, id, mark, fits ? data : bytes_of(data.data, (size_t)room)));
    if (fits || mark->cut)
        return ST_OK;
    mark->cut = true;
    return add_bytes(txn, id, mark, BYTES(CUT));
}

enum status platform_log_append(struct state_txn *txn, const char *id, uint64_t offset,
                                struct bytes data, uint64_t *ret_length)
{
    struct mark mark;
    TRY(load_mark(txn, id, &mark));
    *ret_length = mark.length;
    if (mark.ended)
        return ST_EXISTS;
    if (mark.cut) {
        *ret_length = offset + data.len; /* dropped: the worker need not know */
        return ST_OK;
    }
    if (offset > mark.length)
        return ST_REFUSED;
    uint64_t known = mark.length - offset;
    if (known >= data.len)
        return ST_OK;
    TRY(add_bounded(txn, id, &mark, bytes_from(data, (size_t)known)));
    *ret_length = mark.cut ? offset + data.len : mark.length;
    return put_mark(txn, id, &mark);
}

enum status platform_log_end(struct state_txn *txn, const char *id, const char *line)
{
    struct mark mark;
    TRY(load_mark(txn, id, &mark));
    if (mark.ended)
        return ST_OK;
    if (line[0] != '\0' && !mark.cut) {
        const char *text = arena_format(txn->arena, "\n%s\n", line);
        if (text == NULL)
            return ST_NOMEM;
        TRY(add_bytes(txn, id, &mark, bytes_str(text)));
    }
    mark.ended = true;
    return put_mark(txn, id, &mark);
}

/* The offset of a piece from its key. ST_CORRUPT. */
static enum status offset_of(struct bytes key, struct bytes prefix, uint64_t *ret_offset)
{
    struct bytes digits = bytes_from(key, prefix.len);
    *ret_offset = 0;
    for (size_t i = 0; i < digits.len; i++) {
        unsigned digit = text_hex_digit(digits.data[i]);
        if (digit > 15 || digits.len != 12)
            return ST_CORRUPT;
        *ret_offset = *ret_offset << 4 | digit;
    }
    return ST_OK;
}

/* Where the piece begins that has the byte `at`. Pieces are short, so few keys are looked at. */
static enum status find_piece(struct state_txn *txn, const char *id, uint64_t at,
                              uint64_t *ret_begin)
{
    struct state_iter iter;
    struct bytes prefix, from;
    TRY(log_key(txn, id, "at/", &prefix));
    TRY(piece_key(txn, id, at >= PLATFORM_LOG_PIECE ? at - PLATFORM_LOG_PIECE + 1 : 0, &from));
    TRY(state_scan(txn, prefix, from, &iter));
    *ret_begin = UINT64_MAX;
    while (state_iter_next(&iter)) {
        uint64_t begin;
        TRY(offset_of(iter.key, prefix, &begin));
        if (begin > at)
            break;
        *ret_begin = begin;
    }
    return *ret_begin != UINT64_MAX ? ST_OK : ST_CORRUPT;
}

/* Append the worker's bytes [at, end). */
static enum status read_bytes(struct state_txn *txn, const char *id, uint64_t at, uint64_t end,
                              struct buf *out)
{
    uint64_t begin;
    TRY(find_piece(txn, id, at, &begin));
    while (at < end) {
        struct state_value value;
        struct bytes key;
        TRY(piece_key(txn, id, begin, &key));
        enum status st = state_get(txn, key, &value);
        if (st != ST_OK)
            return st == ST_NOT_FOUND ? ST_CORRUPT : st;
        if (value.value.len <= at - begin)
            return ST_CORRUPT;
        struct bytes part = bytes_from(value.value, (size_t)(at - begin));
        part.len = MIN(part.len, (size_t)(end - at));
        buf_add(out, part);
        at += part.len;
        begin += value.value.len;
    }
    return buf_status(out);
}

enum status platform_log_read(struct state_txn *txn, const char *id, uint64_t offset, size_t limit,
                              struct buf *out)
{
    struct mark mark;
    TRY(load_mark(txn, id, &mark));
    uint64_t total = mark.length + 1 + mark.ended;
    if (offset >= total)
        return ST_OK;
    uint64_t end = MIN(total, offset + limit);
    if (offset == 0 && end > 0)
        buf_add_u8(out, FIRST_BYTE);
    uint64_t first = MAX(offset, UINT64_C(1)) - 1, last = MIN(end - (end > 0), mark.length);
    if (last > first)
        TRY(read_bytes(txn, id, first, last, out));
    if (mark.ended && end == total && limit != 0)
        buf_add_u8(out, LAST_BYTE);
    return buf_status(out);
}

enum status platform_log_delete(struct state_txn *txn, const char *id)
{
    struct bytes prefix;
    TRY(log_key(txn, id, "", &prefix));
    return state_delete_prefix(txn, prefix);
}
