/* The module. */
#include "api/userpass/userpass.h"

static const struct route_table *const tables[] = {&userpass_user_table, &userpass_login_table};
static const struct route_api userpass_api = {
    .type = "userpass", .login = true, .more = tables, .n_more = ARRAY_LEN(tables)};
static const struct module_login logins[] = {
    {.type = "userpass", .api = &userpass_api, .renew = userpass_renew}};

const struct module userpass_module = {
    .name = "userpass", .logins = logins, .n_logins = ARRAY_LEN(logins)};
