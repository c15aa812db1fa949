/* New keys, and background work of the active node: attempts with key shares, rotation of keys. */
#ifndef HOLDFAST_API_SEAL_SEAL_KEYS_H
#define HOLDFAST_API_SEAL_SEAL_KEYS_H

#include "router/router.h"

/* seal_rotate.c: stage a new root key, wrapped by `seal`. ST_INVALID with the request's error: a
 * new root key has to wait. Else as state_rekey. */
NODISCARD enum status seal_root_key_new(struct req *req, const struct seal *seal);

/* seal_ceremony.c: stage the end of attempts that have expired. As state_delete. */
NODISCARD enum status seal_ceremony_upkeep(struct state_txn *txn, int64_t now_ms);

/* seal_rotate.c: the stored form of sys/rotate/config. */
struct seal_rotate_config {
    bool enabled, has_enabled;
    int64_t max_operations, interval;
    bool has_max_operations, has_interval;
};
extern const struct schema seal_rotate_config_schema;
/* seal_rotate.c: stage a new key when sys/rotate/config requires one. As state_rotate. */
NODISCARD enum status seal_rotate_upkeep(struct state_txn *txn, int64_t now_ms);

#endif
