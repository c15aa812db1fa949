/* Counters that one thread writes and any thread reads. */
#ifndef HOLDFAST_BASE_TALLY_H
#define HOLDFAST_BASE_TALLY_H

#include <stdatomic.h>
#include <stdint.h>

static inline uint64_t tally_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void tally_set(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, n, memory_order_relaxed);
}

static inline void tally_add(_Atomic uint64_t *counter, uint64_t n)
{
    tally_set(counter, tally_get(counter) + n);
}

#endif
