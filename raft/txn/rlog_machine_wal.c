#include "raft/txn/rlog_machine_wal.h"
#include "raft/txn/rlog_txn_read.h"
#include "raft/txn/rlog_wal.h"

#include "base/plant.h"

enum status rlog_machine_wal_test(struct bytes run, uint64_t *version, bool *ret_gap)
{
    struct rlog_wal_span span;
    struct rlog_wal_record record;

    TRY(rlog_wal_check(run, &span));
    uint64_t known = span.before; /* version of the last record that the state may have */
    while (known < *version && rlog_wal_next(&run, &record) == ST_OK && record.version <= *version)
        known = record.version;
    bool gap = span.last > *version && known != *version;
    *ret_gap = gap && !planted(PLANT_DR_GAP);
    *version = MAX(*version, span.last);
    return ST_OK;
}

static void record_op_apply(struct rlog_machine *m, const struct rlog_op *op, uint64_t version)
{
    ASSERT(!rlog_key_is_local(op->key));
    switch (op->kind) {
    case RLOG_OP_PUT: store_put(m->store, op->key, op->value, version); return;
    case RLOG_OP_PUT_RETAIN:
        store_put_retain(m->store, op->key, op->value, op->retain, version);
        return;
    case RLOG_OP_DELETE:
        (void)store_delete(m->store, op->key, version); /* an absent key is fine */
        return;
    default:
        ASSERT(op->kind == RLOG_OP_DELETE_PREFIX); /* rlog_wal_check refuses every other kind */
        store_delete_prefix(m->store, op->key, version);
    }
}

void rlog_machine_wal_apply(struct rlog_machine *m, struct bytes run)
{
    struct rlog_wal_record record;
    struct rlog_op op;

    while (rlog_wal_next(&run, &record) == ST_OK) {
        bool known = record.version <= m->version;
        if (known && !planted(PLANT_DR_TWICE))
            continue;
        while (rlog_op_next(&record.ops, &op) == ST_OK)
            record_op_apply(m, &op, record.version);
        if (known)
            continue;
        m->version = record.version;
        m->time_ms = MAX(m->time_ms, record.time_ms);
        if (m->wal != NULL)
            rlog_wal_append(m->wal, &record);
    }
}

bool rlog_machine_wal_following(const struct rlog_machine *m)
{
    struct store_item item;
    return store_writer_get(m->store, BYTES(RLOG_FOLLOWING), &item) == ST_OK;
}
