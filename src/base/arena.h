/* Memory that lives as long as one request. All of it is wiped and released at once. One thread. */
#ifndef HOLDFAST_BASE_ARENA_H
#define HOLDFAST_BASE_ARENA_H

#include "base/bytes.h"
#include "base/status.h"

struct arena_block;

/* Zero-initialise. `bytes_max` bounds the total; 0: no bound. `block_bytes` is the size of a block
 * that the arena allocates; 0: 4 KiB. */
struct arena {
    struct arena_block *blocks;
    size_t bytes, bytes_max, block_bytes;
};

void arena_done(struct arena *a); /* wipes and releases; the arena is empty and usable again */
/* Wipe the content. The arena is empty, and keeps its first block for later allocations. */
void arena_clear(struct arena *a);

/* Bytes of the blocks, used or not. */
size_t arena_held(const struct arena *a);
/* Aligned for any type. NULL when out of memory or beyond bytes_max. */
void *arena_alloc(struct arena *a, size_t size)
    __attribute__((malloc, alloc_size(2), warn_unused_result));
void *arena_zalloc(struct arena *a, size_t size)
    __attribute__((malloc, alloc_size(2), warn_unused_result));

/* Copies; the string forms are zero-terminated. NULL when out of memory. */
uint8_t *arena_dup(struct arena *a, struct bytes b) __attribute__((warn_unused_result));
char *arena_str(struct arena *a, struct bytes b) __attribute__((warn_unused_result));
char *arena_concat(struct arena *a, const char *first, const char *second)
    __attribute__((warn_unused_result));
char *arena_number(struct arena *a, uint64_t n) /* in decimal, cheaper than arena_format */
    __attribute__((warn_unused_result));
char *arena_format(struct arena *a, const char *format, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result));

#endif
