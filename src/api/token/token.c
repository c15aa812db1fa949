/* The module, and the table of auth/token/: the tables of its files. */
#include "api/token/token.h"
#include "auth/token_lease.h"
#include "front/secrets/secrets.h"

static const struct route_table *const token_tables[] = {&token_create_table, &token_show_table,
                                                         &token_life_table, &token_list_table,
                                                         &token_role_table};

static const struct route_api token_api = {.dialect = &secrets_dialect,
                                           .prefix = "auth/token/",
                                           .type = "token",
                                           .more = token_tables,
                                           .n_more = ARRAY_LEN(token_tables)};

static const struct route_api *const token_apis[] = {&token_api};

static const struct module_mount token_mounts[] = {
    {.mount = {.path = "auth/token/", .type = "token", .description = "token based credentials"}},
};

static const char *const token_reserved[] = {"auth"};

static const struct lease_kind *const token_leases[] = {&token_lease_kind};

static const struct expiry_kind *const token_expires[] = {&token_expiry};

const struct module token_module = {.name = "token",
                                    .apis = token_apis,
                                    .n_apis = ARRAY_LEN(token_apis),
                                    .mounts = token_mounts,
                                    .n_mounts = ARRAY_LEN(token_mounts),
                                    .reserved = token_reserved,
                                    .n_reserved = ARRAY_LEN(token_reserved),
                                    .leases = token_leases,
                                    .n_leases = ARRAY_LEN(token_leases),
                                    .expires = token_expires,
                                    .n_expires = ARRAY_LEN(token_expires)};
