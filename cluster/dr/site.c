#include "cluster/dr/site.h"

uint64_t dr_role_version(const struct store_pin *pin)
{
    return store_newest(pin, BYTES(DR_ROLE));
}

uint64_t dr_settings_version(const struct store_pin *pin)
{
    return store_newest(pin, BYTES(DR_SETTINGS));
}

void dr_note_conflict(struct dr *d, uint64_t epoch, const char *source)
{
    if (dr_live_conflict(&d->live, epoch, source))
        dr_count(&d->counts.conflicts, 1);
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
