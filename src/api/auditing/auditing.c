/* The module and its tables. */
#include "api/auditing/auditing.h"
#include "front/secrets/secrets.h"

static const struct route_table *const tables[] = {&auditing_devices_table,
                                                   &auditing_headers_table};

static const struct route_api api = {.dialect = &secrets_dialect,
                                     .prefix = "sys/",
                                     .type = "system",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_api *const apis[] = {&api};

const struct module auditing_module = {
    .name = "auditing",
    .apis = apis,
    .n_apis = ARRAY_LEN(apis),
};
