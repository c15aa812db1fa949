/* Mounts: which engine serves which path. A record stands at the mount's path; data at its UUID, so
 * that moving a mount moves no data. Mounts do not nest. */
#ifndef HOLDFAST_ROUTER_MOUNT_H
#define HOLDFAST_ROUTER_MOUNT_H

#include "state/state.h"
#include "text/schema.h"

enum { MOUNT_SEGMENTS_MAX = 8 };

struct mount {
    const char *path; /* "kv/", "team/kv/"; not stored, the key says it */
    const char *type, *uuid, *accessor, *description;
    struct field_map options;                     /* "version" and the like */
    int64_t default_lease_ttl_s, max_lease_ttl_s; /* 0: the system's */
};
extern const struct schema mount_schema;

/* The mount that serves `path`. ST_NOT_FOUND; ST_CORRUPT; else as state_get. */
NODISCARD enum status mount_find(struct state_txn *txn, const char *ns, struct bytes path,
                                 struct mount *ret_mount);
/* Stage a new mount with a fresh UUID and accessor; fields but those two are given. ST_EXISTS: the
 * path is in use. */
NODISCARD enum status mount_create(struct state_txn *txn, struct env *env, const char *ns,
                                   struct mount *mount);
/* Call `each` for every mount, ordered by path, until it returns another status than ST_OK. */
NODISCARD enum status mount_each(struct state_txn *txn, const char *ns,
                                 enum status (*each)(void *ctx, const struct mount *mount),
                                 void *ctx);

/* The whole key under which a mount stores `path`. ST_NOMEM. */
NODISCARD enum status mount_key(struct arena *arena, const char *ns, const struct mount *mount,
                                const char *path, struct bytes *ret_key);

#endif
