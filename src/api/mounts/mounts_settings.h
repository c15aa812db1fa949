/* Settings of a mount, as requests give and change them. Inside src/api/mounts. */
#ifndef HOLDFAST_API_MOUNTS_MOUNTS_SETTINGS_H
#define HOLDFAST_API_MOUNTS_MOUNTS_SETTINGS_H

#include "router/router.h"

/* The fields of `config` of a new mount; the body of a tune has the same fields. A string that is
 * NULL and a list that is not `given` were not in the request. */
struct mounts_tune {
    const char *path, *description, *default_lease_ttl, *max_lease_ttl;
    const char *listing_visibility, *token_type;
    bool force_no_cache, has_force_no_cache;
    struct field_strings audit_non_hmac_request_keys, audit_non_hmac_response_keys;
    struct field_strings passthrough_request_headers, allowed_response_headers;
    struct field_map options;
};
extern const struct schema mounts_tune_schema;
extern const struct schema mounts_config_schema;

/* Set the fields of `mount` that the request gives. ST_INVALID with the request's error. */
NODISCARD enum status mounts_apply(struct req *req, const struct mounts_tune *in,
                                   struct mount *mount);
/* Set the fields of `mount` from the member `config` of a new mount, which may be NULL. `auth`: the
 * mount is an auth method. ST_INVALID with the request's error; ST_NOMEM. */
NODISCARD enum status mounts_read_config(struct req *req, const struct text_value *config,
                                         bool auth, struct mount *mount);

/* Options without a meaning are kept and shown as they were given. */

/* A copy with room for `more` options. ST_INVALID with the request's error: too many. ST_NOMEM. */
NODISCARD enum status mounts_copy_options(struct req *req, const struct field_map *from,
                                          size_t more, const char ***ret_pairs);
/* Set an option among `*n` pairs; an empty value removes the option. */
void mounts_put_option(const char **pairs, size_t *n, const char *name, const char *value);

#endif
