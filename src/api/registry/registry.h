/* The registry: policies and tokens of service discovery, and facts about the cluster. */
#ifndef HOLDFAST_API_REGISTRY_REGISTRY_H
#define HOLDFAST_API_REGISTRY_REGISTRY_H

#include "router/table/module.h"
#include "text/config_block.h"

extern const struct module registry_module;

/* registry_config.c */
extern const struct config_block registry_block;
void registry_configure(const void *fields);

/* registry_builtins.c: stage the builtin policies that are not stored, and those whose rules
 * another build made, once the cluster has REGISTRY_FEATURE. Stages nothing else, and reads two
 * keys. As registry_policy_put. */
NODISCARD enum status registry_builtins_make(struct state_txn *txn, int64_t now_ms);

/* Tables below "acl/", "status/" and "agent/". */
extern const struct route_table registry_status_table, registry_agent_table, registry_none_table,
    registry_policy_table, registry_bootstrap_table, registry_token_table;

#endif
