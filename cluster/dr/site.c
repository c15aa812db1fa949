#include "cluster/dr/site.h"

#include "base/trace.h"

#include <inttypes.h>
#include <stdatomic.h>

uint64_t dr_role_version(const struct store_pin *pin)
{
    return store_newest(pin, BYTES(DR_ROLE));
}

void dr_addresses_of(struct dr *d, struct dr_addresses *ret)
{
    int failed = pthread_mutex_lock(&d->lock);
    ASSERT(failed == 0);
    *ret = d->addresses;
    failed = pthread_mutex_unlock(&d->lock);
    ASSERT(failed == 0);
}

void dr_addresses_note(struct dr *d, const struct dr_addresses *addresses)
{
    int failed = pthread_mutex_lock(&d->lock);
    ASSERT(failed == 0);
    d->addresses = *addresses;
    failed = pthread_mutex_unlock(&d->lock);
    ASSERT(failed == 0);
}

void dr_hear_epoch(struct dr *d, uint64_t epoch, const char *id)
{
    uint64_t before = atomic_load(&d->heard_epoch);
    while (epoch > before && !atomic_compare_exchange_weak(&d->heard_epoch, &before, epoch))
        continue;
    if (epoch > before)
        trace(TRACE_WARN, "dr", "secondary %s has epoch %" PRIu64 ": this primary is superseded",
              id, epoch);
}
