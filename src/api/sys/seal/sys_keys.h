/* New keys, and background work of the active node: attempts with key shares, rotation of keys. */
#ifndef HOLDFAST_API_SYS_SEAL_SYS_KEYS_H
#define HOLDFAST_API_SYS_SEAL_SYS_KEYS_H

#include "router/router.h"

/* sys_rotate.c: stage a new root key, wrapped by `seal`. ST_INVALID with the request's error: a new
 * root key has to wait. Else as state_rekey. */
NODISCARD enum status sys_root_key_new(struct req *req, const struct seal *seal);

/* sys_ceremony.c: stage the end of attempts that have expired. As state_delete. */
NODISCARD enum status sys_ceremony_upkeep(struct state_txn *txn, int64_t now_ms);

/* sys_rotate.c: the stored form of sys/rotate/config. */
struct sys_rotate_config {
    bool enabled, has_enabled;
    int64_t max_operations, interval;
    bool has_max_operations, has_interval;
};
extern const struct schema sys_rotate_config_schema;
/* sys_rotate.c: stage a new key when sys/rotate/config requires one. As state_rotate. */
NODISCARD enum status sys_rotate_upkeep(struct state_txn *txn, int64_t now_ms);

#endif
