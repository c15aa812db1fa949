/* The system's own paths, sys/: their route tables, and functions that several files of sys/ share.
 * Each table stands at the end of the file that the table is named after. */
#ifndef HOLDFAST_API_SYS_SYS_H
#define HOLDFAST_API_SYS_SYS_H

#include "router/router.h"

extern const struct module sys_module;

extern const struct route_api sys_metrics_api; /* /v1/metrics: an alias of sys/metrics */

/* The rows of sys_api by subject. */
extern const struct route_table sys_health_table, sys_maintenance_table, sys_metrics_table,
    sys_node_table, sys_host_table, sys_version_table, sys_reload_table, sys_monitor_table;
extern const struct route_table sys_quota_table, sys_cors_table, sys_ui_headers_table;
extern const struct route_table sys_tools_table, sys_wrapping_table, sys_openapi_table;
extern const struct route_table sys_seal_table, sys_init_table, sys_rotate_table,
    sys_generate_root_table, sys_rekey_table, sys_rekey_backup_table, sys_challenge_table;
extern const struct route_table sys_raft_table, sys_autopilot_table, sys_autosnap_table,
    sys_join_table, sys_peer_unseal_table;
extern const struct route_table sys_mounts_table, sys_mount_edit_table, sys_remount_table,
    sys_plugins_table;
extern const struct route_table sys_policy_table, sys_password_table, sys_capabilities_table;
extern const struct route_table sys_leases_table, sys_lease_count_table;
extern const struct route_table sys_audit_table, sys_audit_headers_table;
extern const struct route_table sys_dr_status_table, sys_dr_primary_table, sys_dr_secondary_table,
    sys_dr_token_table, sys_dr_secondaries_table, sys_dr_bootstrap_table, sys_dr_enable_table,
    sys_dr_more_table, sys_dr_check_table, sys_dr_lost_table, sys_dr_drill_table,
    sys_dr_settings_table;
extern const struct route_table sys_absent_table; /* for paths that no other row takes */

/* sys_health.c: the status of this node, in the arena; NULL without memory. */
struct node_status *sys_node(struct req *req);

/* sys_peer_unseal.c */
void sys_peer_unseal_metrics(struct metric_out *out);

/* sys_raft.c: the handler of a route that does everything in its `outside`. */
NODISCARD enum status sys_nothing_staged(struct req *req);
/* Without a quorum: warn that the reply is what this node alone knows. */
void sys_warn_no_quorum(struct req *req);

/* sys_mount_edit.c: the mounts that initialisation makes. */
NODISCARD enum status sys_mount_defaults(struct req *req);

/* In sys_policy.c: the text of a policy, which the request gives as it is or in base64. No policy
 * is valid base64, except an empty policy or one of comments only. ST_NOMEM. */
NODISCARD enum status sys_policy_text(struct req *req, const char *given, struct bytes *ret_text);

/* sys_version.c: background work: the active node stores its version. */
NODISCARD enum status sys_version_upkeep(struct state_txn *txn, int64_t now_ms);

#endif
