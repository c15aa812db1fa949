#include "store/pins.h"
#include "base/mem.h"
#include "base/trace.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

enum { CACHE_LINE = 64 };

static_assert(sizeof(struct store_slot) == CACHE_LINE, "one slot a cache line");

/* The slot that this thread had last. The thread tries it first, so each thread soon keeps to one
 * slot. */
static _Thread_local unsigned last_slot;

enum status store_pins_init(struct store_pins *pins)
{
    void *memory = mem_zalloc((STORE_PINS_MAX + 1) * sizeof *pins->slots);
    if (memory == NULL)
        return ST_NOMEM;
    uintptr_t aligned = ((uintptr_t)memory + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    ASSERT(aligned - (uintptr_t)memory < sizeof *pins->slots); /* one spare slot, to align */
    pins->memory = memory;
    pins->slots = (struct store_slot *)aligned;
    for (unsigned i = 0; i < STORE_PINS_MAX; i++)
        atomic_init(&pins->slots[i].generation, 0);
    atomic_init(&pins->used, 0);
    atomic_init(&pins->now_ms, 0);
    return ST_OK;
}

void store_pins_done(struct store_pins *pins)
{
    for (unsigned i = 0; pins->slots != NULL && i < STORE_PINS_MAX; i++)
        ASSERT(atomic_load(&pins->slots[i].generation) == 0);
    mem_free(pins->memory);
    *pins = (struct store_pins){0};
}

/* Raise `used` above `slot` before the slot is taken: the writer reads `used`, then the slots below
 * it. */
static void cover(struct store_pins *pins, unsigned slot)
{
    unsigned used = atomic_load(&pins->used);
    while (used <= slot && !atomic_compare_exchange_weak(&pins->used, &used, slot + 1))
        continue;
}

enum status store_pins_take(struct store_pins *pins, const _Atomic uint64_t *published,
                            uint64_t *ret_generation, unsigned *ret_slot)
{
    for (unsigned tries = 0; tries < STORE_PINS_MAX; tries++) {
        unsigned i = (last_slot + tries) % STORE_PINS_MAX;
        uint64_t none = 0, generation = atomic_load(published);
        if (atomic_load_explicit(&pins->slots[i].generation, memory_order_relaxed) != 0)
            continue;
        cover(pins, i);
        if (!atomic_compare_exchange_strong(&pins->slots[i].generation, &none, generation))
            continue;
        last_slot = i;
        if (atomic_load(published) != generation)
            generation = store_pins_renew(pins, published, i);
        *ret_generation = generation;
        *ret_slot = i;
        return ST_OK;
    }
    return ST_BUSY;
}

uint64_t store_pins_renew(struct store_pins *pins, const _Atomic uint64_t *published, unsigned slot)
{
    uint64_t generation;
    do {
        generation = atomic_load(published);
        ASSERT(generation != 0);
        atomic_store(&pins->slots[slot].generation, generation);
    } while (atomic_load(published) != generation);
    return generation;
}

void store_pins_describe(struct store_pins *pins, unsigned slot, const char *owner,
                         uint32_t deadline_ms)
{
    struct store_slot *s = &pins->slots[slot];
    ASSERT(owner != NULL);
    atomic_store_explicit(&s->owner, owner, memory_order_relaxed);
    atomic_store_explicit(&s->deadline_ms, deadline_ms != 0 ? deadline_ms : STORE_PIN_DEADLINE_MS,
                          memory_order_relaxed);
    atomic_store_explicit(&s->since_ms, 0, memory_order_relaxed);
    atomic_store_explicit(&s->reported, false, memory_order_relaxed);
}

void store_pins_give(struct store_pins *pins, unsigned slot)
{
    ASSERT(slot < STORE_PINS_MAX);
    ASSERT(atomic_load_explicit(&pins->slots[slot].generation, memory_order_relaxed) != 0);
    /* Forget when this owner took the slot: the time must not count for the next owner. */
    atomic_store_explicit(&pins->slots[slot].since_ms, 0, memory_order_relaxed);
    atomic_store_explicit(&pins->slots[slot].generation, 0, memory_order_release);
}

static int by_generation(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void store_pins_held(const struct store_pins *pins, struct store_held *ret_held)
{
    unsigned used = atomic_load(&pins->used);
    size_t n = 0, unique = 0;
    ASSERT(used <= STORE_PINS_MAX);
    for (unsigned i = 0; i < used; i++) {
        uint64_t generation = atomic_load(&pins->slots[i].generation);
        if (generation != 0)
            ret_held->generation[n++] = generation;
    }
    if (n > 1)
        qsort(ret_held->generation, n, sizeof *ret_held->generation, by_generation);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || ret_held->generation[i] != ret_held->generation[i - 1])
            ret_held->generation[unique++] = ret_held->generation[i];
    ASSERT(unique <= n);
    ret_held->n = unique;
}

uint64_t store_held_between(const struct store_held *held, uint64_t birth, uint64_t death)
{
    size_t low = 0, high = held->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (held->generation[middle] < birth)
            low = middle + 1;
        else
            high = middle;
    }
    return low < held->n && held->generation[low] < death ? held->generation[low] : 0;
}

static void slot_tick(struct store_slot *s, uint64_t generation, uint64_t now_ms)
{
    uint64_t since = atomic_load_explicit(&s->since_ms, memory_order_relaxed);
    if (since == 0) {
        atomic_store_explicit(&s->since_ms, now_ms, memory_order_relaxed);
        return;
    }
    uint32_t deadline_ms = atomic_load_explicit(&s->deadline_ms, memory_order_relaxed);
    if (now_ms - since <= deadline_ms || atomic_load_explicit(&s->reported, memory_order_relaxed))
        return;
    const char *owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
    atomic_store_explicit(&s->reported, true, memory_order_relaxed);
    trace(TRACE_WARN, "store",
          "a pin of %s on generation %" PRIu64 " is held for %" PRIu64 " ms, its deadline is %u ms",
          owner != NULL ? owner : "an unknown owner", generation, now_ms - since, deadline_ms);
}

unsigned store_pins_tick(struct store_pins *pins, uint64_t now_ms)
{
    unsigned used = atomic_load(&pins->used), held = 0;
    atomic_store_explicit(&pins->now_ms, now_ms, memory_order_relaxed);
    for (unsigned i = 0; i < used; i++) {
        struct store_slot *s = &pins->slots[i];
        uint64_t generation = atomic_load_explicit(&s->generation, memory_order_relaxed);
        if (generation == 0)
            continue;
        held++;
        slot_tick(s, generation, now_ms);
    }
    return held;
}

void store_pins_stats(const struct store_pins *pins, uint64_t *ret_pins, uint64_t *ret_oldest_ms)
{
    unsigned used = atomic_load(&pins->used);
    uint64_t now_ms = atomic_load_explicit(&pins->now_ms, memory_order_relaxed);
    uint64_t held = 0, oldest_ms = 0;
    for (unsigned i = 0; i < used; i++) {
        const struct store_slot *s = &pins->slots[i];
        if (atomic_load_explicit(&s->generation, memory_order_relaxed) == 0)
            continue;
        held++;
        uint64_t since = atomic_load_explicit(&s->since_ms, memory_order_relaxed);
        if (since != 0 && since < now_ms)
            oldest_ms = MAX(oldest_ms, now_ms - since);
    }
    *ret_pins = held;
    *ret_oldest_ms = oldest_ms;
}
