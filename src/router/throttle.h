/* How often something may be done: a bucket that fills with time. Any thread. */
#ifndef HOLDFAST_ROUTER_THROTTLE_H
#define HOLDFAST_ROUTER_THROTTLE_H

#include "base/macros.h"

#include <stdatomic.h>
#include <stdint.h>

/* `burst` at once, then one every `every_ms`, which is not 0; burst 0: never refused.
 * Zero-initialise the rest. */
struct throttle {
    uint32_t burst, every_ms;
    _Atomic uint64_t paid_ms; /* inside: what was taken is paid for at this time */
};

/* Whether one more may be done now, by a monotonic clock; then it is counted. */
bool throttle_take(struct throttle *throttle, uint64_t now_ms);

#endif
