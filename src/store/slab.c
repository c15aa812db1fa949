#include "store/slab.h"
#include "base/list.h"
#include "base/mem.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    REGION_BYTES = 2 * 1024 * 1024, /* one huge page */
    RUN_BYTES = 16 * 1024,
    RUNS = REGION_BYTES / RUN_BYTES,
    SIZES = STORE_SLAB_SIZE_MAX / STORE_SLAB_UNIT + 1,
};

/* Pieces of one size, in the run's place in the region. */
struct run {
    struct list link;          /* of the slab's runs of this size with room */
    struct store_piece *first; /* pieces that were given back */
    uint32_t fresh;            /* bytes of the run that were cut already */
    uint16_t size, n_used;
};

/* At the beginning of the region, in place of its first run. */
struct region {
    struct store_slab *owner;
    struct list link; /* of the slab's regions with free runs */
    unsigned n_free;
    bool is_free[RUNS];
    struct run runs[RUNS];
};
static_assert(sizeof(struct region) <= RUN_BYTES, "the head of a region takes the first run");

struct store_slab {
    pthread_mutex_t lock;     /* guards all, regions included */
    struct list roomy[SIZES]; /* runs with room */
    struct list regions;      /* regions with free runs */
    size_t n_regions;
};

static void lock(struct store_slab *slab)
{
    (void)pthread_mutex_lock(&slab->lock); /* cannot fail: default mutex, never held twice */
}

static void unlock(struct store_slab *slab)
{
    (void)pthread_mutex_unlock(&slab->lock); /* cannot fail: this thread holds the lock */
}

static struct region *region_of(const void *piece)
{
    return (struct region *)((uintptr_t)piece & ~(uintptr_t)(REGION_BYTES - 1));
}

static size_t run_at(const void *piece)
{
    return ((uintptr_t)piece & (REGION_BYTES - 1)) / RUN_BYTES;
}

static bool run_has_room(const struct run *run)
{
    return run->first != NULL || run->fresh + run->size <= RUN_BYTES;
}

static struct region *region_new(struct store_slab *slab)
{
    struct region *region = mem_must_map(REGION_BYTES);
    region->owner = slab;
    for (size_t i = 1; i < RUNS; i++)
        region->is_free[i] = true;
    region->n_free = RUNS - 1;
    list_push(&slab->regions, &region->link);
    slab->n_regions++;
    return region;
}

static struct run *run_new(struct store_slab *slab, size_t size)
{
    struct region *region = list_empty(&slab->regions)
                                ? region_new(slab)
                                : CONTAINER_OF(slab->regions.next, struct region, link);
    size_t at = 1;
    while (!region->is_free[at])
        at++;
    ASSERT(at < RUNS && region->n_free > 0);
    region->is_free[at] = false;
    region->n_free--;
    if (region->n_free == 0) {
        list_remove(&region->link);
        mem_make_huge(region, REGION_BYTES);
    }
    struct run *run = &region->runs[at];
    *run = (struct run){.size = (uint16_t)size};
    list_push(&slab->roomy[size / STORE_SLAB_UNIT], &run->link);
    return run;
}

static struct store_piece *piece_take(struct store_slab *slab, size_t size)
{
    struct list *roomy = &slab->roomy[size / STORE_SLAB_UNIT];
    struct run *run =
        list_empty(roomy) ? run_new(slab, size) : CONTAINER_OF(roomy->next, struct run, link);
    struct region *region = region_of(run);
    struct store_piece *piece = run->first;
    ASSERT(run->size == size && run_has_room(run));
    if (piece != NULL) {
        run->first = piece->next;
    } else {
        size_t at = (size_t)(run - region->runs) * RUN_BYTES + run->fresh;
        piece = (struct store_piece *)(void *)((uint8_t *)region + at);
        run->fresh += run->size;
    }
    run->n_used++;
    if (!run_has_room(run))
        list_remove(&run->link);
    return piece;
}

/* One region without pieces is kept, so a state that changes at the edge of a region does not map
 * and unmap it each time. */
static void run_free(struct store_slab *slab, struct region *region, size_t at)
{
    list_remove(&region->runs[at].link);
    region->is_free[at] = true;
    region->n_free++;
    if (region->n_free == 1)
        list_push(&slab->regions, &region->link);
    bool only = slab->regions.next == slab->regions.prev;
    if (region->n_free < RUNS - 1 || only)
        return;
    list_remove(&region->link);
    slab->n_regions--;
    mem_unmap(region, REGION_BYTES);
}

static void piece_give(struct store_slab *slab, struct store_piece *piece)
{
    struct region *region = region_of(piece);
    size_t at = run_at(piece);
    struct run *run = &region->runs[at];
    ASSERT(region->owner == slab && run->n_used > 0);
    if (!run_has_room(run))
        list_push(&slab->roomy[run->size / STORE_SLAB_UNIT], &run->link);
    piece->next = run->first;
    run->first = piece;
    run->n_used--;
    if (run->n_used == 0)
        run_free(slab, region, at);
}

struct store_slab *store_slab_new(void)
{
    struct store_slab *slab = mem_must_alloc(sizeof *slab);
    *slab = (struct store_slab){.n_regions = 0};
    if (pthread_mutex_init(&slab->lock, NULL) != 0) {
        (void)fprintf(stderr, "out of memory: a lock where failure has no answer\n"); /* abort */
        abort();
    }
    for (size_t i = 0; i < SIZES; i++)
        list_init(&slab->roomy[i]);
    list_init(&slab->regions);
    return slab;
}

struct store_piece *store_slab_take(struct store_slab *slab, size_t size, unsigned n)
{
    struct store_piece *chain = NULL;
    ASSERT(size % STORE_SLAB_UNIT == 0 && size >= sizeof *chain && size <= STORE_SLAB_SIZE_MAX);
    ASSERT(n > 0);
    lock(slab);
    do {
        struct store_piece *piece = piece_take(slab, size);
        piece->next = chain;
        chain = piece;
    } while (--n > 0);
    unlock(slab);
    return chain;
}

void store_slab_give(struct store_piece *chain)
{
    if (chain == NULL)
        return;
    struct store_slab *slab = region_of(chain)->owner;
    lock(slab);
    while (chain != NULL) {
        struct store_piece *next = chain->next;
        piece_give(slab, chain);
        chain = next;
    }
    unlock(slab);
}

size_t store_slab_bytes(struct store_slab *slab)
{
    lock(slab);
    size_t bytes = slab->n_regions * REGION_BYTES;
    unlock(slab);
    return bytes;
}

void store_slab_free(struct store_slab *slab)
{
    struct list *link;
    while ((link = list_pop(&slab->regions)) != NULL) {
        struct region *region = CONTAINER_OF(link, struct region, link);
        ASSERT(region->n_free == RUNS - 1);
        slab->n_regions--;
        mem_unmap(region, REGION_BYTES);
    }
    ASSERT(slab->n_regions == 0);             /* every piece was given back */
    (void)pthread_mutex_destroy(&slab->lock); /* no thread holds the lock */
    mem_free(slab);
}
