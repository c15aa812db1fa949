#include "raft/txn/rlog_txn.h"
#include "raft/txn/rlog_txn_read.h"

#include "base/plant.h"
#include "text/time.h"

enum { LIKE_FROM = 8 }; /* bytes that two keys have to share for one to refer to the other */

/* An entry under construction. Transactions of one entry mostly have the same preconditions, except
 * for the key that each one writes, and those keys begin alike. */
struct encoder {
    unsigned n; /* number of preconditions of the transaction before */
    /* each precondition as it was encoded in its transaction */
    struct bytes encoded[RLOG_PLACES_MAX];
    struct rlog_need needs[RLOG_PLACES_MAX];
    struct buf coded_needs, coded_ops;
};

static void encoder_done(struct encoder *e)
{
    buf_drop(&e->coded_needs); /* no wiping needed: all values are encrypted */
    buf_drop(&e->coded_ops);
}

static void add_same(struct buf *out, unsigned *same)
{
    if (*same == 0)
        return;
    buf_add_u8(out, RLOG_NEED_SAME);
    buf_add_varint(out, *same);
    *same = 0;
}

/* `coded`: the precondition as its transaction encodes it. `before`: the precondition at the same
 * place of the previous transaction, or NULL. */
static void add_need(struct buf *out, const struct rlog_need *need, struct bytes coded,
                     const struct rlog_need *before)
{
    size_t shared = 0;
    if (before != NULL && before->kind == RLOG_NEED_KEY && need->kind == RLOG_NEED_KEY &&
        need->key.len <= RLOG_LIKE_KEY_MAX)
        shared = bytes_common_len(before->key, need->key);
    ASSERT(shared <= need->key.len);
    if (shared < LIKE_FROM) {
        buf_add(out, coded);
        return;
    }
    buf_add_u8(out, RLOG_NEED_LIKE);
    buf_add_varint(out, shared);
    buf_add_block(out, bytes_from(need->key, shared));
    buf_add_varint(out, need->version);
}

static enum status add_needs(struct encoder *e, struct bytes seq)
{
    struct buf *out = &e->coded_needs;
    unsigned place = 0, same = 0;
    ASSERT(e->n <= RLOG_PLACES_MAX);
    for (; seq.len != 0; place++) {
        bool had = place < e->n;
        if (had && bytes_has_prefix(seq, e->encoded[place])) {
            seq = bytes_from(seq, e->encoded[place].len);
            same++;
            continue;
        }
        add_same(out, &same);
        struct bytes from = seq;
        struct rlog_need need;
        TRY(rlog_need_next(&seq, &need));
        struct bytes coded = bytes_of(from.data, from.len - seq.len);
        add_need(out, &need, coded, had ? &e->needs[place] : NULL);
        if (place < RLOG_PLACES_MAX) {
            e->encoded[place] = coded;
            e->needs[place] = need;
        }
    }
    add_same(out, &same);
    e->n = MIN(place, (unsigned)RLOG_PLACES_MAX);
    return ST_OK;
}

/* The place of the precondition on this key; e->n: there is none. */
static unsigned place_of(const struct encoder *e, struct bytes key)
{
    unsigned i = 0;
    while (i < e->n && (e->needs[i].kind != RLOG_NEED_KEY || !bytes_eq(e->needs[i].key, key)))
        i++;
    return i;
}

static enum status add_ops(struct encoder *e, struct bytes seq)
{
    struct rlog_op op;
    while (seq.len != 0) {
        struct bytes from = seq;
        TRY(rlog_op_next(&seq, &op));
        bool put = op.kind == RLOG_OP_PUT || op.kind == RLOG_OP_PUT_RETAIN;
        unsigned place = put ? place_of(e, op.key) : e->n;
        if (place == e->n) {
            buf_add(&e->coded_ops, bytes_of(from.data, from.len - seq.len));
            continue;
        }
        buf_add_u8(&e->coded_ops, op.kind == RLOG_OP_PUT ? RLOG_OP_PUT_AT : RLOG_OP_PUT_RETAIN_AT);
        buf_add_varint(&e->coded_ops, place);
        if (op.kind == RLOG_OP_PUT_RETAIN)
            store_retain_encode(&op.retain, &e->coded_ops);
        buf_add_block(&e->coded_ops, op.value);
    }
    return ST_OK;
}

static size_t varint_bytes(size_t n)
{
    size_t bytes = 1;
    for (; n >= 0x80; n >>= 7)
        bytes++;
    return bytes;
}

static enum status add_txn(struct encoder *e, struct bytes txn, struct buf *out)
{
    struct rlog_txn_view view;
    TRY(rlog_txn_open(txn, &view));
    buf_clear(&e->coded_needs);
    buf_clear(&e->coded_ops);
    TRY(add_needs(e, view.needs));
    TRY(add_ops(e, view.ops));
    TRY(buf_status(&e->coded_needs));
    TRY(buf_status(&e->coded_ops));
    struct bytes needs = buf_bytes(&e->coded_needs), ops = buf_bytes(&e->coded_ops);
    /* The part before the preconditions stays unchanged. */
    size_t head = (size_t)(view.needs.data - txn.data) - varint_bytes(view.needs.len);
    ASSERT(head < txn.len);
    buf_add_varint(out,
                   head + varint_bytes(needs.len) + needs.len + varint_bytes(ops.len) + ops.len);
    buf_add(out, bytes_of(txn.data, head));
    buf_add_block(out, needs);
    buf_add_block(out, ops);
    return ST_OK;
}

static void add_header(struct buf *out, uint16_t feature, int64_t time_ms, unsigned n_txns)
{
    buf_add_u16(out, RLOG_ENTRY_FORMAT);
    buf_add_u16(out, feature);
    buf_add_u64(out, (uint64_t)time_ms);
    buf_add_u32(out, n_txns);
}

/* Encode the transactions. `out` holds the header of the entry from `start` on. */
static enum status encode(struct encoder *e, const struct bytes *txns, unsigned n, size_t start,
                          struct buf *out)
{
    ASSERT(n > 0);
    ASSERT(out->len >= start);
    if (n == 1) /* one transaction has no other to refer to: a shorter form is not worth the work */
        buf_add_block(out, txns[0]);
    for (unsigned i = 0; n > 1 && i < n; i++)
        TRY(add_txn(e, txns[i], out));
    TRY(buf_status(out));
    return out->len - start > RLOG_ENTRY_MAX ? ST_TOO_BIG : ST_OK;
}

enum status rlog_entry_encode(uint16_t feature, int64_t time_ms, const struct bytes *txns,
                              unsigned n, struct buf *out)
{
    CLEANUP(encoder_done) struct encoder e = {0};
    size_t start = out->len, total = 0;

    ASSERT(n > 0);
    ASSERT(feature >= RLOG_FEATURE_FIRST && feature <= RLOG_FEATURE);
    ASSERT(time_ms >= 0 && time_ms < TEXT_CLOCK_END);
    for (unsigned i = 0; i < n; i++) {
        ASSERT(txns[i].len > 0);
        total += txns[i].len;
        if (total > RLOG_ENTRY_MAX)
            return ST_TOO_BIG;
    }
    TRY(buf_status(out));
    add_header(out, feature, time_ms, n);
    enum status st = encode(&e, txns, n, start, out);
    if (st != ST_OK)
        out->len = start;
    return st;
}

/* Read the header. *ret_txns is what follows. */
static enum status read_header(struct bytes entry, struct rlog_entry_header *ret_header,
                               struct bytes *ret_txns)
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
    if (r.failed)
        return ST_INVALID;
    if (h.feature > RLOG_FEATURE && !planted(PLANT_LATER_FORMAT))
        return ST_UNSUPPORTED;
    if (h.time_ms < 0 || h.time_ms >= TEXT_CLOCK_END || h.n_txns == 0)
        return ST_INVALID;
    *ret_txns = bytes_of(r.at, reader_left(&r));
    *ret_header = h;
    return ST_OK;
}

enum status rlog_entry_peek(struct bytes entry, struct rlog_entry_header *ret_header)
{
    struct bytes txns;
    return read_header(entry, ret_header, &txns);
}

enum status rlog_entry_open(struct bytes entry, struct rlog_entry_view *ret_view)
{
    struct rlog_entry_view view;

    if (entry.len > RLOG_ENTRY_MAX)
        return ST_TOO_BIG;
    TRY(read_header(entry, &view.header, &view.txns));
    if (view.txns.len == 0)
        return ST_INVALID;
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

static enum status check_txn(struct rlog_prior *prior, struct bytes txn)
{
    struct rlog_txn_view view;
    struct rlog_need_run run;
    struct rlog_op op;
    unsigned place = 0;
    enum status st;

    TRY(rlog_txn_open(txn, &view));
    do
        st = rlog_entry_need_next(prior, &view.needs, &place, &run);
    while (st == ST_OK);
    if (st != ST_NOT_FOUND)
        return st;
    while ((st = rlog_entry_op_next(prior, &view.ops, &op)) == ST_OK)
        TRY(rlog_op_check(&op));
    return st == ST_NOT_FOUND ? ST_OK : st;
}

enum status rlog_entry_check(struct bytes entry)
{
    struct rlog_prior prior;
    struct rlog_entry_view view;
    struct bytes txn;
    uint32_t n = 0;
    enum status st;

    prior.n = 0;
    TRY(rlog_entry_open(entry, &view));
    while ((st = rlog_entry_next(&view.txns, &txn)) == ST_OK) {
        TRY(check_txn(&prior, txn));
        n++;
    }
    if (st != ST_NOT_FOUND)
        return st;
    return n == view.header.n_txns ? ST_OK : ST_INVALID;
}
