/* Disaster recovery between two clusters. */
#ifndef HOLDFAST_API_REPLICATION_REPLICATION_H
#define HOLDFAST_API_REPLICATION_REPLICATION_H

#include "router/req_node.h"

extern const struct module replication_module;

extern const struct route_table replication_bootstrap_table;
extern const struct route_table replication_check_table;
extern const struct route_table replication_drill_table;
extern const struct route_table replication_enable_table;
extern const struct route_table replication_lost_table;
extern const struct route_table replication_more_table;
extern const struct route_table replication_primary_table;
extern const struct route_table replication_secondaries_table;
extern const struct route_table replication_secondary_table;
extern const struct route_table replication_settings_table;
extern const struct route_table replication_status_table;

#endif
