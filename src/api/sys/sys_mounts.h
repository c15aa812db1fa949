/* Mounts: what their routes read and answer. Inside src/api/sys. */
#ifndef HOLDFAST_API_SYS_SYS_MOUNTS_H
#define HOLDFAST_API_SYS_SYS_MOUNTS_H

#include "router/router.h"

/* Time to live where neither a mount nor a request says: 768 hours. */
enum { SYS_TTL_S = 2764800 };

struct sys_mount_path {
    const char *path;
};
struct sys_mount {
    const char *path, *type, *description, *plugin_name;
    const struct text_value *config;
    struct field_map options;
    bool local, seal_wrap, external_entropy_access;
};
/* Fields of `config`, and of a tune, where they stand at the top. */
struct sys_mount_tune {
    const char *path, *description, *default_lease_ttl, *max_lease_ttl;
    const char *listing_visibility, *token_type;
    bool force_no_cache, has_force_no_cache;
    struct field_strings audit_non_hmac_request_keys, audit_non_hmac_response_keys;
    struct field_strings passthrough_request_headers, allowed_response_headers;
    struct field_map options;
};
struct sys_remount {
    const char *from, *to;
};
struct sys_migration {
    const char *migration_id;
    const void *migration_info; /* struct sys_migration_info */
};
struct sys_migration_info {
    const char *source_mount, *target_mount, *status;
};
extern const struct schema sys_mount_schema, sys_mount_config_schema, sys_mount_tune_schema;
extern const struct schema sys_mount_info_schema, sys_mount_tuned_schema;
extern const struct schema sys_remount_schema, sys_remounted_schema, sys_migration_schema;

/* sys_mounts.c: reading. */
NODISCARD enum status sys_ui_mounts(struct req *req);
NODISCARD enum status sys_ui_mount(struct req *req);
NODISCARD enum status sys_mounts_list(struct req *req);
NODISCARD enum status sys_mount_read(struct req *req);
NODISCARD enum status sys_mount_tune_read(struct req *req);
NODISCARD enum status sys_auth_list(struct req *req);
NODISCARD enum status sys_auth_read(struct req *req);
NODISCARD enum status sys_auth_tune_read(struct req *req);

/* The mount that the path of the request names exactly; `auth`: among auth methods. ST_INVALID with
 * the request's error: there is none. */
NODISCARD enum status sys_mount_named(struct req *req, bool auth, struct mount *ret_mount);

/* The same for a tune, and whether it is an auth method: clients also tune those as a mount at
 * auth/NAME. */
NODISCARD enum status sys_mount_tuned(struct req *req, bool auth, struct mount *ret_mount,
                                      bool *ret_auth);

/* sys_mount_edit.c */
NODISCARD enum status sys_mount_create(struct req *req);
NODISCARD enum status sys_mount_delete(struct req *req);
NODISCARD enum status sys_mount_tune(struct req *req);
NODISCARD enum status sys_auth_tune(struct req *req);

/* sys_remount.c */
NODISCARD enum status sys_remount(struct req *req);
NODISCARD enum status sys_remount_status(struct req *req);

/* ST_INVALID with the request's error: no secrets engine may stand at `path`. */
NODISCARD enum status sys_mount_check_place(struct req *req, const char *path);
/* The same for one that is not there yet: nor where the path says something else in a policy. */
NODISCARD enum status sys_mount_check_new(struct req *req, const char *path);

#endif
