/* Keys: background work of the active node. */
#ifndef HOLDFAST_API_SYS_SEAL_SYS_KEYS_H
#define HOLDFAST_API_SYS_SEAL_SYS_KEYS_H

#include "router/router.h"

/* sys_ceremony.c. For the active node: stage the end of an attempt that has expired. As
 * state_delete. */
NODISCARD enum status sys_ceremony_upkeep(struct state_txn *txn, int64_t now_ms);

/* sys_rotate.c: sys/rotate/config as stored. */
struct sys_rotate_config {
    bool enabled, has_enabled;
    int64_t max_operations, interval;
    bool has_max_operations, has_interval;
};
extern const struct schema sys_rotate_config_schema;
/* For the active node: stage a new key where sys/rotate/config says that it is time. As
 * state_rotate. */
NODISCARD enum status sys_rotate_upkeep(struct state_txn *txn, int64_t now_ms);

#endif
