/* Memory of freed nodes, kept for new nodes of the same size.
 *
 * A batch of writes frees about as many nodes as the next batch creates, thousands of a few sizes.
 * They change hands here without a lock. What is missing comes from slabs, and what is too much
 * goes back, many pieces at a time.
 *
 * Used by the writer's thread; other threads may give nodes back without it. Builds with a
 * sanitizer keep nothing and take each node from the C library, so they find uses of freed nodes.
 */
#ifndef HOLDFAST_STORE_SPARE_H
#define HOLDFAST_STORE_SPARE_H

#include "store/slab.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STORE_SPARE_KEEPS 0
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STORE_SPARE_KEEPS 0
#endif
#ifndef STORE_SPARE_KEEPS
#define STORE_SPARE_KEEPS 1
#endif

enum {
    STORE_SPARE_UNIT = 16,              /* sizes are multiples of it */
    STORE_SPARE_SIZES = 40,             /* sizes that are kept: below 640 bytes */
    STORE_SPARE_BYTES_MAX = 128 * 1024, /* most bytes kept of one size */
};

/* Zero-initialise. */
struct store_spare {
    struct store_slab *slab; /* NULL: nothing was taken from it yet */
    struct store_piece *first[STORE_SPARE_SIZES];
    uint32_t bytes[STORE_SPARE_SIZES];
};

/* Bytes that a node of `size` bytes counts for: those of the C library's allocator, which adds a
 * size word. So the size of a state does not depend on the build. */
static inline size_t store_spare_bytes(size_t size)
{
    return (size + sizeof(size_t) + STORE_SPARE_UNIT - 1) / STORE_SPARE_UNIT * STORE_SPARE_UNIT;
}

/* Memory for `size` bytes. Without memory the process aborts. */
void *store_spare_take(struct store_spare *spare, size_t size)
    __attribute__((returns_nonnull, warn_unused_result));
/* Take back memory of store_spare_take, which counts for `bytes`. `spare` may be NULL, on any
 * thread: then nothing is kept. */
void store_spare_give(struct store_spare *spare, void *memory, size_t bytes);
/* Free what is kept, after all that was taken has been given back. */
void store_spare_done(struct store_spare *spare);

#endif
