/* auth/token/: create, show, renew and end tokens; roles, by which tokens are created. */
#ifndef HOLDFAST_API_TOKEN_TOKEN_H
#define HOLDFAST_API_TOKEN_TOKEN_H

#include "auth/token_tree.h"
#include "router/req_login.h"
#include "router/router.h"

extern const struct module token_module;

/* The rows of token_api, each table at the end of the file that it is named after. */
extern const struct route_table token_create_table, token_show_table, token_life_table,
    token_list_table, token_role_table;

/* Bodies. */
struct token_named {
    const char *token, *accessor;
    int64_t increment;
};
extern const struct schema token_bearer_schema, token_accessor_schema;

struct token_create {
    const char *id, *display_name, *type, *entity_alias;
    struct field_strings policies;
    struct field_map meta;
    bool no_parent, no_default_policy, renewable;
    int64_t ttl, lease, explicit_max_ttl, period, num_uses;
};

/* A role as stored and shown. */
struct token_role {
    struct field_strings allowed_policies, disallowed_policies;
    struct field_strings allowed_policies_glob, disallowed_policies_glob;
    struct field_strings allowed_entity_aliases, token_bound_cidrs;
    bool orphan, renewable, token_no_default_policy;
    const char *path_suffix, *token_type;
    int64_t token_period, token_explicit_max_ttl, token_num_uses;
};

/* token_role.c: the stored role. ST_NOT_FOUND; ST_CORRUPT; else as state_get. */
NODISCARD enum status token_role_load(struct req *req, const char *name,
                                      struct token_role *ret_role);

/* The token that asks for a new one, and whether it has sudo on the path. */
struct token_asker {
    const struct auth_token *parent;
    bool sudo;
};
/* token_policy.c: the policies that a new token gets. `role` may be NULL. ST_INVALID with the
 * request's error. */
NODISCARD enum status token_policies(struct req *req, const struct token_create *in,
                                     const struct token_role *role, const struct token_asker *asker,
                                     struct field_strings *ret_policies);

/* token_life.c: the default and the maximum life of tokens, as auth/token is tuned. */
NODISCARD enum status token_limits_load(struct req *req, struct login_limits *ret_limits);

/* token_create.c: whether this request's token has sudo on its path. */
bool token_has_sudo(struct req *req);

#endif
