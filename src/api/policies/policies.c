/* The module and its tables. */
#include "api/policies/policies.h"
#include "auth/policy.h"
#include "front/secrets/secrets.h"

static const struct route_table *const tables[] = {
    &policies_acl_table, &policies_capabilities_table, &policies_password_table};

static const struct route_api api = {.dialect = &secrets_dialect,
                                     .prefix = "sys/",
                                     .type = "system",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_api *const apis[] = {&api};

static const struct expiry_kind *const expires[] = {&policy_expiry};

const struct module policies_module = {
    .name = "policies",
    .apis = apis,
    .n_apis = ARRAY_LEN(apis),
    .expires = expires,
    .n_expires = ARRAY_LEN(expires),
};
