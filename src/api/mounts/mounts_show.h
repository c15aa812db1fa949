/* Mounts: what mounts_show.c, mounts_edit.c and mounts_remount.c share. Inside src/api/mounts. */
#ifndef HOLDFAST_API_MOUNTS_MOUNTS_SHOW_H
#define HOLDFAST_API_MOUNTS_MOUNTS_SHOW_H

#include "router/router.h"

/* Time to live where neither a mount nor a request gives one: 768 hours. */
enum { SYS_TTL_S = 2764800 };

/* Whether mount_path made the path: it is not empty, ends in '/' and does not begin with '/'. */
static inline bool mounts_is_path(const char *path)
{
    return path[0] != '\0' && path[0] != '/' && path[strlen(path) - 1] == '/';
}

/* In mounts_show.c: the mount that the path of the request names exactly. `auth`: search the auth
 * methods. ST_INVALID with the request's error: there is no such mount. */
NODISCARD enum status mounts_named(struct req *req, bool auth, struct mount *ret_mount);

/* The mount that a tune names. The result also says whether the mount is an auth method: clients
 * tune an auth method also as the mount at auth/NAME. */
NODISCARD enum status mounts_tuned(struct req *req, bool auth, struct mount *ret_mount,
                                   bool *ret_auth);

#define SYS_AUTH_PREFIX "auth/" /* paths of auth methods begin with it */

/* In mounts_edit.c: stage the end of every lease below the path of a mount. If some leases end
 * later, the reply warns of it. As lease_end_below. */
NODISCARD enum status mounts_end_leases(struct req *req, const char *path);

/* mounts_edit.c. ST_INVALID with the request's error: no secrets engine may stand at `path`. */
NODISCARD enum status mounts_check_place(struct req *req, const char *path);
/* mounts_check_place for a new mount. The path of a new mount also has no '+' and '*': policies
 * read them as patterns. */
NODISCARD enum status mounts_check_new(struct req *req, const char *path);
/* Refuse wildcards of policies in a path. ST_INVALID with the request's error. */
NODISCARD enum status mounts_check_wildcards(struct req *req, const char *path);

#endif
