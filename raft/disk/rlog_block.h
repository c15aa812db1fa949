/* Entries of the log in memory, and the counted memory that their data lies in. */
#ifndef HOLDFAST_RAFT_DISK_RLOG_BLOCK_H
#define HOLDFAST_RAFT_DISK_RLOG_BLOCK_H

#include "base/bytes.h"

/* One entry in memory, shared by the core driver, the disk and the network. The entry and `data`
 * live as long as a reference is held (rlog_entry_ref/unref), and are immutable. */
enum rlog_entry_type { RLOG_COMMAND = 1, RLOG_BARRIER = 2, RLOG_CHANGE = 3 };

struct rlog_entry {
    uint64_t term;
    enum rlog_entry_type type;
    struct bytes data;
    struct rlog_block *block; /* counted block that `data` lies in */
};

/* A counted run of memory that entries point into. Any thread. */
struct rlog_block;
/* a block with one reference; NULL: out of memory */
struct rlog_block *rlog_block_new(size_t size);
struct rlog_block *rlog_block_must(size_t size); /* as rlog_block_new, but aborts without memory */
uint8_t *rlog_block_data(struct rlog_block *block);
void rlog_block_ref(struct rlog_block *block);
void rlog_block_unref(struct rlog_block *block);

#endif
