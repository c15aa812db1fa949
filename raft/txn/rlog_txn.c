#include "raft/txn/rlog_txn.h"
#include "raft/txn/rlog_txn_read.h"

#include <assert.h>

enum { FRAME_MAX = 64 }; /* most bytes of a transaction besides its parts */

static bool in_segment(struct bytes key)
{
    return bytes_has_prefix(key, BYTES(RLOG_REPLICATED)) ||
           bytes_has_prefix(key, BYTES(RLOG_LOCAL));
}

bool rlog_txn_key_valid(struct bytes key)
{
    static_assert(sizeof RLOG_REPLICATED == sizeof RLOG_LOCAL, "segments of one length");
    return key.len >= sizeof RLOG_LOCAL && key.len <= STORE_KEY_MAX && in_segment(key) &&
           !bytes_has_prefix(key, BYTES(RLOG_REQUESTS));
}

bool rlog_txn_prefix_valid(struct bytes prefix)
{
    return prefix.len <= STORE_KEY_MAX && in_segment(prefix);
}

static bool need_valid(const struct rlog_need *need)
{
    if (need->kind == RLOG_NEED_STAGE)
        return need->key.len == 0 && need->version != 0;
    return rlog_txn_prefix_valid(need->key) &&
           (need->kind == RLOG_NEED_PREFIX || need->key.len >= sizeof RLOG_LOCAL);
}

/* A prefix that covers a segment's own key or request records may not be deleted. */
bool rlog_txn_drop_valid(struct bytes prefix)
{
    return rlog_txn_key_valid(prefix) && !bytes_has_prefix(BYTES(RLOG_REQUESTS), prefix);
}

static bool op_valid(const struct rlog_op *op)
{
    switch (op->kind) {
    case RLOG_OP_PUT: return rlog_txn_key_valid(op->key) && op->value.len <= STORE_VALUE_MAX;
    case RLOG_OP_PUT_RETAIN:
        return rlog_txn_key_valid(op->key) && store_retain_valid(&op->retain, op->value.len);
    case RLOG_OP_DELETE: return rlog_txn_key_valid(op->key);
    case RLOG_OP_DELETE_PREFIX: return rlog_txn_drop_valid(op->key);
    case RLOG_OP_STAGE_PUT:
        return rlog_txn_key_valid(op->key) && !rlog_key_is_local(op->key) &&
               op->value.len <= STORE_VALUE_MAX && op->created > 0 && op->created <= op->modified &&
               op->modified <= INT64_MAX; /* versions can still grow */
    case RLOG_OP_STAGE_BEGIN:
    case RLOG_OP_STAGE_SWAP:
    case RLOG_OP_STAGE_DROP: return true;
    }
    return false;
}

static bool id_is_zero(const struct rlog_request_id *id)
{
    static const uint8_t zero[sizeof id->bytes];
    return memcmp(id->bytes, zero, sizeof zero) == 0;
}

void rlog_txn_done(struct rlog_txn_builder *b)
{
    buf_done(&b->needs);
    buf_done(&b->ops);
    buf_done(&b->response);
    *b = (struct rlog_txn_builder){0};
}

void rlog_txn_reserve(struct rlog_txn_builder *b, size_t needs, size_t ops)
{
    if (buf_reserve(&b->needs, needs) != ST_OK || buf_reserve(&b->ops, ops) != ST_OK)
        return; /* the buffer remembers the failure */
}

void rlog_txn_id(struct rlog_txn_builder *b, const struct rlog_request_id *id,
                 struct bytes response)
{
    ASSERT(!id_is_zero(id));
    ASSERT(response.len == 0 || response.data != NULL);
    b->id = *id;
    buf_clear(&b->response);
    if (response.len > RLOG_RESPONSE_MAX)
        b->too_big = true;
    else
        buf_add(&b->response, response);
}

static void add_need(struct rlog_txn_builder *b, const struct rlog_need *need)
{
    if (need->key.len > STORE_KEY_MAX) {
        b->too_big = true;
        return;
    }
    ASSERT(need_valid(need));
    buf_add_u8(&b->needs, (uint8_t)need->kind);
    buf_add_block(&b->needs, need->key);
    buf_add_varint(&b->needs, need->version);
    b->n_needs++;
}

void rlog_txn_need_key(struct rlog_txn_builder *b, struct bytes key, uint64_t version)
{
    add_need(b, &(struct rlog_need){RLOG_NEED_KEY, key, version});
}

void rlog_txn_need_prefix(struct rlog_txn_builder *b, struct bytes prefix, uint64_t version)
{
    add_need(b, &(struct rlog_need){RLOG_NEED_PREFIX, prefix, version});
}

static bool op_has_value(enum rlog_op_kind kind)
{
    return kind == RLOG_OP_PUT || kind == RLOG_OP_STAGE_PUT || kind == RLOG_OP_PUT_RETAIN;
}

static bool op_has_key(enum rlog_op_kind kind)
{
    return kind <= RLOG_OP_DELETE_PREFIX || op_has_value(kind);
}

static void add_op(struct rlog_txn_builder *b, const struct rlog_op *op)
{
    /* An oversized transaction cannot be sent: stop collecting it. */
    if (op->key.len > STORE_KEY_MAX || op->value.len > STORE_VALUE_MAX ||
        b->ops.len > RLOG_TXN_MAX) {
        b->too_big = true;
        return;
    }
    ASSERT(op_valid(op));
    buf_add_u8(&b->ops, (uint8_t)op->kind);
    if (op_has_key(op->kind))
        buf_add_block(&b->ops, op->key);
    if (op->kind == RLOG_OP_STAGE_PUT) {
        buf_add_varint(&b->ops, op->created);
        buf_add_varint(&b->ops, op->modified);
    }
    if (op->kind == RLOG_OP_PUT_RETAIN)
        store_retain_encode(&op->retain, &b->ops);
    if (op_has_value(op->kind))
        buf_add_block(&b->ops, op->value);
    b->n_ops++;
}

void rlog_txn_need_stage(struct rlog_txn_builder *b, uint64_t stage)
{
    add_need(b, &(struct rlog_need){RLOG_NEED_STAGE, {0}, stage});
}

void rlog_txn_put(struct rlog_txn_builder *b, struct bytes key, struct bytes value)
{
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_PUT, .key = key, .value = value});
}

/* Room for a value of `len` bytes, the last part of the operation. */
static uint8_t *put_room(struct rlog_txn_builder *b, const struct rlog_op *op, size_t len)
{
    ASSERT(len > 0);
    if (len > STORE_VALUE_MAX)
        b->too_big = true;
    if (b->too_big)
        return NULL;
    add_op(b, op); /* with the length 0 as its last byte */
    if (b->too_big || b->ops.failed)
        return NULL;
    b->ops.len--;
    buf_add_varint(&b->ops, len);
    return buf_extend(&b->ops, len);
}

uint8_t *rlog_txn_put_room(struct rlog_txn_builder *b, struct bytes key, size_t len)
{
    return put_room(b, &(struct rlog_op){.kind = RLOG_OP_PUT, .key = key}, len);
}

uint8_t *rlog_txn_put_retain_room(struct rlog_txn_builder *b, struct bytes key, size_t len,
                                  struct store_retain retain)
{
    if (!store_retain_valid(&retain, len)) {
        b->too_big = true;
        return NULL;
    }
    struct rlog_op op = {.kind = RLOG_OP_PUT_RETAIN, .key = key, .retain = retain};
    return put_room(b, &op, len);
}

void rlog_txn_delete(struct rlog_txn_builder *b, struct bytes key)
{
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_DELETE, .key = key});
}

void rlog_txn_delete_prefix(struct rlog_txn_builder *b, struct bytes prefix)
{
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_DELETE_PREFIX, .key = prefix});
}

void rlog_txn_stage_begin(struct rlog_txn_builder *b)
{
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_STAGE_BEGIN});
}

void rlog_txn_stage_put(struct rlog_txn_builder *b, struct bytes key, struct bytes value,
                        uint64_t created, uint64_t modified)
{
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_STAGE_PUT,
                                .key = key,
                                .value = value,
                                .created = created,
                                .modified = modified});
}

bool rlog_txn_stage_valid(const struct store_item *item)
{
    return op_valid(&(struct rlog_op){.kind = RLOG_OP_STAGE_PUT,
                                      .key = item->key,
                                      .value = item->value,
                                      .created = item->created,
                                      .modified = item->modified});
}

void rlog_txn_stage_swap(struct rlog_txn_builder *b)
{
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_STAGE_SWAP});
}

void rlog_txn_stage_drop(struct rlog_txn_builder *b)
{
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_STAGE_DROP});
}

enum status rlog_txn_encode(const struct rlog_txn_builder *b, struct buf *out)
{
    bool has_id = !id_is_zero(&b->id);
    size_t start = out->len;

    TRY(buf_status(&b->needs));
    TRY(buf_status(&b->ops));
    TRY(buf_status(&b->response));
    if (b->too_big)
        return ST_TOO_BIG;
    ASSERT(has_id || b->response.len == 0);
    TRY(buf_reserve(out, FRAME_MAX + b->needs.len + b->ops.len + b->response.len));

    buf_add_u8(out, RLOG_TXN_FORMAT);
    buf_add_u8(out, has_id ? RLOG_TXN_HAS_ID : 0);
    if (has_id) {
        buf_add(out, bytes_of(b->id.bytes, sizeof b->id.bytes));
        buf_add_u64(out, b->id.issued);
        buf_add_block(out, buf_bytes(&b->response));
    }
    buf_add_block(out, buf_bytes(&b->needs));
    buf_add_block(out, buf_bytes(&b->ops));
    enum status st = buf_status(out);
    if (st == ST_OK && out->len - start > RLOG_TXN_MAX)
        st = ST_TOO_BIG;
    if (st != ST_OK)
        out->len = start;
    return st;
}

enum status rlog_txn_open(struct bytes txn, struct rlog_txn_view *ret_view)
{
    if (txn.len > RLOG_TXN_MAX)
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
    if (view.has_id && id_is_zero(&view.id))
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
    if (r->failed || kind < RLOG_NEED_KEY || kind > RLOG_NEED_STAGE || !need_valid(&need))
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
    return need_valid(ret_need) ? ST_OK : ST_INVALID;
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
    if (op->kind == RLOG_OP_PUT_RETAIN)
        op->retain = store_retain_decode(r);
    if (op_has_value(op->kind))
        op->value = reader_block(r);
    if (r->failed || !op_valid(op))
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
    if ((kind < RLOG_OP_PUT || kind > RLOG_OP_STAGE_DROP) && kind != RLOG_OP_PUT_RETAIN)
        return ST_INVALID;
    struct rlog_op op = {.kind = (enum rlog_op_kind)kind};
    if (op_has_key(op.kind))
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

enum status rlog_txn_check(struct bytes txn)
{
    struct rlog_txn_view view;
    struct rlog_need need;
    struct rlog_op op;
    enum status st;

    TRY(rlog_txn_open(txn, &view));
    do
        st = rlog_need_next(&view.needs, &need);
    while (st == ST_OK);
    if (st != ST_NOT_FOUND)
        return st;
    do
        st = rlog_op_next(&view.ops, &op);
    while (st == ST_OK);
    return st == ST_NOT_FOUND ? ST_OK : st;
}

void rlog_txn_touch_needs(struct bytes txn,
                          void (*each)(void *ctx, enum rlog_touch touch, struct bytes key),
                          void *ctx)
{
    struct rlog_txn_view view;
    struct rlog_need need;

    ASSERT(each != NULL);
    if (rlog_txn_open(txn, &view) != ST_OK)
        return;
    while (rlog_need_next(&view.needs, &need) == ST_OK)
        if (need.kind != RLOG_NEED_STAGE) /* no write of a key decides whether a stage is open */
            each(ctx, need.kind == RLOG_NEED_KEY ? RLOG_TOUCH_NEED_KEY : RLOG_TOUCH_NEED_PREFIX,
                 need.key);
}

void rlog_txn_touch_ops(struct bytes txn,
                        void (*each)(void *ctx, enum rlog_touch touch, struct bytes key), void *ctx)
{
    static const enum rlog_touch touches[] = {
        [RLOG_OP_PUT] = RLOG_TOUCH_PUT,        [RLOG_OP_PUT_RETAIN] = RLOG_TOUCH_PUT,
        [RLOG_OP_DELETE] = RLOG_TOUCH_DELETE,  [RLOG_OP_DELETE_PREFIX] = RLOG_TOUCH_DELETE_PREFIX,
        [RLOG_OP_STAGE_SWAP] = RLOG_TOUCH_ALL,
    };
    struct rlog_txn_view view;
    struct rlog_op op;

    ASSERT(each != NULL);
    if (rlog_txn_open(txn, &view) != ST_OK)
        return;
    while (rlog_op_next(&view.ops, &op) == ST_OK)
        if (op.kind != RLOG_OP_STAGE_BEGIN && op.kind != RLOG_OP_STAGE_PUT &&
            op.kind != RLOG_OP_STAGE_DROP)
            each(ctx, touches[op.kind], op.key);
}
