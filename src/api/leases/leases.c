/* The module and its tables. */
#include "api/leases/leases.h"
#include "front/secrets/secrets.h"

static const struct route_table *const tables[] = {&leases_count_table, &leases_routes_table};

static const struct route_api api = {.dialect = &secrets_dialect,
                                     .prefix = "sys/",
                                     .type = "system",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_api *const apis[] = {&api};

const struct module leases_module = {
    .name = "leases",
    .apis = apis,
    .n_apis = ARRAY_LEN(apis),
};
