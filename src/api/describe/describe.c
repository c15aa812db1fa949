/* The module and its tables. */
#include "api/describe/describe.h"
#include "front/secrets/secrets.h"

static const struct route_table *const tables[] = {&describe_openapi_table};

static const struct route_api api = {.dialect = &secrets_dialect,
                                     .prefix = "sys/",
                                     .type = "system",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_api *const apis[] = {&api};

const struct module describe_module = {
    .name = "describe",
    .apis = apis,
    .n_apis = ARRAY_LEN(apis),
};
