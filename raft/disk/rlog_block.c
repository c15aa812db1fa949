#include "base/mem.h"
#include "raft/disk/rlog_block.h"

#include <stdatomic.h>

struct rlog_block {
    _Atomic uint32_t refs;
    _Alignas(max_align_t) uint8_t data[];
};

struct rlog_block *rlog_block_new(size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    struct rlog_block *block = mem_alloc(sizeof *block + size);
    if (block != NULL)
        block->refs = 1;
    return block;
}

struct rlog_block *rlog_block_must(size_t size)
{
    ASSERT(size <= SIZE_MAX / 2);
    struct rlog_block *block = mem_must_alloc(sizeof *block + size);
    block->refs = 1;
    return block;
}

uint8_t *rlog_block_data(struct rlog_block *block)
{
    return block->data;
}

void rlog_block_ref(struct rlog_block *block)
{
    if (block == NULL)
        return;
    uint32_t before = atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
    ASSERT(before > 0 && before < UINT32_MAX);
}

void rlog_block_unref(struct rlog_block *block)
{
    if (block == NULL)
        return;
    uint32_t before = atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel);
    ASSERT(before > 0);
    if (before == 1)
        mem_free(block);
}
