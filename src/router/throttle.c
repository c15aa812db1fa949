#include "router/throttle.h"

bool throttle_take(struct throttle *throttle, uint64_t now_ms)
{
    uint64_t cost = throttle->every_ms, paid = atomic_load(&throttle->paid_ms), next;
    if (throttle->burst == 0)
        return true;
    ASSERT(cost != 0);
    do {
        next = MAX(paid, now_ms) + cost;
        if (next > now_ms + throttle->burst * cost)
            return false;
    } while (!atomic_compare_exchange_weak(&throttle->paid_ms, &paid, next));
    return true;
}
