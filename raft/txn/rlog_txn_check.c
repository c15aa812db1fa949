#include "raft/txn/rlog_txn_read.h"
#include "raft/txn/rlog_wal.h"

enum status rlog_op_check(const struct rlog_op *op)
{
    struct rlog_wal_span span;
    return op->kind == RLOG_OP_WAL ? rlog_wal_check(op->value, &span) : ST_OK;
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
    while ((st = rlog_op_next(&view.ops, &op)) == ST_OK)
        TRY(rlog_op_check(&op));
    return st == ST_NOT_FOUND ? ST_OK : st;
}
