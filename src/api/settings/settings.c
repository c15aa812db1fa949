/* The module and its tables. */
#include "api/settings/settings.h"
#include "front/secrets/secrets.h"

static const struct route_table *const tables[] = {&settings_cors_table, &settings_quota_table,
                                                   &settings_ui_table};

static const struct route_api api = {.dialect = &secrets_dialect,
                                     .prefix = "sys/",
                                     .type = "system",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_api *const apis[] = {&api};

const struct module settings_module = {
    .name = "settings",
    .apis = apis,
    .n_apis = ARRAY_LEN(apis),
};
