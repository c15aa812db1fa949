/* Tests of texts by sixteen bytes at once, for texts that every request has. Vectors are of gcc and
 * clang: a comparison gives -1 or 0 for each byte. */
#ifndef HOLDFAST_BASE_VECTOR_H
#define HOLDFAST_BASE_VECTOR_H

#include "base/bytes.h"

enum { VECTOR_BYTES = 16 };
#define VECTOR_OF(type) type __attribute__((vector_size(VECTOR_BYTES)))

static inline VECTOR_OF(uint8_t) vector_at(const uint8_t *at)
{
    VECTOR_OF(uint8_t) v;
    memcpy(&v, at, sizeof v);
    return v;
}

static inline bool vector_is_all(VECTOR_OF(int8_t) truths)
{
    const VECTOR_OF(uint64_t) halves = (VECTOR_OF(uint64_t))truths;
    return (halves[0] & halves[1]) == UINT64_MAX;
}

/* Whether `is_fit` is true of all bytes of a text: it judges the VECTOR_BYTES from `at` on. The
 * last ones overlap those before. False for a text that is shorter than that. */
static inline bool vector_all_fit(struct bytes text, bool (*is_fit)(const uint8_t *at))
{
    if (text.len < VECTOR_BYTES)
        return false;
    const uint8_t *at = text.data, *last = at + text.len - VECTOR_BYTES;
    for (; at < last; at += VECTOR_BYTES)
        if (!is_fit(at))
            return false;
    return is_fit(last);
}

#endif
