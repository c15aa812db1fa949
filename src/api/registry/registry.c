/* The module and its tables. */
#include "api/registry/registry.h"
#include "api/registry/registry_token.h"
#include "front/registry/registry.h"

static const struct route_table *const status_tables[] = {&registry_status_table};

static const struct route_api status_api = {.dialect = &registry_dialect,
                                            .prefix = "status/",
                                            .type = "registry",
                                            .more = status_tables,
                                            .n_more = ARRAY_LEN(status_tables)};

static const struct route_table *const agent_tables[] = {&registry_agent_table};

static const struct route_api agent_api = {.dialect = &registry_dialect,
                                           .prefix = "agent/",
                                           .type = "registry",
                                           .more = agent_tables,
                                           .n_more = ARRAY_LEN(agent_tables)};

static const struct route_table *const acl_tables[] = {
    &registry_none_table, &registry_policy_table, &registry_bootstrap_table, &registry_token_table};

static const struct route_api acl_api = {.dialect = &registry_dialect,
                                         .prefix = "acl/",
                                         .narrow = true,
                                         .type = "registry",
                                         .more = acl_tables,
                                         .n_more = ARRAY_LEN(acl_tables)};

/* Paths that clients of the registry know, and that no mount can have (module.reserved): the reply
 * is the registry's, that no such path is served. */
#define ABSENT(name_, prefix_)              \
    static const struct route_api name_ = { \
        .dialect = &registry_dialect, .prefix = prefix_, .type = "registry"}
ABSENT(catalog_api, "catalog/");
ABSENT(event_api, "event/");
ABSENT(operator_api, "operator/");
ABSENT(session_api, "session/");
ABSENT(txn_api, "txn");

static const struct route_api *const apis[] = {&acl_api,     &agent_api, &status_api,
                                               &catalog_api, &event_api, &operator_api,
                                               &session_api, &txn_api};

/* First start, upgrade and restore alike: the active node makes what is missing. */
static const struct node_duty duties[] = {
    {.name = "builtin policies of the registry", .run = registry_builtins_make},
    {.name = "first tokens of the registry", .run = registry_bootstrap_upkeep},
};

const struct module registry_module = {.name = "registry",
                                       .apis = apis,
                                       .n_apis = ARRAY_LEN(apis),
                                       .duties = duties,
                                       .n_duties = ARRAY_LEN(duties),
                                       .config = &registry_block,
                                       .configure = registry_configure};
