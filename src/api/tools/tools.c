/* The module and its tables. */
#include "api/tools/tools.h"
#include "front/secrets/secrets.h"

static const struct route_table *const tables[] = {&tools_random_table, &tools_wrapping_table};

static const struct route_api api = {.dialect = &secrets_dialect,
                                     .prefix = "sys/",
                                     .type = "system",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_api *const apis[] = {&api};

const struct module tools_module = {
    .name = "tools",
    .apis = apis,
    .n_apis = ARRAY_LEN(apis),
};
