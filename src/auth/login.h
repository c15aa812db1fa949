/* Logins: what all auth methods share. A method authenticates the client and finds a role; this
 * file makes the token that the role allows.
 *
 * 1. A login never gives the root policy.
 * 2. The token of a login is an orphan, and its path lies below the mount of the method. So ending
 *    the leases below the mount ends the service tokens that the method gave.
 * 3. No token lives longer than the role, the mount and the system allow, by cluster time. */
#ifndef HOLDFAST_AUTH_LOGIN_H
#define HOLDFAST_AUTH_LOGIN_H

#include "auth/token.h"

/* The token settings that the roles of all methods have. Durations are in seconds. 0, "" or an
 * empty list means that a setting was not given. */
struct login_role {
    int64_t token_ttl, token_max_ttl, token_explicit_max_ttl, token_period, token_num_uses;
    struct field_strings token_policies, token_bound_cidrs;
    const char *token_type;
    bool token_no_default_policy;
};

/* Rows of the schema of a role: `member` is its struct login_role. */
#define LOGIN_ROLE_FIELDS(type, member)                                                            \
    FIELD_NAMED("token_ttl", type, member.token_ttl, DURATION,                                     \
                .help = "How long a token lives, unless renewed."),                                \
        FIELD_NAMED("token_max_ttl", type, member.token_max_ttl, DURATION,                         \
                    .help = "How long a token lives at most, unless it has a period."),            \
        FIELD_NAMED("token_explicit_max_ttl", type, member.token_explicit_max_ttl, DURATION,       \
                    .help = "How long a token lives at most, also with a period."),                \
        FIELD_NAMED("token_period", type, member.token_period, DURATION,                           \
                    .help = "Each renewal makes a token live this long again."),                   \
        FIELD_NAMED("token_num_uses", type, member.token_num_uses, INT, .exact = true,             \
                    .help = "How often a token may be used; 0: any number."),                      \
        FIELD_NAMED("token_policies", type, member.token_policies, STRINGS,                        \
                    .help = "Policies of a token, besides default."),                              \
        FIELD_NAMED("token_bound_cidrs", type, member.token_bound_cidrs, STRINGS,                  \
                    .help = "Addresses that may log in and use the token; none: all."),            \
        FIELD_NAMED("token_type", type, member.token_type, STRING, .preset = "",                   \
                    .help = "service, batch, default-service or default-batch; else as the mount " \
                            "says."),                                                              \
        FIELD_NAMED("token_no_default_policy", type, member.token_no_default_policy, BOOL,         \
                    .help = "Leave the policy default out.")

/* Whether a role may be stored. ST_INVALID with a reason that names the field. */
NODISCARD enum status login_role_check(const struct login_role *role, struct reason *why);

/* Default and maximum TTL of tokens, in seconds, both above 0. */
struct login_limits {
    int64_t default_s, max_s;
};
/* The limits of a mount; 0 stands for the system's. The default is cut to the maximum. */
struct login_limits login_limits_of(int64_t default_s, int64_t max_s);

/* The mount, the path and the client of a login. */
struct login_place {
    const char *mount_path; /* path of the mount, "auth/NAME/" */
    const char *path;       /* path of the request, which begins with `mount_path` */
    const char *token_type; /* token type of the tuned mount; NULL, "": default-service */
    const char *peer;       /* address of the client, with or without a port */
    struct login_limits limits;
    int64_t now_ms; /* cluster time of the login */
};

/* The result of a successful check by the method. */
struct login {
    const struct login_role *role;
    const char *name;      /* name of the user or role within the method */
    struct field_map meta; /* metadata that the token gets, and the alias of the entity */
    const char *alias;     /* name of the alias by which the entity is found; NULL: no entity */
    struct field_strings groups; /* names of aliases of external groups that the client is in */
};

/* Describe the token of a login, for auth_token_create. Texts lie in the arena or are borrowed from
 * `place` and `login`. With ST_INVALID, `why` is the reason; with ST_OK, `why` holds a warning or
 * nothing. ST_DENIED: the role does not allow the client's address. ST_NOMEM. */
NODISCARD enum status login_token(struct arena *arena, const struct login_place *place,
                                  const struct login *login, struct auth_token *ret_token,
                                  struct reason *why);

/* When the token of a login ends after a renewal. `role` is the method's present role. `wanted_s`
 * is the TTL that the request wants; 0: none. If the TTL is cut, `warning` says so; else `warning`
 * stays untouched. */
int64_t login_renewed_end_ms(const struct auth_token *token, const struct login_role *role,
                             struct login_limits limits, int64_t wanted_s, int64_t now_ms,
                             struct reason *warning);

/* The policies of a token: those that it has by its entity, and all. */
struct login_policies {
    struct field_strings identity, all;
};
/* The object `auth` of a reply, and its schema. `bearer` is "" where only the accessor is known. */
extern const struct schema login_auth_schema;
void login_put_auth(struct text_writer *w, const char *bearer, const struct auth_token *token,
                    const struct login_policies *policies, int64_t now_ms);

#endif
