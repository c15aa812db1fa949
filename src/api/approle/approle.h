/* The auth method approle: roles for machines. A role id names the role, a secret id proves that
 * its holder may use the role. Below a mount:
 *
 *   role/NAME                 a role, an object
 *   role-id/ROLEID            the name of its role
 *   secret/NAME/MAC           a secret id of the role, by its HMAC (struct approle_secret)
 *   accessor/NAME/ACCESSOR    the HMAC of the secret id
 *
 * A reader of the state cannot log in: no key or value holds a secret id. */
#ifndef HOLDFAST_API_APPROLE_APPROLE_H
#define HOLDFAST_API_APPROLE_APPROLE_H

#include "auth/login.h"
#include "barrier/barrier.h"
#include "router/request/req.h"
#include "router/table/module.h"

extern const struct module approle_module;
extern const struct route_table approle_role_table, approle_field_table, approle_secret_table,
    approle_login_table;

enum {
    APPROLE_MAC_LEN = 2 * BARRIER_MAC_BYTES,
    APPROLE_SECRET_MAX = 4096, /* longest secret id */
    APPROLE_CIDRS_MAX = 64,
};

struct approle_role {
    const char *role_id;
    bool bind_secret_id, local_secret_ids;
    struct field_strings secret_id_bound_cidrs;
    int64_t secret_id_num_uses, secret_id_ttl;
    struct login_role role;
};
extern const struct schema approle_role_schema;

/* The names of fields that older clients use. */
extern const char *const approle_old_names[][2];
enum { APPROLE_OLD_NAMES = 6 };

/* A secret id as stored. Times are cluster time. */
struct approle_secret {
    const char *accessor;
    struct field_strings cidrs, token_cidrs;
    struct field_map metadata;
    int64_t uses;                                     /* uses left; 0: any number */
    int64_t ttl_s, created_ms, updated_ms, expire_ms; /* expire_ms 0: never */
};

/* The name of the role in the path, in lower case, in the arena. ST_INVALID with the error. */
NODISCARD enum status approle_name(struct req *req, const char **ret_name);
/* "FOLDER/NAME/LAST", without the last part if it is NULL. In the arena; NULL: out of memory. */
const char *approle_path(struct req *req, const char *folder, const char *name, const char *last);

/* The role of a name. ST_NOT_FOUND; else as req_object_load. */
NODISCARD enum status approle_load(struct req *req, const struct mount *mount, const char *name,
                                   struct approle_role *ret_role);
/* Stage a role, after a check of its fields. ST_INVALID with the error; else as state_put. */
NODISCARD enum status approle_save(struct req *req, const char *name,
                                   const struct approle_role *role);
/* Give the role another id. ST_INVALID with the error: the id is in use. Else as state_put. */
NODISCARD enum status approle_set_id(struct req *req, const char *name, const char *id,
                                     struct approle_role *role);
/* Whether every entry is an address or a block of them, and how many there may be. ST_INVALID with
 * the error. */
NODISCARD enum status approle_check_cidrs(struct req *req, const char *field,
                                          const struct field_strings *cidrs);
/* Whether a list of blocks is empty or holds the address of the client. */
bool approle_holds_peer(const struct field_strings *cidrs, const char *peer);

/* The HMAC by which a secret id of the mount is stored. Statuses of barrier_mac. */
NODISCARD enum status approle_mac(struct req *req, const char *role, const char *secret_id,
                                  char ret_mac[APPROLE_MAC_LEN + 1]);
/* The stored secret id, even if it has expired. ST_NOT_FOUND; ST_CORRUPT; else as state_get. */
NODISCARD enum status approle_secret_load(struct req *req, const char *role, const char *mac,
                                          struct approle_secret *ret_secret);
NODISCARD enum status approle_secret_save(struct req *req, const char *role, const char *mac,
                                          const struct approle_secret *secret);
NODISCARD enum status approle_secret_drop(struct req *req, const char *role, const char *mac,
                                          const struct approle_secret *secret);

/* approle_login.c: as module_login.renew. */
NODISCARD enum status approle_renew(struct req *req, const struct mount *mount,
                                    const struct auth_token *token, struct login_role *ret_role);

#endif
