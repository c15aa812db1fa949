/* The module and its tables. */
#include "api/nodes/nodes.h"
#include "front/secrets/secrets.h"

static const struct route_table *const tables[] = {
    &nodes_health_table,  &nodes_host_table,   &nodes_maintenance_table, &nodes_metrics_table,
    &nodes_monitor_table, &nodes_reload_table, &nodes_requests_table,    &nodes_version_table};

static const struct route_api api = {.dialect = &secrets_dialect,
                                     .prefix = "sys/",
                                     .type = "system",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_api *const apis[] = {&api, &nodes_metrics_api};

static enum status initialise(struct req *req)
{
    return nodes_version_upkeep(req->txn, req->now_ms); /* else the active node writes it at once */
}

static const struct node_duty duties[] = {
    {.name = "the history of versions", .run = nodes_version_upkeep},
};

const struct module nodes_module = {
    .name = "nodes",
    .apis = apis,
    .n_apis = ARRAY_LEN(apis),
    .initialise = initialise,
    .duties = duties,
    .n_duties = ARRAY_LEN(duties),
};
