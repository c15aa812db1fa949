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

/* A prefix that covers a segment's own key or request records may not be deleted. */
bool rlog_txn_drop_valid(struct bytes prefix)
{
    return rlog_txn_key_valid(prefix) && !bytes_has_prefix(BYTES(RLOG_REQUESTS), prefix);
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
    ASSERT(!rlog_id_is_zero(id));
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
    ASSERT(rlog_need_valid(need));
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

void rlog_op_encode(const struct rlog_op *op, struct buf *out)
{
    ASSERT(rlog_op_valid(op));
    buf_add_u8(out, (uint8_t)op->kind);
    if (rlog_op_has_key(op->kind))
        buf_add_block(out, op->key);
    if (op->kind == RLOG_OP_STAGE_PUT)
        buf_add_varint(out, op->created);
    if (op->kind == RLOG_OP_STAGE_PUT || rlog_op_has_version(op->kind))
        buf_add_varint(out, op->modified);
    if (op->kind == RLOG_OP_STAGE_SWAP_AT) {
        buf_add_varint(out, op->created);
        buf_add_varint(out, op->floor);
    }
    if (op->kind == RLOG_OP_PUT_RETAIN)
        store_retain_encode(&op->retain, out);
    if (rlog_op_has_value(op->kind))
        buf_add_block(out, op->value);
}

static void add_op(struct rlog_txn_builder *b, const struct rlog_op *op)
{
    size_t value_max = op->kind == RLOG_OP_WAL ? RLOG_WAL_RECORD_MAX : STORE_VALUE_MAX;
    /* An oversized transaction cannot be sent: stop collecting it. */
    if (op->key.len > STORE_KEY_MAX || op->value.len > value_max || b->ops.len > RLOG_TXN_MAX) {
        b->too_big = true;
        return;
    }
    rlog_op_encode(op, &b->ops);
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
    return rlog_op_valid(&(struct rlog_op){.kind = RLOG_OP_STAGE_PUT,
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

void rlog_txn_wal(struct rlog_txn_builder *b, struct bytes run)
{
    ASSERT(run.len > 0);
    b->wal = true;
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_WAL, .value = run});
}

void rlog_txn_stage_newest(struct rlog_txn_builder *b, struct bytes prefix, uint64_t version)
{
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_STAGE_NEWEST, .key = prefix, .modified = version});
}

void rlog_txn_stage_swap_at(struct rlog_txn_builder *b, uint64_t version, int64_t time_ms)
{
    rlog_txn_stage_swap_floor(b, version, time_ms, 0);
}

void rlog_txn_stage_swap_floor(struct rlog_txn_builder *b, uint64_t version, int64_t time_ms,
                               uint64_t floor)
{
    ASSERT(time_ms >= 0);
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_STAGE_SWAP_AT,
                                .created = (uint64_t)time_ms,
                                .modified = version,
                                .floor = floor});
}

void rlog_txn_stage_clone(struct rlog_txn_builder *b)
{
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_STAGE_CLONE});
}

void rlog_txn_stage_delete(struct rlog_txn_builder *b, struct bytes key)
{
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_STAGE_DELETE, .key = key});
}

void rlog_txn_raise(struct rlog_txn_builder *b, uint64_t version)
{
    add_op(b, &(struct rlog_op){.kind = RLOG_OP_RAISE, .modified = version});
}

enum status rlog_txn_encode(const struct rlog_txn_builder *b, struct buf *out)
{
    bool has_id = !rlog_id_is_zero(&b->id);
    size_t start = out->len, most = RLOG_TXN_MAX + (b->wal ? RLOG_TXN_WAL_MORE : 0);

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
    if (st == ST_OK && out->len - start > most)
        st = ST_TOO_BIG;
    if (st != ST_OK)
        out->len = start;
    return st;
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

/* How conflict detection sees an operation: its touch, and the key if that is not the operation's.
 * An operation without a touch changes no key that a precondition can name. */
struct op_touch {
    bool touches;
    enum rlog_touch touch;
};

static const struct op_touch op_touches[] = {
    [RLOG_OP_PUT] = {true, RLOG_TOUCH_PUT},
    [RLOG_OP_PUT_RETAIN] = {true, RLOG_TOUCH_PUT},
    [RLOG_OP_DELETE] = {true, RLOG_TOUCH_DELETE},
    [RLOG_OP_DELETE_PREFIX] = {true, RLOG_TOUCH_DELETE_PREFIX},
    [RLOG_OP_STAGE_SWAP] = {true, RLOG_TOUCH_ALL},
    [RLOG_OP_STAGE_SWAP_AT] = {true, RLOG_TOUCH_ALL},
    [RLOG_OP_WAL] = {true, RLOG_TOUCH_DELETE_PREFIX}, /* any replicated key */
    [RLOG_OP_LAST] = {false, RLOG_TOUCH_ALL},
};

void rlog_txn_touch_ops(struct bytes txn,
                        void (*each)(void *ctx, enum rlog_touch touch, struct bytes key), void *ctx)
{
    struct rlog_txn_view view;
    struct rlog_op op;

    ASSERT(each != NULL);
    if (rlog_txn_open(txn, &view) != ST_OK)
        return;
    while (rlog_op_next(&view.ops, &op) == ST_OK) {
        ASSERT(op.kind < ARRAY_LEN(op_touches));
        if (op_touches[op.kind].touches)
            each(ctx, op_touches[op.kind].touch,
                 op.kind == RLOG_OP_WAL ? BYTES(RLOG_REPLICATED) : op.key);
    }
}
