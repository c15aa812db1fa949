/* Content of a snapshot: what rlog_machine_dump writes and rlog_machine_load reads. Layout:
 * raft/FORMAT.md, "Snapshot content". */
#ifndef HOLDFAST_RAFT_TXN_RLOG_MACHINE_CONTENT_H
#define HOLDFAST_RAFT_TXN_RLOG_MACHINE_CONTENT_H

#include "raft/txn/rlog_txn.h"

#define RLOG_CONTENT_MAGIC "hfstate"

enum {
    RLOG_CONTENT_FORMAT = 1,
    RLOG_CONTENT_HEADER_BYTES = 7 + 1 + 2 + 8 * 5,
    RLOG_CONTENT_END = 0,
    RLOG_CONTENT_KEY = 1,
    RLOG_CONTENT_NEWEST = 2,
    /* tag, four varints, suffix, value */
    RLOG_CONTENT_RECORD_MAX = 1 + 5 * 10 + STORE_KEY_MAX + STORE_VALUE_MAX,
};

#endif
