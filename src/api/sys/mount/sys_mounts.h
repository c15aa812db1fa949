/* Mounts: what the files of their routes share. Inside src/api/sys. */
#ifndef HOLDFAST_API_SYS_MOUNT_SYS_MOUNTS_H
#define HOLDFAST_API_SYS_MOUNT_SYS_MOUNTS_H

#include "router/router.h"

/* Time to live where neither a mount nor a request says: 768 hours. */
enum { SYS_TTL_S = 2764800 };

/* sys_mounts.c: the mount that the path of the request names exactly; `auth`: among auth methods.
 * ST_INVALID with the request's error: there is none. */
NODISCARD enum status sys_mount_named(struct req *req, bool auth, struct mount *ret_mount);

/* The same for a tune, and whether it is an auth method: clients also tune those as a mount at
 * auth/NAME. */
NODISCARD enum status sys_mount_tuned(struct req *req, bool auth, struct mount *ret_mount,
                                      bool *ret_auth);

#define SYS_AUTH_PREFIX "auth/" /* of the mounts of auth methods */

/* sys_mount_edit.c: stage the end of every lease below the path of a mount; a warning tells if some
 * end later. As lease_end_below. */
NODISCARD enum status sys_mount_end_leases(struct req *req, const char *path);

/* sys_mount_edit.c. ST_INVALID with the request's error: no secrets engine may stand at `path`. */
NODISCARD enum status sys_mount_check_place(struct req *req, const char *path);
/* The same for one that is not there yet: nor where the path says something else in a policy. */
NODISCARD enum status sys_mount_check_new(struct req *req, const char *path);

#endif
