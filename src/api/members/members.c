/* The module and its tables. */
#include "api/members/members.h"
#include "api/members/members_autosnap.h"
#include "front/secrets/secrets.h"

static const struct route_table *const tables[] = {
    &members_autopilot_table, &members_autosnap_table,    &members_challenge_table,
    &members_join_table,      &members_peer_unseal_table, &members_raft_table};

static const struct route_api api = {.dialect = &secrets_dialect,
                                     .prefix = "sys/",
                                     .type = "system",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_api *const apis[] = {&api};

static const struct node_service services[] = {
    {.name = "snapshots by a schedule", .run = members_autosnap_run},
};

static void put_metrics(struct metric_out *out)
{
    members_autosnap_metrics(out);
    members_peer_unseal_metrics(out);
}

const struct module members_module = {
    .name = "members",
    .apis = apis,
    .n_apis = ARRAY_LEN(apis),
    .services = services,
    .n_services = ARRAY_LEN(services),
    .metrics = put_metrics,
};
