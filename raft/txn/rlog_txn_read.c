#include "raft/txn/rlog_txn_read.h"

#include "text/time.h"

bool rlog_need_valid(const struct rlog_need *need)
{
    if (need->kind == RLOG_NEED_STAGE)
        return need->key.len == 0 && need->version != 0;
    return rlog_txn_prefix_valid(need->key) &&
           (need->kind == RLOG_NEED_PREFIX || need->key.len >= sizeof RLOG_LOCAL);
}

static bool version_valid(uint64_t version)
{
    return version > 0 && version <= RLOG_VERSION_MAX;
}

/* The key of the segment itself has no value, and version 0 unless a swap wrote it. */
static bool stage_put_valid(const struct rlog_op *op)
{
    bool segment = bytes_eq(op->key, BYTES(RLOG_REPLICATED)) && op->value.len == 0;
    if (!segment && (!rlog_txn_key_valid(op->key) || rlog_key_is_local(op->key)))
        return false;
    return op->value.len <= STORE_VALUE_MAX && (segment || op->created > 0) &&
           op->created <= op->modified && op->modified <= INT64_MAX; /* versions can still grow */
}

bool rlog_op_valid(const struct rlog_op *op)
{
    switch (op->kind) {
    case RLOG_OP_PUT: return rlog_txn_key_valid(op->key) && op->value.len <= STORE_VALUE_MAX;
    case RLOG_OP_PUT_RETAIN:
        return rlog_txn_key_valid(op->key) && store_retain_valid(&op->retain, op->value.len);
    case RLOG_OP_DELETE: return rlog_txn_key_valid(op->key);
    case RLOG_OP_DELETE_PREFIX: return rlog_txn_drop_valid(op->key);
    case RLOG_OP_STAGE_PUT: return stage_put_valid(op);
    case RLOG_OP_WAL: return op->value.len > 0 && op->value.len <= RLOG_WAL_RECORD_MAX;
    case RLOG_OP_STAGE_NEWEST:
        return rlog_txn_prefix_valid(op->key) && !rlog_key_is_local(op->key) &&
               version_valid(op->modified);
    case RLOG_OP_STAGE_SWAP_AT:
        return version_valid(op->modified) && op->created < TEXT_CLOCK_END &&
               op->floor <= op->modified;
    case RLOG_OP_STAGE_DELETE:
        return !rlog_key_is_local(op->key) &&
               (rlog_txn_key_valid(op->key) || bytes_eq(op->key, BYTES(RLOG_REPLICATED)));
    case RLOG_OP_RAISE: return version_valid(op->modified);
    case RLOG_OP_STAGE_BEGIN:
    case RLOG_OP_STAGE_CLONE:
    case RLOG_OP_STAGE_SWAP:
    case RLOG_OP_STAGE_DROP: return true;
    }
    return false;
}

bool rlog_id_is_zero(const struct rlog_request_id *id)
{
    static const uint8_t zero[sizeof id->bytes];
    return memcmp(id->bytes, zero, sizeof zero) == 0;
}

/* Sets of kinds, a bit each. */
enum {
    PUTS = 1 << RLOG_OP_PUT | 1 << RLOG_OP_PUT_RETAIN | 1 << RLOG_OP_STAGE_PUT,
    WITH_VALUE = PUTS | 1 << RLOG_OP_WAL,
    WITH_KEY = PUTS | 1 << RLOG_OP_DELETE | 1 << RLOG_OP_DELETE_PREFIX | 1 << RLOG_OP_STAGE_NEWEST |
               1 << RLOG_OP_STAGE_DELETE,
    WITH_VERSION = 1 << RLOG_OP_STAGE_NEWEST | 1 << RLOG_OP_STAGE_SWAP_AT | 1 << RLOG_OP_RAISE,
    /* encoded outside of entries too */
    KINDS = WITH_VALUE | WITH_KEY | WITH_VERSION | 1 << RLOG_OP_STAGE_BEGIN |
            1 << RLOG_OP_STAGE_SWAP | 1 << RLOG_OP_STAGE_DROP | 1 << RLOG_OP_STAGE_CLONE,
};

static bool is_in(enum rlog_op_kind kind, unsigned kinds)
{
    return (kinds >> kind & 1) != 0;
}

bool rlog_op_has_value(enum rlog_op_kind kind)
{
    return is_in(kind, WITH_VALUE);
}

bool rlog_op_has_key(enum rlog_op_kind kind)
{
    return is_in(kind, WITH_KEY);
}

bool rlog_op_has_version(enum rlog_op_kind kind)
{
    return is_in(kind, WITH_VERSION);
}

enum status rlog_txn_open(struct bytes txn, struct rlog_txn_view *ret_view)
{
    if (txn.len > RLOG_TXN_MAX + RLOG_TXN_WAL_MORE)
        return ST_TOO_BIG;
    struct reader r = reader_of(txn);
    struct rlog_txn_view view = {0};
    uint8_t format = reader_u8(&r), flags = reader_u8(&r);
    if (r.failed)
        return ST_INVALID;
    if (format != RLOG_TXN_FORMAT || (flags & ~RLOG_TXN_HAS_ID) != 0)
        return ST_UNSUPPORTED;
    view.has_id = (flags & RLOG_TXN_HAS_ID) != 0;
    if (view.has_id) {
        struct bytes id = reader_take(&r, sizeof view.id.bytes);
        if (r.failed)
            return ST_INVALID;
        memcpy(view.id.bytes, id.data, id.len);
        view.id.issued = reader_u64(&r);
        view.response = reader_block(&r);
    }
    view.needs = reader_block(&r);
    view.ops = reader_block(&r);
    TRY(reader_end(&r));
    if (view.response.len > RLOG_RESPONSE_MAX)
        return ST_TOO_BIG;
    if (view.has_id && rlog_id_is_zero(&view.id))
        return ST_INVALID;
    *ret_view = view;
    return ST_OK;
}

/* Read the part of a precondition that follows its kind in a sequence. */
static enum status need_read(struct reader *r, uint8_t kind, struct bytes *seq,
                             struct rlog_need *ret_need)
{
    struct bytes key = reader_block(r);
    uint64_t version = reader_varint(r);
    struct rlog_need need = {(enum rlog_need_kind)kind, key, version};
    if (r->failed || kind < RLOG_NEED_KEY || kind > RLOG_NEED_STAGE || !rlog_need_valid(&need))
        return ST_INVALID;
    *seq = bytes_of(r->at, reader_left(r));
    *ret_need = need;
    return ST_OK;
}

enum status rlog_need_next(struct bytes *seq, struct rlog_need *ret_need)
{
    if (seq->len == 0)
        return ST_NOT_FOUND;
    struct reader r = reader_of(*seq);
    uint8_t kind = reader_u8(&r);
    return need_read(&r, kind, seq, ret_need);
}

/* Read a precondition whose key begins like the key at the same place in the previous transaction.
 * The rest of the key is appended to the shared beginning. */
static enum status like_read(struct reader *r, struct rlog_prior *prior, unsigned place,
                             struct rlog_need *ret_need)
{
    uint64_t shared = reader_varint(r);
    struct bytes rest = reader_block(r);
    uint64_t version = reader_varint(r);
    if (r->failed || place >= prior->n || prior->needs[place].kind != RLOG_NEED_KEY)
        return ST_INVALID;
    struct bytes before = prior->needs[place].key;
    if (shared == 0 || shared > before.len || shared + rest.len > RLOG_LIKE_KEY_MAX)
        return ST_INVALID;
    uint8_t *key = prior->keys[place];
    ASSERT(place < RLOG_PLACES_MAX);
    if (before.data != key)
        memcpy(key, before.data, shared);
    if (rest.len != 0)
        memcpy(key + shared, rest.data, rest.len);
    *ret_need =
        (struct rlog_need){RLOG_NEED_KEY, bytes_of(key, (size_t)shared + rest.len), version};
    return rlog_need_valid(ret_need) ? ST_OK : ST_INVALID;
}

enum status rlog_entry_need_next(struct rlog_prior *prior, struct bytes *seq, unsigned *place,
                                 struct rlog_need_run *ret_run)
{
    struct rlog_need_run run = {.place = *place, .n = 1};
    ASSERT(prior->n <= RLOG_PLACES_MAX);
    if (seq->len == 0) {
        prior->n = MIN(*place, (unsigned)RLOG_PLACES_MAX);
        return ST_NOT_FOUND;
    }
    struct reader r = reader_of(*seq);
    uint8_t kind = reader_u8(&r);
    if (kind == RLOG_NEED_SAME) {
        uint64_t n = reader_varint(&r);
        if (r.failed || n == 0 || n > prior->n || *place > prior->n - n)
            return ST_INVALID;
        run.same = true;
        run.n = (unsigned)n;
    } else if (kind == RLOG_NEED_LIKE) {
        TRY(like_read(&r, prior, *place, &run.need));
    } else {
        TRY(need_read(&r, kind, seq, &run.need));
    }
    if (kind >= RLOG_NEED_SAME)
        *seq = bytes_of(r.at, reader_left(&r));
    if (!run.same && *place < RLOG_PLACES_MAX)
        prior->needs[*place] = run.need;
    *place += run.n;
    *ret_run = run;
    return ST_OK;
}

/* Read the part of an operation that follows its key; kind and key are in *op. */
static enum status op_read(struct reader *r, struct rlog_op *op, struct bytes *seq,
                           struct rlog_op *ret_op)
{
    if (op->kind == RLOG_OP_STAGE_PUT) {
        op->created = reader_varint(r);
        op->modified = reader_varint(r);
    }
    if (rlog_op_has_version(op->kind))
        op->modified = reader_varint(r);
    if (op->kind == RLOG_OP_STAGE_SWAP_AT) {
        op->created = reader_varint(r);
        op->floor = reader_varint(r);
    }
    if (op->kind == RLOG_OP_PUT_RETAIN)
        op->retain = store_retain_decode(r);
    if (rlog_op_has_value(op->kind))
        op->value = reader_block(r);
    if (r->failed || !rlog_op_valid(op))
        return ST_INVALID;
    *seq = bytes_of(r->at, reader_left(r));
    *ret_op = *op;
    return ST_OK;
}

enum status rlog_op_next(struct bytes *seq, struct rlog_op *ret_op)
{
    if (seq->len == 0)
        return ST_NOT_FOUND;
    struct reader r = reader_of(*seq);
    uint8_t kind = reader_u8(&r);
    if (kind > RLOG_OP_LAST || !is_in((enum rlog_op_kind)kind, KINDS))
        return ST_INVALID;
    struct rlog_op op = {.kind = (enum rlog_op_kind)kind};
    if (rlog_op_has_key(op.kind))
        op.key = reader_block(&r);
    return op_read(&r, &op, seq, ret_op);
}

enum status rlog_entry_op_next(const struct rlog_prior *prior, struct bytes *seq,
                               struct rlog_op *ret_op)
{
    uint8_t kind = seq->len != 0 ? seq->data[0] : 0;
    if (kind != RLOG_OP_PUT_AT && kind != RLOG_OP_PUT_RETAIN_AT)
        return rlog_op_next(seq, ret_op);
    struct reader r = reader_of(bytes_from(*seq, 1));
    struct rlog_op op = {.kind = kind == RLOG_OP_PUT_AT ? RLOG_OP_PUT : RLOG_OP_PUT_RETAIN};
    uint64_t place = reader_varint(&r);
    if (r.failed || place >= prior->n || prior->needs[place].kind != RLOG_NEED_KEY)
        return ST_INVALID;
    op.key = prior->needs[place].key;
    return op_read(&r, &op, seq, ret_op);
}
