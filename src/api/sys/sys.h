/* The system's own paths, sys/. */
#ifndef HOLDFAST_API_SYS_SYS_H
#define HOLDFAST_API_SYS_SYS_H

#include "router/router.h"

extern const struct route_api sys_api;

struct sys_health {
    int64_t activecode, standbycode, performancestandbycode, drsecondarycode, haunhealthycode;
    int64_t removedcode, sealedcode, uninitcode, maintenancecode;
    bool standbyok, perfstandbyok;
};
extern const struct schema sys_health_schema;

/* Handlers, for the table. sys_health.c: about this node, sealed or not. */
NODISCARD enum status sys_health(struct req *req);
NODISCARD enum status sys_leader(struct req *req);
NODISCARD enum status sys_replication_status(struct req *req);
NODISCARD enum status sys_ha_status(struct req *req);
NODISCARD enum status sys_state(struct req *req);

/* Facts about this node, in the arena; NULL without memory. */
struct node_status *sys_node(struct req *req);

/* sys_metrics.c */
struct sys_metrics {
    const char *format;
};
extern const struct schema sys_metrics_schema;
NODISCARD enum status sys_metrics(struct req *req);

/* sys_seal.c */
struct sys_unseal {
    const char *key;
    bool reset, migrate;
};
extern const struct schema sys_unseal_schema;
NODISCARD enum status sys_seal_status(struct req *req);
NODISCARD enum status sys_unseal(struct req *req);
NODISCARD enum status sys_seal_outside(struct req *req);
NODISCARD enum status sys_rotate(struct req *req);
NODISCARD enum status sys_key_status(struct req *req);

/* sys_init.c */
struct sys_init {
    int64_t secret_shares, secret_threshold, stored_shares, recovery_shares, recovery_threshold;
    struct field_strings pgp_keys, recovery_pgp_keys;
    const char *root_token_pgp_key;
};
extern const struct schema sys_init_schema;
NODISCARD enum status sys_init_read(struct req *req);
NODISCARD enum status sys_init_write(struct req *req);

/* sys_raft.c */
struct sys_remove_peer {
    const char *server_id;
};
extern const struct schema sys_remove_peer_schema;
NODISCARD enum status sys_raft_configuration(struct req *req);
NODISCARD enum status sys_nothing_staged(struct req *req);
NODISCARD enum status sys_remove_peer(struct req *req);
NODISCARD enum status sys_snapshot_save_outside(struct req *req);
NODISCARD enum status sys_snapshot_restore_outside(struct req *req);
NODISCARD enum status sys_snapshot_force_outside(struct req *req);
NODISCARD enum status sys_remove_peer_outside(struct req *req);
NODISCARD enum status sys_readmit(struct req *req);
NODISCARD enum status sys_promote(struct req *req);
NODISCARD enum status sys_promote_outside(struct req *req);
NODISCARD enum status sys_demote(struct req *req);
NODISCARD enum status sys_demote_outside(struct req *req);
NODISCARD enum status sys_step_down_outside(struct req *req);

/* sys_autopilot.c: settings, each with whether it was given. */
struct sys_autopilot {
    bool cleanup_dead_servers;
    int64_t dead_server_last_contact_threshold, last_contact_threshold, server_stabilization_time;
    int64_t max_trailing_logs, min_quorum;
    bool has_cleanup, has_dead, has_contact, has_trailing, has_quorum, has_stable;
};
extern const struct schema sys_autopilot_schema;
NODISCARD enum status sys_autopilot_read(struct req *req);
NODISCARD enum status sys_autopilot_write(struct req *req);
NODISCARD enum status sys_autopilot_state(struct req *req);

/* sys_join.c */
struct sys_authority {
    const char *certificate, *private_key;
};
struct sys_join_token {
    int64_t ttl;
    const char *node_id;
};
struct sys_bootstrap {
    const char *join_token, *node_id, *public_key;
};
struct sys_join {
    const char *leader_api_addr, *join_token, *leader_tls_servername;
    const char *leader_ca_cert, *leader_client_cert, *leader_client_key, *auto_join;
    bool retry, non_voter;
};
/* sys_challenge.c; the last two are of an answer. */
struct sys_challenge {
    const char *node_id, *public_key, *challenge, *answer;
};
extern const struct schema sys_challenge_schema, sys_answer_schema;
NODISCARD enum status sys_challenge(struct req *req);
NODISCARD enum status sys_answer(struct req *req);
extern const struct schema sys_authority_schema, sys_join_token_schema, sys_bootstrap_schema,
    sys_join_schema;
NODISCARD enum status sys_authority(struct req *req);
NODISCARD enum status sys_join_token(struct req *req);
NODISCARD enum status sys_bootstrap(struct req *req);
NODISCARD enum status sys_join(struct req *req);
NODISCARD enum status sys_join_outside(struct req *req);
NODISCARD enum status sys_certificates_rotate(struct req *req);

/* sys_mount_edit.c: the mounts that initialisation makes, the key/value engine if so configured. */
NODISCARD enum status sys_mount_defaults(struct req *req);

/* sys_policy.c */
struct sys_policy {
    const char *name, *policy, *rules;
};
extern const struct schema sys_policy_schema;
/* Replies: {name, policy}, {name, rules}, {keys, policies}. */
extern const struct schema sys_policy_shown_schema, sys_policy_shown_old_schema;
extern const struct schema sys_policy_names_schema;
NODISCARD enum status sys_policy_list(struct req *req);
NODISCARD enum status sys_policy_list_old(struct req *req);
NODISCARD enum status sys_policy_read(struct req *req);
NODISCARD enum status sys_policy_write(struct req *req);
NODISCARD enum status sys_policy_delete(struct req *req);

/* sys_capabilities.c */
struct sys_capabilities {
    struct field_strings paths, path;
    const char *token, *accessor;
};
extern const struct schema sys_capabilities_schema;
NODISCARD enum status sys_capabilities(struct req *req);
NODISCARD enum status sys_capabilities_accessor(struct req *req);
NODISCARD enum status sys_capabilities_self(struct req *req);
extern const struct schema sys_resultant_schema;
NODISCARD enum status sys_resultant_acl(struct req *req);

/* sys_wrapping.c */
struct sys_wrapping {
    const char *token;
};
extern const struct schema sys_wrapping_schema;
NODISCARD enum status sys_wrap(struct req *req);
NODISCARD enum status sys_unwrap(struct req *req);
NODISCARD enum status sys_rewrap(struct req *req);
NODISCARD enum status sys_wrapping_lookup(struct req *req);

/* sys_tools.c */
struct sys_random {
    int64_t bytes;
    const char *format, *source;
};
struct sys_hash {
    const char *input, *algorithm, *format;
};
extern const struct schema sys_random_schema, sys_hash_schema;
NODISCARD enum status sys_random(struct req *req);
NODISCARD enum status sys_random_by(struct req *req);
NODISCARD enum status sys_random_from(struct req *req);
NODISCARD enum status sys_hash(struct req *req);
NODISCARD enum status sys_hash_by(struct req *req);

/* sys_password.c */
struct sys_password {
    const char *policy;
};
extern const struct schema sys_password_schema, sys_password_made_schema;
NODISCARD enum status sys_password_list(struct req *req);
NODISCARD enum status sys_password_read(struct req *req);
NODISCARD enum status sys_password_generate(struct req *req);
NODISCARD enum status sys_password_write(struct req *req);
NODISCARD enum status sys_password_delete(struct req *req);

/* sys_maintenance.c */
struct sys_maintenance {
    bool enabled;
};
extern const struct schema sys_maintenance_schema;
NODISCARD enum status sys_maintenance_read(struct req *req);
NODISCARD enum status sys_maintenance_outside(struct req *req);

/* sys_node.c: about this node. */
struct sys_logger {
    const char *level;
};
extern const struct schema sys_logger_schema;
NODISCARD enum status sys_config_sanitized(struct req *req);
NODISCARD enum status sys_loggers_read(struct req *req);
NODISCARD enum status sys_logger_read(struct req *req);
NODISCARD enum status sys_loggers_check(struct req *req);
NODISCARD enum status sys_logger_check(struct req *req);
NODISCARD enum status sys_loggers_outside(struct req *req);
NODISCARD enum status sys_logger_outside(struct req *req);
NODISCARD enum status sys_loggers_reset_outside(struct req *req);
NODISCARD enum status sys_logger_reset_outside(struct req *req);

NODISCARD enum status sys_inflight_outside(struct req *req);

/* sys_host.c */
NODISCARD enum status sys_host_info(struct req *req);

/* sys_version.c. The first: background work of the active node, which writes its version down. */
NODISCARD enum status sys_version_upkeep(struct state_txn *txn, int64_t now_ms);
NODISCARD enum status sys_version_history(struct req *req);
NODISCARD enum status sys_counters_tokens(struct req *req);

/* sys_quota.c; bodies are those of router/quota.h. */
NODISCARD enum status sys_quota_list(struct req *req);
NODISCARD enum status sys_quota_read(struct req *req);
NODISCARD enum status sys_quota_write(struct req *req);
NODISCARD enum status sys_quota_delete(struct req *req);
NODISCARD enum status sys_quota_config_read(struct req *req);
NODISCARD enum status sys_quota_config_write(struct req *req);

/* sys_cors.c; its body is cors_schema. */
extern const struct schema sys_cors_shown_schema;
NODISCARD enum status sys_cors_read(struct req *req);
NODISCARD enum status sys_cors_write(struct req *req);
NODISCARD enum status sys_cors_delete(struct req *req);

/* sys_openapi.c */
struct sys_openapi {
    bool generic_mount_paths;
};
extern const struct schema sys_openapi_schema;
NODISCARD enum status sys_openapi(struct req *req);

#endif
