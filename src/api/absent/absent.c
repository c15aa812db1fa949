/* The module and its tables. */
#include "api/absent/absent.h"
#include "front/secrets/secrets.h"

static const struct route_table *const tables[] = {&absent_paths_table};

static const struct route_api api = {.dialect = &secrets_dialect,
                                     .prefix = "sys/",
                                     .type = "system",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_api *const apis[] = {&api};

/* Words of APIs that will share the listener. */
static const char *const reserved[] = {
    "acl",        "agent",       "allocation", "allocations", "catalog", "client",
    "deployment", "deployments", "evaluation", "evaluations", "event",   "job",
    "jobs",       "namespace",   "namespaces", "node",        "nodes",   "operator",
    "regions",    "search",      "session",    "status",      "system",  "txn",
};

const struct module absent_module = {
    .name = "absent",
    .apis = apis,
    .n_apis = ARRAY_LEN(apis),
    .reserved = reserved,
    .n_reserved = ARRAY_LEN(reserved),
};
