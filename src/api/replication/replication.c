/* The module and its tables. */
#include "api/replication/replication.h"
#include "api/replication/replication_follow.h"
#include "front/secrets/secrets.h"

static const struct route_table *const tables[] = {
    &replication_bootstrap_table, &replication_check_table,       &replication_drill_table,
    &replication_enable_table,    &replication_lost_table,        &replication_more_table,
    &replication_primary_table,   &replication_secondaries_table, &replication_secondary_table,
    &replication_settings_table,  &replication_status_table};

static const struct route_api api = {.dialect = &secrets_dialect,
                                     .prefix = "sys/",
                                     .type = "system",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_api *const apis[] = {&api};

static const struct node_service services[] = {
    {.name = "DR primary", .run = replication_keep},
    {.name = "DR primary that was", .run = replication_keep, .standing = true},
    {.name = "DR herald", .run = replication_herald},
    {.name = "DR secondary", .run = replication_follow, .standing = true},
};

const struct module replication_module = {
    .name = "replication",
    .apis = apis,
    .n_apis = ARRAY_LEN(apis),
    .services = services,
    .n_services = ARRAY_LEN(services),
};
