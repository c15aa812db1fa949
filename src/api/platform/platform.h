/* The platform: organizations, workspaces, states and their outputs, notifications, run tasks, and
 * the settings of administrators. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_H
#define HOLDFAST_API_PLATFORM_PLATFORM_H

#include "router/table/module.h"
#include "text/config_block.h"

extern const struct module platform_module;

struct platform_config {
    const char *url;          /* of this server as clients know it; "": as their requests name it */
    const char *sms_base_url; /* of the SMS provider */
    uint64_t blob_bytes_max, blob_bytes_total_max, log_bytes_max;
    int64_t run_lease_s;
};
/* platform_config.c */
extern const struct config_block platform_block;
void platform_configure(const void *fields);
const struct platform_config *platform_config(void);

/* Duties: delete what is below deleted resources, a little of it; end the runs whose lease ended,
 * and those that were under way when the state was restored. */
NODISCARD enum status platform_sweep(struct state_txn *txn, int64_t now_ms);
NODISCARD enum status platform_leases_end(struct state_txn *txn, int64_t now_ms);
NODISCARD enum status platform_runs_restored(struct state_txn *txn, int64_t now_ms);
/* The service that makes and deletes the signing keys that are due. */
void platform_oidc_run(struct service *service);
/* The service that sends the rows of the outbox (platform_outbox.h), and its metrics. */
void platform_outbox_run(struct service *service);
void platform_outbox_metrics(struct metric_out *out);

/* Tables; the paths are below the root of the dialect. */
extern const struct route_table platform_account_table, platform_org_table, platform_token_table,
    platform_team_table, platform_access_table, platform_project_table, platform_ws_table,
    platform_lock_table, platform_var_table, platform_state_table, platform_blob_table,
    platform_output_table, platform_notification_table, platform_task_table, platform_ws_task_table,
    platform_settings_table, platform_admin_table, platform_oidc_table, platform_config_table,
    platform_run_table, platform_run_act_table, platform_phase_table, platform_pool_table,
    platform_worker_table, platform_job_table;
extern const struct route_table platform_discovery_table, platform_app_table;

#endif
