/* Sizes of encrypted values and MACs, and bounds of key rings. */
#ifndef HOLDFAST_BARRIER_LIMITS_H
#define HOLDFAST_BARRIER_LIMITS_H

#include <stdint.h>

enum {
    BARRIER_OVERHEAD = 1 + 4 + 12 + 16, /* an encrypted value is longer by this */
    BARRIER_MAC_BYTES = 32,
    BARRIER_TERMS_MAX = 256, /* in one ring */
};
/* 2^32 messages with random nonces are the bound of SP 800-38D 8.3; half of it is ours. */
#define BARRIER_USES_MAX (UINT64_C(1) << 31)
/* Uses are written to the ring this many at a time, before they are made. A process begins with few
 * and doubles them: what it has left when it ends counts as used. */
#define BARRIER_USES_GRANT (INT64_C(1) << 20)
#define BARRIER_USES_FIRST (INT64_C(1) << 12)

#endif
