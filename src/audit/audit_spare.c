#include "audit/audit_spare.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/poison.h"

/* The blocks that serve such a request; NULL: none do. */
static struct audit_spare_size *size_for(struct audit_spare *spare, size_t bytes, size_t *ret_size)
{
    *ret_size = bytes;
    if (spare == NULL || bytes > AUDIT_SPARE_LARGE)
        return NULL;
    *ret_size = bytes <= AUDIT_SPARE_SMALL ? AUDIT_SPARE_SMALL : AUDIT_SPARE_LARGE;
    return bytes <= AUDIT_SPARE_SMALL ? &spare->small : &spare->large;
}

static void free_all(struct audit_spare_size *kept, size_t size)
{
    ASSERT(kept->n <= AUDIT_SPARE_MAX);
    while (kept->n > 0) {
        void *block = kept->blocks[--kept->n];
        UNPOISON(block, size);
        mem_free(block);
    }
}

void audit_spare_done(struct audit_spare *spare)
{
    free_all(&spare->small, AUDIT_SPARE_SMALL);
    free_all(&spare->large, AUDIT_SPARE_LARGE);
}

void *audit_spare_take(struct audit_spare *spare, size_t bytes)
{
    size_t size;
    struct audit_spare_size *kept = size_for(spare, bytes, &size);
    ASSERT(size >= bytes);
    if (kept == NULL || kept->n == 0)
        return mem_alloc(size);
    void *block = kept->blocks[--kept->n];
    UNPOISON(block, size);
    return block;
}

void audit_spare_give(struct audit_spare *spare, void *block, size_t bytes)
{
    size_t size;
    struct audit_spare_size *kept = size_for(spare, bytes, &size);
    ASSERT(kept == NULL || kept->n <= AUDIT_SPARE_MAX);
    if (block == NULL || kept == NULL || kept->n == AUDIT_SPARE_MAX) {
        mem_free(block);
        return;
    }
    POISON(block, size);
    kept->blocks[kept->n++] = block;
}
