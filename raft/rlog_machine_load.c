#include "raft/rlog_machine_content.h"
#include "raft/rlog_txn_read.h"

#include "base/mem.h"

/* HEADER -> RECORDS -> ENDED; a failure is kept in `status` and ends the reading. */
enum load_phase { LOAD_HEADER, LOAD_RECORDS, LOAD_ENDED };

struct rlog_machine_load {
    struct rlog_machine *m;
    struct rlog_machine next; /* the counters being read */
    enum load_phase phase;
    enum status status;
    uint64_t n_keys;
    uint8_t last[STORE_KEY_MAX];
    size_t last_len;
    struct buf carry; /* an incomplete record */
};

enum status rlog_machine_load_begin(struct rlog_machine *m, struct rlog_machine_load **ret)
{
    struct rlog_machine_load *l = mem_zalloc(sizeof *l);
    if (l == NULL)
        return ST_NOMEM;
    l->m = m;
    l->next.store = m->store;
    store_stage_drop(m->store);
    store_load_reset(m->store);
    *m = (struct rlog_machine){.store = m->store};
    *ret = l;
    return ST_OK;
}

static enum status read_header(struct rlog_machine_load *l, struct reader *r)
{
    struct bytes magic = reader_take(r, sizeof RLOG_CONTENT_MAGIC - 1);
    uint8_t format = reader_u8(r);

    l->next.feature = reader_u16(r);
    l->next.version = reader_u64(r);
    l->next.local_version = reader_u64(r);
    l->next.time_ms = (int64_t)reader_u64(r);
    l->next.id_floor = reader_u64(r);
    l->next.id_bytes = reader_u64(r);
    ASSERT(!r->failed);
    if (!bytes_eq(magic, BYTES(RLOG_CONTENT_MAGIC)))
        return ST_CORRUPT;
    if (format != RLOG_CONTENT_FORMAT || l->next.feature > RLOG_FEATURE)
        return ST_UNSUPPORTED;
    if (l->next.time_ms < 0 || l->next.version > INT64_MAX || l->next.local_version > INT64_MAX ||
        l->next.id_floor > l->next.version)
        return ST_CORRUPT;
    l->phase = LOAD_RECORDS;
    return ST_OK;
}

static uint64_t counter_of(const struct rlog_machine_load *l, struct bytes key)
{
    if (key.len < sizeof RLOG_LOCAL - 1) /* above the segments: either */
        return MAX(l->next.version, l->next.local_version);
    return rlog_key_is_local(key) ? l->next.local_version : l->next.version;
}

/* Keys ascend: the next one parts from the last at `shared`, with a greater byte. */
static bool follows(const struct rlog_machine_load *l, uint64_t shared, struct bytes suffix)
{
    if (shared > l->last_len || suffix.len == 0 || shared + suffix.len > STORE_KEY_MAX)
        return false;
    return shared == l->last_len || suffix.data[0] > l->last[shared];
}

static enum status read_key(struct rlog_machine_load *l, struct reader *r)
{
    uint64_t shared = reader_varint(r);
    struct bytes suffix = reader_block(r);
    uint64_t created = reader_varint(r), modified = reader_varint(r);
    struct bytes value = reader_block(r);

    if (r->failed)
        return ST_INVALID;
    if (!follows(l, shared, suffix) || value.len > STORE_VALUE_MAX)
        return ST_CORRUPT;
    memcpy(l->last + shared, suffix.data, suffix.len);
    l->last_len = (size_t)shared + suffix.len;
    struct bytes key = bytes_of(l->last, l->last_len);
    bool in_segment =
        bytes_has_prefix(key, BYTES(RLOG_LOCAL)) || bytes_has_prefix(key, BYTES(RLOG_REPLICATED));
    if (!in_segment || created > modified || modified > counter_of(l, key))
        return ST_CORRUPT;
    store_load_put(l->m->store, key, value, created, modified);
    l->n_keys++;
    return ST_OK;
}

static enum status read_newest(struct rlog_machine_load *l, struct reader *r)
{
    uint64_t depth = reader_varint(r), version = reader_varint(r);

    if (r->failed)
        return ST_INVALID;
    if (depth > l->last_len || l->n_keys == 0)
        return ST_CORRUPT;
    struct bytes at = bytes_of(l->last, (size_t)depth);
    if (version == 0 || version > counter_of(l, at))
        return ST_CORRUPT;
    store_raise_newest(l->m->store, at, version);
    return ST_OK;
}

static enum status read_end(struct rlog_machine_load *l, struct reader *r)
{
    uint64_t n_keys = reader_varint(r);

    if (r->failed)
        return ST_INVALID;
    l->phase = LOAD_ENDED;
    return n_keys == l->n_keys ? ST_OK : ST_CORRUPT;
}

/* ST_INVALID: incomplete, if more may follow. */
static enum status read_record(struct rlog_machine_load *l, struct reader *r)
{
    switch (reader_u8(r)) {
    case RLOG_CONTENT_KEY: return read_key(l, r);
    case RLOG_CONTENT_NEWEST: return read_newest(l, r);
    case RLOG_CONTENT_END: return read_end(l, r);
    default: return ST_CORRUPT;
    }
}

/* Whole records of `content`; *ret_used says how far they go. */
static enum status read_all(struct rlog_machine_load *l, struct bytes content, size_t *ret_used)
{
    size_t used = 0;

    while (used < content.len) {
        struct reader r = reader_of(bytes_from(content, used));
        if (l->phase == LOAD_ENDED)
            return ST_CORRUPT; /* more behind the end */
        if (l->phase == LOAD_HEADER && reader_left(&r) < RLOG_CONTENT_HEADER_BYTES)
            break;
        enum status st = l->phase == LOAD_HEADER ? read_header(l, &r) : read_record(l, &r);
        if (st == ST_INVALID && content.len - used < RLOG_CONTENT_RECORD_MAX)
            break;
        if (st != ST_OK)
            return st == ST_INVALID ? ST_CORRUPT : st;
        used = (size_t)(r.at - content.data);
    }
    *ret_used = used;
    return ST_OK;
}

static enum status load_piece(struct rlog_machine_load *l, struct bytes content)
{
    size_t used = 0;

    if (l->carry.len == 0) {
        TRY(read_all(l, content, &used));
        buf_add(&l->carry, bytes_from(content, used));
        return buf_status(&l->carry);
    }
    buf_add(&l->carry, content);
    TRY(buf_status(&l->carry));
    TRY(read_all(l, buf_bytes(&l->carry), &used));
    buf_consume(&l->carry, used);
    return ST_OK;
}

enum status rlog_machine_load_piece(struct rlog_machine_load *l, struct bytes content)
{
    ASSERT(l->m != NULL);
    if (l->status == ST_OK)
        l->status = load_piece(l, content);
    return l->status;
}

enum status rlog_machine_load_end(struct rlog_machine_load *l)
{
    struct rlog_machine *m = l->m;
    enum status st = l->status;

    if (st == ST_OK && (l->phase != LOAD_ENDED || l->carry.len != 0))
        st = ST_CORRUPT;
    if (st == ST_OK) {
        *m = l->next;
        store_publish(m->store, m->version);
    } else
        store_load_reset(m->store);
    buf_done(&l->carry);
    mem_wipe(l, sizeof *l);
    mem_free(l);
    return st;
}
