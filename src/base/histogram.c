#include "base/histogram.h"

#include "base/macros.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define S (1000 * MS)

const uint64_t histogram_bounds_ns[HISTOGRAM_BOUNDS] = {
    100 * US, 250 * US, 500 * US, 1 * MS,   2500 * US, 5 * MS,    10 * MS, 25 * MS,
    50 * MS,  100 * MS, 250 * MS, 500 * MS, 1 * S,     2500 * MS, 5 * S,   10 * S,
};

void histogram_sum_add(struct histogram_sum *sum, const struct histogram *h)
{
    for (size_t i = 0; i < ARRAY_LEN(sum->counts); i++)
        sum->counts[i] += tally_get(&h->counts[i]);
    sum->sum_ns += tally_get(&h->sum_ns);
}
