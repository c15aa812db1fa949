#include "raft/txn/rlog_txn_read.h"
#include "raft/txn/rlog_wal.h"

#include "text/time.h"

/* The part of a record behind its header. */
static enum status read_rest(struct rlog_wal_record *record, struct bytes rest)
{
    switch (record->kind) {
    case RLOG_WAL_OPS:
        record->before = record->version - 1;
        record->ops = rest;
        return rest.len <= RLOG_TXN_MAX ? ST_OK : ST_INVALID;
    case RLOG_WAL_JUMP:
        if (rest.len != 8)
            return ST_INVALID;
        record->before = le64_get(rest.data);
        record->ops = (struct bytes){0};
        return record->before < record->version ? ST_OK : ST_INVALID;
    }
    return ST_INVALID;
}

enum status rlog_wal_next(struct bytes *run, struct rlog_wal_record *ret_record)
{
    struct rlog_wal_record record;
    struct reader r = reader_of(*run);

    if (run->len == 0)
        return ST_NOT_FOUND;
    record.kind = (enum rlog_wal_kind)reader_u8(&r);
    record.version = reader_u64(&r);
    record.time_ms = (int64_t)reader_u64(&r);
    struct bytes rest = reader_take(&r, reader_u32(&r));
    if (r.failed || record.version == 0 || record.version > RLOG_VERSION_MAX ||
        record.time_ms < 0 || record.time_ms >= TEXT_CLOCK_END)
        return ST_INVALID;
    TRY(read_rest(&record, rest));
    record.encoded = bytes_of(run->data, run->len - reader_left(&r));
    *run = bytes_from(*run, record.encoded.len);
    *ret_record = record;
    return ST_OK;
}

/* Whether a record may contain the operation. */
static bool op_allowed(const struct rlog_op *op)
{
    switch (op->kind) {
    case RLOG_OP_PUT:
    case RLOG_OP_DELETE:
    case RLOG_OP_DELETE_PREFIX:
    case RLOG_OP_PUT_RETAIN: return !rlog_key_is_local(op->key);
    default: return false;
    }
}

static enum status ops_check(struct bytes ops)
{
    struct rlog_op op;
    while (ops.len != 0) {
        TRY(rlog_op_next(&ops, &op));
        if (!op_allowed(&op))
            return ST_INVALID;
    }
    return ST_OK;
}

enum status rlog_wal_check(struct bytes run, struct rlog_wal_span *ret_span)
{
    struct rlog_wal_span span = {0};
    struct rlog_wal_record record;
    enum status st;

    if (run.len > RLOG_WAL_RECORD_MAX)
        return ST_TOO_BIG;
    while ((st = rlog_wal_next(&run, &record)) == ST_OK) {
        if (span.n > 0 && record.before != span.last)
            return ST_INVALID;
        TRY(ops_check(record.ops));
        if (span.n++ == 0)
            span.before = record.before;
        span.last = record.version;
    }
    if (st != ST_NOT_FOUND || span.n == 0)
        return ST_INVALID;
    *ret_span = span;
    return ST_OK;
}
