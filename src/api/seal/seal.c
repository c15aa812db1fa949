/* The module and its tables. */
#include "api/seal/seal.h"
#include "api/seal/seal_keys.h"
#include "front/secrets/secrets.h"

static const struct route_table *const tables[] = {
    &seal_dr_token_table, &seal_generate_root_table, &seal_init_table,  &seal_rekey_backup_table,
    &seal_rekey_table,    &seal_rotate_table,        &seal_status_table};

static const struct route_api api = {.dialect = &secrets_dialect,
                                     .prefix = "sys/",
                                     .type = "system",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_api *const apis[] = {&api};

static const struct node_duty duties[] = {
    {.name = "a new key by sys/rotate/config", .run = seal_rotate_upkeep},
    {.name = "abandoned attempts with key shares", .run = seal_ceremony_upkeep},
};

const struct module seal_module = {
    .name = "seal",
    .apis = apis,
    .n_apis = ARRAY_LEN(apis),
    .duties = duties,
    .n_duties = ARRAY_LEN(duties),
};
