/* The auth method userpass: users with passwords. */
#ifndef HOLDFAST_API_USERPASS_USERPASS_H
#define HOLDFAST_API_USERPASS_USERPASS_H

#include "auth/login.h"
#include "router/request/req.h"
#include "router/table/module.h"

extern const struct module userpass_module;
extern const struct route_table userpass_user_table, userpass_login_table;

/* A user as stored at user/NAME of the mount, NAME in lower case. */
struct userpass_user {
    const char *password;      /* of a request alone */
    const char *password_hash; /* crypto/phash.h */
    struct login_role role;
};
extern const struct schema userpass_user_schema;

/* The name of the user in the path, in lower case, and the path of its record below the mount. In
 * the arena. ST_NOMEM. */
NODISCARD enum status userpass_place(struct req *req, const char *name, const char **ret_name,
                                     const char **ret_path);

/* userpass_login.c: as module_login.renew. */
NODISCARD enum status userpass_renew(struct req *req, const struct mount *mount,
                                     const struct auth_token *token, struct login_role *ret_role);

#endif
