#include "raft/txn/rlog_content.h"
#include "raft/txn/rlog_machine_content.h"
#include "raft/txn/rlog_txn_read.h"

#include "base/mem.h"
#include "text/time.h"

/* HEADER -> RECORDS -> ENDED; a failure is kept in `status` and ends the reading. */
enum content_phase { CONTENT_HEADER, CONTENT_RECORDS, CONTENT_ENDED };

struct rlog_content {
    struct rlog_content_visit visit;
    struct rlog_machine next; /* counters that were read from the header */
    enum content_phase phase;
    enum status status;
    uint64_t n_keys;
    uint8_t last[STORE_KEY_MAX];
    size_t last_len;
    struct buf carry; /* bytes of an incomplete record */
};

enum status rlog_content_begin(const struct rlog_content_visit *visit, struct rlog_content **ret)
{
    struct rlog_content *c = mem_zalloc(sizeof *c);
    if (c == NULL)
        return ST_NOMEM;
    ASSERT(visit->key != NULL && visit->newest != NULL);
    c->visit = *visit;
    *ret = c;
    return ST_OK;
}

static enum status read_header(struct rlog_content *c, struct reader *r)
{
    struct bytes magic = reader_take(r, sizeof RLOG_CONTENT_MAGIC - 1);
    uint8_t format = reader_u8(r);

    c->next.feature = reader_u16(r);
    c->next.version = reader_u64(r);
    c->next.local_version = reader_u64(r);
    c->next.time_ms = (int64_t)reader_u64(r);
    c->next.id_floor = reader_u64(r);
    c->next.id_bytes = reader_u64(r);
    ASSERT(!r->failed);
    if (!bytes_eq(magic, BYTES(RLOG_CONTENT_MAGIC)))
        return ST_CORRUPT;
    if (format != RLOG_CONTENT_FORMAT || c->next.feature > RLOG_FEATURE)
        return ST_UNSUPPORTED;
    if (c->next.time_ms < 0 || c->next.time_ms >= TEXT_CLOCK_END || c->next.version > INT64_MAX ||
        c->next.local_version > INT64_MAX || c->next.id_floor > c->next.version)
        return ST_CORRUPT;
    c->phase = CONTENT_RECORDS;
    if (c->visit.header != NULL)
        c->visit.header(c->visit.ctx, &c->next);
    return ST_OK;
}

static uint64_t counter_of(const struct rlog_content *c, struct bytes key)
{
    if (key.len < sizeof RLOG_LOCAL - 1) /* a key above the segments may be of either kind */
        return MAX(c->next.version, c->next.local_version);
    return rlog_key_is_local(key) ? c->next.local_version : c->next.version;
}

/* Keys must ascend: the next key first differs from the last one at the byte `shared`, and its byte
 * there is greater. */
static bool follows(const struct rlog_content *c, uint64_t shared, struct bytes suffix)
{
    if (shared > c->last_len || suffix.len == 0 || shared + suffix.len > STORE_KEY_MAX)
        return false;
    return shared == c->last_len || suffix.data[0] > c->last[shared];
}

static enum status read_key(struct rlog_content *c, struct reader *r)
{
    uint64_t shared = reader_varint(r);
    struct bytes suffix = reader_block(r);
    uint64_t created = reader_varint(r), modified = reader_varint(r);
    struct bytes value = reader_block(r);

    if (r->failed)
        return ST_INVALID;
    if (!follows(c, shared, suffix) || value.len > STORE_VALUE_MAX)
        return ST_CORRUPT;
    ASSERT(shared + suffix.len <= sizeof c->last);
    memcpy(c->last + shared, suffix.data, suffix.len);
    c->last_len = (size_t)shared + suffix.len;
    struct bytes key = bytes_of(c->last, c->last_len);
    bool in_segment =
        bytes_has_prefix(key, BYTES(RLOG_LOCAL)) || bytes_has_prefix(key, BYTES(RLOG_REPLICATED));
    if (!in_segment || created > modified || modified > counter_of(c, key))
        return ST_CORRUPT;
    c->visit.key(c->visit.ctx, &(struct store_item){key, value, created, modified});
    c->n_keys++;
    return ST_OK;
}

static enum status read_newest(struct rlog_content *c, struct reader *r)
{
    uint64_t depth = reader_varint(r), version = reader_varint(r);

    if (r->failed)
        return ST_INVALID;
    if (depth > c->last_len || c->n_keys == 0)
        return ST_CORRUPT;
    struct bytes at = bytes_of(c->last, (size_t)depth);
    if (version == 0 || version > counter_of(c, at))
        return ST_CORRUPT;
    c->visit.newest(c->visit.ctx, at, version);
    return ST_OK;
}

static enum status read_end(struct rlog_content *c, struct reader *r)
{
    uint64_t n_keys = reader_varint(r);

    if (r->failed)
        return ST_INVALID;
    c->phase = CONTENT_ENDED;
    return n_keys == c->n_keys ? ST_OK : ST_CORRUPT;
}

/* Read one record. ST_INVALID: it is incomplete, if more bytes may follow. */
static enum status read_record(struct rlog_content *c, struct reader *r)
{
    switch (reader_u8(r)) {
    case RLOG_CONTENT_KEY: return read_key(c, r);
    case RLOG_CONTENT_NEWEST: return read_newest(c, r);
    case RLOG_CONTENT_END: return read_end(c, r);
    default: return ST_CORRUPT;
    }
}

/* Whole records of `content`; *ret_used says how far they go. */
static enum status read_all(struct rlog_content *c, struct bytes content, size_t *ret_used)
{
    size_t used = 0;

    while (used < content.len) {
        struct reader r = reader_of(bytes_from(content, used));
        if (c->phase == CONTENT_ENDED)
            return ST_CORRUPT; /* bytes follow the end */
        if (c->phase == CONTENT_HEADER && reader_left(&r) < RLOG_CONTENT_HEADER_BYTES)
            break;
        enum status st = c->phase == CONTENT_HEADER ? read_header(c, &r) : read_record(c, &r);
        if (st == ST_INVALID && content.len - used < RLOG_CONTENT_RECORD_MAX)
            break;
        if (st != ST_OK)
            return st == ST_INVALID ? ST_CORRUPT : st;
        used = (size_t)(r.at - content.data);
    }
    ASSERT(used <= content.len);
    *ret_used = used;
    return ST_OK;
}

static enum status read_piece(struct rlog_content *c, struct bytes content)
{
    size_t used = 0;

    if (c->carry.len == 0) {
        TRY(read_all(c, content, &used));
        buf_add(&c->carry, bytes_from(content, used));
        return buf_status(&c->carry);
    }
    buf_add(&c->carry, content);
    TRY(buf_status(&c->carry));
    TRY(read_all(c, buf_bytes(&c->carry), &used));
    buf_consume(&c->carry, used);
    return ST_OK;
}

enum status rlog_content_piece(struct rlog_content *c, struct bytes content)
{
    if (c->status == ST_OK)
        c->status = read_piece(c, content);
    return c->status;
}

enum status rlog_content_end(struct rlog_content *c)
{
    enum status st = c->status;

    if (st == ST_OK && (c->phase != CONTENT_ENDED || c->carry.len != 0))
        st = ST_CORRUPT;
    buf_done(&c->carry);
    mem_wipe(c, sizeof *c);
    mem_free(c);
    return st;
}
