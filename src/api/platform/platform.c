/* The module and its tables. */
#include "api/platform/platform.h"
#include "front/platform/platform.h"
#include "state/blob.h"

static const struct route_table *const tables[] = {
    &platform_account_table,      &platform_org_table,    &platform_token_table,
    &platform_team_table,         &platform_access_table, &platform_project_table,
    &platform_ws_table,           &platform_lock_table,   &platform_var_table,
    &platform_state_table,        &platform_blob_table,   &platform_output_table,
    &platform_notification_table, &platform_task_table,   &platform_ws_task_table,
    &platform_settings_table,     &platform_admin_table,  &platform_oidc_table,
    &platform_config_table,       &platform_run_table,    &platform_run_act_table,
    &platform_phase_table,        &platform_pool_table,   &platform_worker_table,
    &platform_job_table,
};

/* The paths of the platform begin with many words: the API holds every path below the root. */
static const struct route_api api = {.dialect = &platform_dialect,
                                     .prefix = "",
                                     .type = "platform",
                                     .more = tables,
                                     .n_more = ARRAY_LEN(tables)};

static const struct route_table *const discovery_tables[] = {&platform_discovery_table};
static const struct route_api discovery_api = {.dialect = &platform_discovery_dialect,
                                               .prefix = "",
                                               .type = "platform",
                                               .more = discovery_tables,
                                               .n_more = ARRAY_LEN(discovery_tables)};

static const struct route_table *const app_tables[] = {&platform_app_table};
static const struct route_api app_api = {.dialect = &platform_app_dialect,
                                         .prefix = "",
                                         .type = "platform",
                                         .more = app_tables,
                                         .n_more = ARRAY_LEN(app_tables)};

static const struct route_api *const apis[] = {&api, &discovery_api, &app_api};

static const struct node_duty duties[] = {
    {.name = "deleted resources of the platform", .run = platform_sweep},
    {.name = "large values that were not completed", .run = blob_sweep},
    {.name = "runs whose worker is gone", .run = platform_leases_end},
    {.name = "runs that a restore ended", .run = platform_runs_restored},
};

static const struct node_service services[] = {
    {.name = "signing keys of the platform", .run = platform_oidc_run},
    {.name = "outbox of the platform", .run = platform_outbox_run},
};

const struct module platform_module = {.name = "platform",
                                       .apis = apis,
                                       .n_apis = ARRAY_LEN(apis),
                                       .duties = duties,
                                       .n_duties = ARRAY_LEN(duties),
                                       .services = services,
                                       .n_services = ARRAY_LEN(services),
                                       .config = &platform_block,
                                       .configure = platform_configure,
                                       .metrics = platform_outbox_metrics};
