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
NODISCARD enum status sys_ha_status(struct req *req);
NODISCARD enum status sys_metrics(struct req *req);
NODISCARD enum status sys_state(struct req *req);

/* Facts about this node, in the arena; NULL without memory. */
struct node_status *sys_node(struct req *req);

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
NODISCARD enum status sys_step_down_outside(struct req *req);

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
    const char *leader_api_addr, *join_token;
};
extern const struct schema sys_authority_schema, sys_join_token_schema, sys_bootstrap_schema,
    sys_join_schema;
NODISCARD enum status sys_authority(struct req *req);
NODISCARD enum status sys_join_token(struct req *req);
NODISCARD enum status sys_bootstrap(struct req *req);
NODISCARD enum status sys_join(struct req *req);
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

/* sys_maintenance.c */
struct sys_maintenance {
    bool enabled;
};
extern const struct schema sys_maintenance_schema;
NODISCARD enum status sys_maintenance_read(struct req *req);
NODISCARD enum status sys_maintenance_outside(struct req *req);

/* sys_openapi.c */
struct sys_openapi {
    bool generic_mount_paths;
};
extern const struct schema sys_openapi_schema;
NODISCARD enum status sys_openapi(struct req *req);

#endif
