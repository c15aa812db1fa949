/* Sizes of encrypted values and MACs, and bounds of key rings. */
#ifndef HOLDFAST_BARRIER_LIMITS_H
#define HOLDFAST_BARRIER_LIMITS_H

#include <stdint.h>

enum {
    /* bytes by which an encrypted value is longer than its plaintext */
    BARRIER_OVERHEAD = 1 + 4 + 12 + 16,
    BARRIER_MAC_BYTES = 32,
    BARRIER_TERMS_MAX = 256, /* most terms in one ring */
};
/* Half of the 2^32 messages with random nonces that SP 800-38D 8.3 allows under one key. */
#define BARRIER_USES_MAX (UINT64_C(1) << 31)
/* The largest and the first grant of uses. The ring counts a grant before the uses are made. A
 * process begins with a small grant and doubles each next grant. When a process ends, the unused
 * rest of its grant counts as used. */
#define BARRIER_USES_GRANT (INT64_C(1) << 20)
#define BARRIER_USES_FIRST (INT64_C(1) << 12)

#endif
