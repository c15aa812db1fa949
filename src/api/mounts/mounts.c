/* The module and its tables. */
#include "api/mounts/mounts.h"
#include "front/secrets/secrets.h"

static const struct route_table *const tables[] = {&mounts_edit_table, &mounts_plugins_table,
                                                   &mounts_remount_table, &mounts_show_table};

static const struct route_api api = {.dialect = &secrets_dialect,
                                     .prefix = "sys/",
                                     .type = "system",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_api *const apis[] = {&api};

static const struct module_mount mounts[] = {
    {.mount = {.path = "identity/", .type = "identity", .description = "identity store"}},
    {.mount = {.path = "sys/",
               .type = "system",
               .description = "system endpoints used for control, policy and debugging"}},
};

static const char *const reserved[] = {"audit", "identity", "sys"};

const struct module mounts_module = {
    .name = "mounts",
    .apis = apis,
    .n_apis = ARRAY_LEN(apis),
    .mounts = mounts,
    .n_mounts = ARRAY_LEN(mounts),
    .initialise = mounts_defaults,
    .reserved = reserved,
    .n_reserved = ARRAY_LEN(reserved),
};
