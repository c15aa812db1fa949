#include "store/spare.h"
#include "base/macros.h"
#include "base/mem.h"

struct store_spare_piece {
    struct store_spare_piece *next;
};

void *store_spare_take(struct store_spare *spare, size_t size)
{
    size_t bytes = store_spare_bytes(size), index = bytes / STORE_SPARE_UNIT;
    struct store_spare_piece *piece = index < STORE_SPARE_SIZES ? spare->first[index] : NULL;
    /* All of the size, so that the piece serves every node of that size later. */
    if (piece == NULL)
        return mem_must_alloc(bytes - sizeof(size_t));
    ASSERT(spare->bytes[index] >= bytes);
    spare->first[index] = piece->next;
    spare->bytes[index] -= (uint32_t)bytes;
    return piece;
}

void store_spare_give(struct store_spare *spare, void *memory, size_t bytes)
{
    size_t index = bytes / STORE_SPARE_UNIT;
    struct store_spare_piece *piece = memory;
    ASSERT(bytes % STORE_SPARE_UNIT == 0 && bytes >= sizeof *piece + sizeof(size_t));
    if (!STORE_SPARE_KEEPS || spare == NULL || index >= STORE_SPARE_SIZES ||
        spare->bytes[index] + bytes > STORE_SPARE_BYTES_MAX) {
        mem_free(memory);
        return;
    }
    piece->next = spare->first[index];
    spare->first[index] = piece;
    spare->bytes[index] += (uint32_t)bytes;
}

void store_spare_done(struct store_spare *spare)
{
    for (size_t i = 0; i < STORE_SPARE_SIZES; i++) {
        ASSERT((spare->bytes[i] == 0) == (spare->first[i] == NULL));
        struct store_spare_piece *piece = spare->first[i];
        while (piece != NULL) {
            struct store_spare_piece *next = piece->next;
            mem_free(piece);
            piece = next;
        }
    }
    *spare = (struct store_spare){.bytes = {0}};
}
