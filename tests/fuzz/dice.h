/* Choices of a fuzz target: first the bytes of the input, so that a fuzzer finds its way; behind
 * them what the input stands for as a seed, so that a short file of the corpus is a long test. */
#ifndef HOLDFAST_FUZZ_DICE_H
#define HOLDFAST_FUZZ_DICE_H

#include "base/bytes.h"

struct dice {
    struct bytes rest;
    uint64_t seed;
};

static inline struct dice dice_of(const uint8_t *data, size_t size)
{
    struct dice d = {.rest = bytes_of(data, size), .seed = 0x9e3779b97f4a7c15};
    for (size_t i = 0; i < size; i++)
        d.seed = (d.seed ^ data[i]) * 0x100000001b3;
    d.seed |= 1;
    return d;
}

/* A number below n, which is at most 256. */
static inline unsigned dice_below(struct dice *d, unsigned n)
{
    ASSERT(n > 0 && n <= 256);
    if (d->rest.len != 0) {
        unsigned choice = d->rest.data[0] % n;
        d->rest = bytes_from(d->rest, 1);
        return choice;
    }
    d->seed ^= d->seed << 13;
    d->seed ^= d->seed >> 7;
    d->seed ^= d->seed << 17;
    return (unsigned)((d->seed >> 20) % n);
}

/* True once in n times. */
static inline bool dice_once(struct dice *d, unsigned n)
{
    return dice_below(d, n) == 0;
}

#endif
