/* The module, and the list of the route tables of sys/. Rows whose patterns take the same path and
 * method stand in one file, so the order of the tables does not matter. Only sys_absent_table must
 * be last: its rows are for paths that no other row takes. */
#include "api/sys/sys.h"
#include "api/sys/raft/sys_autosnap.h"
#include "api/sys/replication/sys_dr_follow.h"
#include "api/sys/seal/sys_keys.h"
#include "auth/policy.h"
#include "front/secrets/secrets.h"
#include "state/state_core.h"

static const struct route_table *const sys_tables[] = {
    &sys_health_table,        &sys_maintenance_table,  &sys_metrics_table,
    &sys_quota_table,         &sys_tools_table,        &sys_wrapping_table,
    &sys_node_table,          &sys_host_table,         &sys_version_table,
    &sys_cors_table,          &sys_openapi_table,      &sys_seal_table,
    &sys_init_table,          &sys_rotate_table,       &sys_generate_root_table,
    &sys_rekey_table,         &sys_challenge_table,    &sys_raft_table,
    &sys_autopilot_table,     &sys_join_table,         &sys_peer_unseal_table,
    &sys_mounts_table,        &sys_mount_edit_table,   &sys_remount_table,
    &sys_policy_table,        &sys_password_table,     &sys_capabilities_table,
    &sys_leases_table,        &sys_lease_count_table,  &sys_audit_table,
    &sys_audit_headers_table, &sys_ui_headers_table,   &sys_plugins_table,
    &sys_reload_table,        &sys_rekey_backup_table, &sys_autosnap_table,
    &sys_monitor_table,       &sys_dr_status_table,    &sys_dr_primary_table,
    &sys_dr_secondary_table,  &sys_dr_token_table,     &sys_dr_secondaries_table,
    &sys_dr_bootstrap_table,  &sys_dr_enable_table,    &sys_dr_more_table,
    &sys_dr_check_table,      &sys_dr_lost_table,      &sys_dr_drill_table,
    &sys_dr_settings_table,   &sys_absent_table, /* last */
};

static const struct route_api sys_api = {.dialect = &secrets_dialect,
                                         .prefix = "sys/",
                                         .type = "system",
                                         .more = sys_tables,
                                         .n_more = ARRAY_LEN(sys_tables)};

static const struct route_api *const sys_apis[] = {&sys_api, &sys_metrics_api};

static const struct module_mount sys_mounts[] = {
    {.mount = {.path = "identity/", .type = "identity", .description = "identity store"}},
    {.mount = {.path = "sys/",
               .type = "system",
               .description = "system endpoints used for control, policy and debugging"}},
};

/* Words of the system, and of APIs that will share the listener. */
static const char *const sys_reserved[] = {
    "acl",        "agent",       "allocation", "allocations", "audit",       "catalog",  "client",
    "deployment", "deployments", "evaluation", "event",       "evaluations", "identity", "job",
    "jobs",       "namespace",   "namespaces", "node",        "nodes",       "operator", "regions",
    "search",     "session",     "status",     "sys",         "system",      "txn",
};

static const struct expiry_kind *const sys_expires[] = {&policy_expiry};

static const struct node_duty sys_duties[] = {
    {.name = "a new key by sys/rotate/config", .run = sys_rotate_upkeep},
    {.name = "abandoned attempts with key shares", .run = sys_ceremony_upkeep},
    {.name = "the history of versions", .run = sys_version_upkeep},
};

static const struct node_service sys_services[] = {
    {.name = "snapshots by a schedule", .run = sys_autosnap_run},
    {.name = "DR primary", .run = sys_dr_keep},
    {.name = "DR primary that was", .run = sys_dr_keep, .standing = true},
    {.name = "DR herald", .run = sys_dr_herald},
    {.name = "DR secondary", .run = sys_dr_follow, .standing = true},
};

static void put_metrics(struct metric_out *out)
{
    sys_autosnap_metrics(out);
    sys_peer_unseal_metrics(out);
}

const struct module sys_module = {.name = "sys",
                                  .apis = sys_apis,
                                  .n_apis = ARRAY_LEN(sys_apis),
                                  .mounts = sys_mounts,
                                  .n_mounts = ARRAY_LEN(sys_mounts),
                                  .reserved = sys_reserved,
                                  .n_reserved = ARRAY_LEN(sys_reserved),
                                  .expires = sys_expires,
                                  .n_expires = ARRAY_LEN(sys_expires),
                                  .duties = sys_duties,
                                  .n_duties = ARRAY_LEN(sys_duties),
                                  .services = sys_services,
                                  .n_services = ARRAY_LEN(sys_services),
                                  .metrics = put_metrics};
