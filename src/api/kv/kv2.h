/* Version 2: what its resources share. Inside src/api/kv. */
#ifndef HOLDFAST_API_KV_KV2_H
#define HOLDFAST_API_KV_KV2_H

#include "api/kv/kv.h"
#include "api/kv/kv2_record.h"

/* Settings of a mount. */
struct kv2_config {
    int64_t max_versions;   /* 0: not set */
    int64_t delete_after_s; /* 0: not set; negative: no secret of the mount is deleted by age */
    bool cas_required, metadata_cas_required;
};

/* A secret as stored. */
struct kv2_secret {
    struct bytes key;
    struct kv2_record record;
};

/* kv2_secret.c */

/* Load the secret that the path of the request names. ST_NOT_FOUND: the secret does not exist; then
 * *ret_secret is a secret without versions, ready to be stored. */
NODISCARD enum status kv2_load(struct req *req, struct kv2_secret *ret_secret);
/* Load the secret that is stored at a whole key. Statuses as kv2_load. */
NODISCARD enum status kv2_load_key(struct req *req, struct bytes key,
                                   struct kv2_secret *ret_secret);
/* Stage the record as changed now. */
NODISCARD enum status kv2_store(struct req *req, struct kv2_secret *secret);
/* Stage the record when versions were only deleted, restored or destroyed: also in a full state. */
NODISCARD enum status kv2_store_marks(struct req *req, struct kv2_secret *secret);
/* Stage a new version, and drop the oldest versions when there are more than max_versions. `data`
 * is compact JSON and lives longer than this function runs. ST_TOO_BIG with the request's error. */
NODISCARD enum status kv2_add_version(struct req *req, const struct kv2_config *config,
                                      struct kv2_secret *secret, struct bytes data);
/* When a version is deleted by its age, counted from `from_ms`. 0: never. */
int64_t kv2_deletion_time(const struct kv2_config *config, const struct kv2_record *record,
                          int64_t from_ms);
/* The data of a version that is not destroyed. */
NODISCARD enum status kv2_data(struct req *req, const struct kv2_secret *secret,
                               const struct kv2_version *version, struct bytes *ret_data);
/* Stage the end of a version's data. */
NODISCARD enum status kv2_destroy_version(struct req *req, const struct kv2_secret *secret,
                                          struct kv2_version *version);
/* Stage the end of a secret, all versions and metadata. */
NODISCARD enum status kv2_remove(struct req *req, const struct kv2_secret *secret);

/* A version as replies show it. The pairs are borrowed from the record. */
struct kv2_version_out {
    int64_t created_ms, deleted_ms, version;
    struct field_map custom_metadata;
    bool destroyed;
};
struct kv2_version_out kv2_version_out(const struct kv2_secret *secret,
                                       const struct kv2_version *version);

/* kv2_config.c */
NODISCARD enum status kv2_config_load(struct req *req, struct kv2_config *ret_config);
/* ST_INVALID with the request's error. */
NODISCARD enum status kv2_check_max_versions(struct req *req, int64_t max_versions);

/* The rows of kv2_api, each table at the end of the file that it is named after. */
extern const struct route_table kv2_config_table, kv2_data_table, kv2_versions_table,
    kv2_metadata_table;

#endif
