/* The registry: policies and tokens of service discovery, and facts about the cluster. */
#ifndef HOLDFAST_API_REGISTRY_REGISTRY_H
#define HOLDFAST_API_REGISTRY_REGISTRY_H

#include "router/table/module.h"

extern const struct module registry_module;

/* Tables below "acl/", "status/" and "agent/". */
extern const struct route_table registry_status_table, registry_agent_table, registry_none_table;

#endif
