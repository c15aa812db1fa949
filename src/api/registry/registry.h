/* The registry: policies and tokens of service discovery, and facts about the cluster. */
#ifndef HOLDFAST_API_REGISTRY_REGISTRY_H
#define HOLDFAST_API_REGISTRY_REGISTRY_H

#include "router/table/module.h"
#include "text/config_block.h"

extern const struct module registry_module;

/* registry_config.c */
extern const struct config_block registry_block;
void registry_configure(const void *fields);

/* Tables below "acl/", "status/" and "agent/". */
extern const struct route_table registry_status_table, registry_agent_table, registry_none_table;

#endif
