#include "store/spare.h"
#include "base/macros.h"
#include "base/mem.h"

#include <assert.h>

enum { CHAIN_BYTES = 8 * 1024 }; /* taken from the slabs, or given back, at once */

static_assert((STORE_SPARE_SIZES - 1) * STORE_SPARE_UNIT - sizeof(size_t) == STORE_SLAB_SIZE_MAX,
              "the sizes that are kept are those of slabs");

static void refill(struct store_spare *spare, size_t index)
{
    size_t bytes = index * STORE_SPARE_UNIT;
    unsigned n = (unsigned)(CHAIN_BYTES / bytes);
    ASSERT(spare->first[index] == NULL && n > 0);
    if (spare->slab == NULL)
        spare->slab = store_slab_new();
    spare->first[index] = store_slab_take(spare->slab, bytes - sizeof(size_t), n);
    spare->bytes[index] = n * (uint32_t)bytes;
}

void *store_spare_take(struct store_spare *spare, size_t size)
{
    size_t bytes = store_spare_bytes(size), index = bytes / STORE_SPARE_UNIT;
    if (!STORE_SPARE_KEEPS || index >= STORE_SPARE_SIZES)
        return mem_must_alloc(bytes - sizeof(size_t));
    if (spare->first[index] == NULL)
        refill(spare, index);
    struct store_piece *piece = spare->first[index];
    ASSERT(spare->bytes[index] >= bytes);
    spare->first[index] = piece->next;
    spare->bytes[index] -= (uint32_t)bytes;
    return piece;
}

/* Give the newest pieces of a size back to the slabs. */
static void drain(struct store_spare *spare, size_t index, size_t bytes)
{
    struct store_piece *chain = spare->first[index], *last = chain;
    size_t given = index * STORE_SPARE_UNIT;
    for (; given < bytes; given += index * STORE_SPARE_UNIT)
        last = last->next;
    spare->first[index] = last->next;
    spare->bytes[index] -= (uint32_t)given;
    last->next = NULL;
    store_slab_give(chain);
}

void store_spare_give(struct store_spare *spare, void *memory, size_t bytes)
{
    size_t index = bytes / STORE_SPARE_UNIT;
    struct store_piece *piece = memory;
    ASSERT(bytes % STORE_SPARE_UNIT == 0 && bytes >= sizeof *piece + sizeof(size_t));
    if (!STORE_SPARE_KEEPS || index >= STORE_SPARE_SIZES) {
        mem_free(memory);
        return;
    }
    if (spare == NULL) {
        piece->next = NULL;
        store_slab_give(piece);
        return;
    }
    piece->next = spare->first[index];
    spare->first[index] = piece;
    spare->bytes[index] += (uint32_t)bytes;
    if (spare->bytes[index] > STORE_SPARE_BYTES_MAX)
        drain(spare, index, CHAIN_BYTES);
}

void store_spare_done(struct store_spare *spare)
{
    for (size_t i = 0; i < STORE_SPARE_SIZES; i++) {
        ASSERT((spare->bytes[i] == 0) == (spare->first[i] == NULL));
        store_slab_give(spare->first[i]);
    }
    if (spare->slab != NULL)
        store_slab_free(spare->slab);
    *spare = (struct store_spare){.slab = NULL};
}
