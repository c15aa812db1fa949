/* Settings of a primary for its secondaries: a record of the local state, so that every node of the
 * cluster follows them, and the next active node too. The record holds no secret and is not
 * encrypted: a sealed node serves no secondary, but knows them. A change of the mode deletes it. */
#ifndef HOLDFAST_CLUSTER_DR_SETTINGS_H
#define HOLDFAST_CLUSTER_DR_SETTINGS_H

#include "cluster/dr/keys.h"

enum {
    DR_SYNC_TIMEOUT_MS = 2000,
    /* A shorter one would end between two looks at the clock. A node that forwards a write waits
     * for 10 seconds at most, so the longest one leaves time for a second try. */
    DR_SYNC_TIMEOUT_MIN_MS = 200,
    DR_SYNC_TIMEOUT_MAX_MS = 5000,
    DR_BANDWIDTH_MIN = 16 * 1024, /* bytes a second; less would not carry the frames in time */
};

/* So that the bytes of a time that is counted fit a number. */
#define DR_BANDWIDTH_MAX (INT64_C(1) << 40)

struct dr_settings {
    bool sync; /* replies to writes wait for a secondary (hold.h) */
    uint32_t sync_timeout_ms;
    uint64_t bandwidth; /* bytes a second to one secondary; 0: no bound */
};

/* Without a record the settings are the defaults. ST_CORRUPT; else as state_get. */
NODISCARD enum status dr_settings_read(struct state_txn *txn, struct dr_settings *ret);
/* The same at a pin. ST_CORRUPT. Any thread. */
NODISCARD enum status dr_settings_at(const struct store_pin *pin, struct dr_settings *ret);
/* Stage settings within their bounds. */
NODISCARD enum status dr_settings_put(struct state_txn *txn, const struct dr_settings *settings);

#endif
