/* The sender of a request, and the rights of the sender.
 *
 * A token belongs to a user, a team or an organization. What its owner may do is the union of what
 * the teams of the owner may do. A token of a run reads and writes the state of its workspace, and
 * reads the states that other workspaces share with it. A token of an agent pool is one of workers,
 * and unknown everywhere else. What a sender may not see is missing: ST_NOT_FOUND. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_WHO_H
#define HOLDFAST_API_PLATFORM_PLATFORM_WHO_H

#include "api/platform/platform_object.h"

#define PLATFORM_ROOT_USER "user-root" /* the owner of a root token of the secrets service */
#define PLATFORM_OWNERS "owners"       /* the team whose members may do everything */

enum platform_owner { PLATFORM_USER, PLATFORM_TEAM, PLATFORM_ORGANIZATION, PLATFORM_RUN };

struct platform_who {
    enum platform_owner owner;
    const char *id;
    const char *org; /* id of the organization of a team, organization or run; else "" */
    const char *ws;  /* id of the workspace of a run; else "" */
    bool writes;     /* of a run: it may write the state */
    struct platform_object user; /* of a user */
    bool site_admin;
    const char *const *teams; /* ids of teams in the organization that was asked last */
    size_t n_teams;
};

/* Rights in an organization. */
enum platform_org_right {
    PLATFORM_ORG_SEE = 1 << 0,
    PLATFORM_ORG_OWN = 1 << 1, /* an owner, or a site administrator: everything */
    PLATFORM_ORG_MANAGE_WORKSPACES = 1 << 2,
    PLATFORM_ORG_READ_WORKSPACES = 1 << 3,
    PLATFORM_ORG_MANAGE_TASKS = 1 << 4,
    PLATFORM_ORG_MANAGE_MEMBERS = 1 << 5,
    PLATFORM_ORG_MANAGE_TEAMS = 1 << 6,
    PLATFORM_ORG_MANAGE_PROJECTS = 1 << 7,
    PLATFORM_ORG_ALL = (1 << 8) - 1,
    /* Of the token of a run: find workspaces by name, read entitlements. */
    PLATFORM_ORG_OF_RUN = 1 << 8,
};

/* Rights in a workspace. */
enum platform_ws_right {
    PLATFORM_WS_SEE = 1 << 0,
    PLATFORM_WS_PLAN = 1 << 1,
    PLATFORM_WS_APPLY = 1 << 2,
    PLATFORM_WS_READ_VARS = 1 << 3,
    PLATFORM_WS_WRITE_VARS = 1 << 4,
    PLATFORM_WS_READ_OUTPUTS = 1 << 5,
    PLATFORM_WS_READ_STATE = 1 << 6,
    PLATFORM_WS_WRITE_STATE = 1 << 7,
    PLATFORM_WS_LOCK = 1 << 8,
    PLATFORM_WS_MANAGE_TASKS = 1 << 9,
    PLATFORM_WS_ADMIN = 1 << 10, /* settings, notifications, forced unlock, team access, deletion */
    PLATFORM_WS_ALL = (1 << 11) - 1,
};

/* The owner of the request's token. ST_UNAUTHENTICATED: there is none, its owner was deleted, or
 * the user is suspended. */
NODISCARD enum status platform_who(struct req *req, struct platform_who *ret_who);
/* The agent pool of the request's token. ST_NOT_FOUND: the token has another owner.
 * ST_UNAUTHENTICATED: there is no token, or its pool was deleted. */
NODISCARD enum status platform_who_pool(struct req *req, struct platform_object *ret_pool);
/* As platform_who, for site administrators alone. ST_NOT_FOUND: another sender. */
NODISCARD enum status platform_who_admin(struct req *req, struct platform_who *ret_who);

/* The rights of a sender in an organization; sets who->teams. */
NODISCARD enum status platform_org_rights(struct req *req, struct platform_who *who,
                                          const struct platform_object *org, unsigned *ret_rights);
/* Find an organization by its name, in which the sender has one of the rights. ST_NOT_FOUND. */
NODISCARD enum status platform_org_find(struct req *req, struct platform_who *who, const char *name,
                                        unsigned rights, struct platform_object *ret_org);
/* Find the organization of an id, with the same check. */
NODISCARD enum status platform_org_of(struct req *req, struct platform_who *who, const char *id,
                                      unsigned rights, struct platform_object *ret_org);

/* A workspace, its organization, and the sender's rights in it. */
struct platform_place {
    struct platform_object org, ws;
    unsigned org_rights, rights;
};
/* Find a workspace in which the sender has all of the rights. ST_NOT_FOUND. */
NODISCARD enum status platform_ws_find(struct req *req, struct platform_who *who, const char *id,
                                       unsigned rights, struct platform_place *ret_place);
/* The rights of a sender in a workspace of an organization whose rights are known. */
NODISCARD enum status platform_ws_rights(struct req *req, const struct platform_who *who,
                                         struct platform_place *place);

/* Whether the sender sees a workspace, which another resource refers to. */
NODISCARD enum status platform_ws_sees(struct req *req, const struct platform_who *who,
                                       const struct platform_object *ws, bool *ret_sees);

/* Tokens: the part of the record of a token (auth/token_record.h). */

/* Stage a new token of an owner; its accessor is `id`. *ret_secret is what the client sends. */
NODISCARD enum status platform_token_add(struct req *req, const char *id, const char *owner,
                                         int64_t expire_ms, const char **ret_secret);
/* Stage the end of the token with the accessor `id`; ST_OK too if it has ended. */
NODISCARD enum status platform_token_end(const struct auth_scope *scope, const char *id);

/* A user by id, the root user too. ST_NOT_FOUND. */
NODISCARD enum status platform_user_load(struct state_txn *txn, const char *id,
                                         struct platform_object *ret_user);

#endif
