/* Memory for nodes: pieces of a few sizes, cut from regions of 2 MiB.
 *
 * A state grows by millions of nodes of a few hundred bytes. The C library asks the kernel for each
 * page of them, which costs more than the change of the tree (bench row `drsync`), and they are
 * spread over so many pages that lookups miss the translation cache.
 *
 * The runs of a region, 16 KiB each, hold pieces of one size. A run without pieces serves any size,
 * and a region without runs goes back to the kernel. The kernel is asked for a huge page once a
 * region is full, for the background: at its first use, a huge page costs a growing state more than
 * small ones where the host of a virtual machine must find it first. */
#ifndef HOLDFAST_STORE_SLAB_H
#define HOLDFAST_STORE_SLAB_H

#include <stddef.h>
#include <stdint.h>

enum {
    STORE_SLAB_UNIT = 8,       /* sizes are multiples of it */
    STORE_SLAB_SIZE_MAX = 616, /* greatest size of a piece */
};

struct store_slab;

/* A piece that is not in use. */
struct store_piece {
    struct store_piece *next;
};

/* Without memory the process aborts. */
struct store_slab *store_slab_new(void) __attribute__((returns_nonnull, warn_unused_result));
/* A chain of `n` pieces of `size` bytes each. Any thread. Without memory the process aborts. */
struct store_piece *store_slab_take(struct store_slab *slab, size_t size, unsigned n)
    __attribute__((returns_nonnull, warn_unused_result));
/* Take back a chain of pieces of one slab; NULL: none. Any thread. */
void store_slab_give(struct store_piece *chain);
/* Bytes of the regions. Any thread. */
size_t store_slab_bytes(struct store_slab *slab);
/* Every piece was given back. */
void store_slab_free(struct store_slab *slab);

#endif
