/* One node: health, leader, metrics, log, maintenance, versions. */
#ifndef HOLDFAST_API_NODES_NODES_H
#define HOLDFAST_API_NODES_NODES_H

#include "router/req_node.h"

extern const struct module nodes_module;

extern const struct route_table nodes_health_table;
extern const struct route_table nodes_host_table;
extern const struct route_table nodes_maintenance_table;
extern const struct route_table nodes_metrics_table;
extern const struct route_table nodes_monitor_table;
extern const struct route_table nodes_reload_table;
extern const struct route_table nodes_requests_table;
extern const struct route_table nodes_version_table;

extern const struct route_api nodes_metrics_api; /* /v1/metrics: an alias of sys/metrics */

/* nodes_version.c: the active node stores its version. */
NODISCARD enum status nodes_version_upkeep(struct state_txn *txn, int64_t now_ms);

#endif
