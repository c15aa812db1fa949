/* The module. */
#include "api/approle/approle.h"

static const struct route_table *const tables[] = {&approle_role_table, &approle_secret_table,
                                                   &approle_login_table, &approle_field_table};
static const struct route_api approle_api = {
    .type = "approle", .login = true, .more = tables, .n_more = ARRAY_LEN(tables)};
static const struct module_login logins[] = {
    {.type = "approle", .api = &approle_api, .renew = approle_renew}};

const struct module approle_module = {
    .name = "approle", .logins = logins, .n_logins = ARRAY_LEN(logins)};
