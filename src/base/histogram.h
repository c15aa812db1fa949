/* Histogram of durations with fixed buckets. One thread writes, any thread reads. A reader may miss
 * a duration that is being added at that moment. No lock, and no allocation. */
#ifndef HOLDFAST_BASE_HISTOGRAM_H
#define HOLDFAST_BASE_HISTOGRAM_H

#include "base/tally.h"

enum { HISTOGRAM_BOUNDS = 16 };

/* Upper bounds of the buckets, inclusive, ascending. A duration above the last bound falls into one
 * more bucket. */
extern const uint64_t histogram_bounds_ns[HISTOGRAM_BOUNDS];

struct histogram {
    _Atomic uint64_t counts[HISTOGRAM_BOUNDS + 1]; /* for each bucket, not cumulative */
    _Atomic uint64_t sum_ns;
};

/* A copy of one histogram, or the sum of several. */
struct histogram_sum {
    uint64_t counts[HISTOGRAM_BOUNDS + 1], sum_ns;
};

static inline void histogram_add(struct histogram *h, uint64_t ns)
{
    unsigned i = 0;
    while (i < HISTOGRAM_BOUNDS && ns > histogram_bounds_ns[i])
        i++;
    tally_add(&h->counts[i], 1);
    tally_add(&h->sum_ns, ns);
}

/* Add the counts of `h` to *sum. */
void histogram_sum_add(struct histogram_sum *sum, const struct histogram *h);

#endif
