/* Mounts: which engine serves which path. A record stands at the mount's path; data at its UUID, so
 * that moving a mount moves no data. Mounts do not nest. Auth methods are mounts below "auth/". */
#ifndef HOLDFAST_MOUNT_MOUNT_H
#define HOLDFAST_MOUNT_MOUNT_H

#include "state/state.h"
#include "text/schema.h"

enum { MOUNT_SEGMENTS_MAX = 8, MOUNT_PATH_MAX = 512, MOUNT_RECORD_MAX = 16384 };

struct mount {
    /* path of the mount ("kv/", "team/kv/"), which is the end of the record's key */
    const char *path;
    const char *type, *uuid, *accessor, *description;
    struct field_map options;                     /* options of the engine, such as "version" */
    int64_t default_lease_ttl_s, max_lease_ttl_s; /* TTLs of the mount; 0: the system's default */
    bool local, seal_wrap, external_entropy_access, force_no_cache;
    const char *listing_visibility, *token_type;
    struct field_strings audit_non_hmac_request_keys, audit_non_hmac_response_keys;
    struct field_strings passthrough_request_headers, allowed_response_headers;
    int64_t upgraded_ms; /* cluster time at which the mount's version was raised; 0: never */
};
extern const struct schema mount_schema;

/* The value of an option; NULL: the mount has no option of this name. */
const char *mount_option(const struct mount *mount, const char *name);

/* The mount that serves `path`. ST_NOT_FOUND; ST_CORRUPT; else as state_get. */
NODISCARD enum status mount_find(struct state_txn *txn, const char *ns, struct bytes path,
                                 struct mount *ret_mount);
/* The mount that stands at exactly `path`, which ends in '/'. As mount_find. */
NODISCARD enum status mount_get(struct state_txn *txn, const char *ns, const char *path,
                                struct mount *ret_mount);

/* The two parts of mount_find: find the record of the mount that serves a path, and read it. */
struct mount_place {
    struct bytes key;  /* the whole key of the record, in the arena */
    struct bytes path; /* path of the mount, which is the end of the key */
    struct state_stamp stamp;
};
/* Find a mount as mount_find does, but do not read its record. */
NODISCARD enum status mount_locate(struct state_txn *txn, const char *ns, struct bytes path,
                                   struct mount_place *ret_place);
/* mount_locate of the mount at exactly `path`, which ends in '/'. */
NODISCARD enum status mount_place_of(struct state_txn *txn, const char *ns, const char *path,
                                     struct mount_place *ret_place);
/* Read the record `stored`, decrypted. The whole mount lies in the arena. ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status mount_decode(struct arena *arena, const struct mount_place *place,
                                   struct bytes stored, struct mount *ret_mount);

/* Make `text` the path of a mount: one slash at its end, none at its front. ST_INVALID with a
 * reason: empty, too long or deep, or space around a segment. ST_NOMEM. */
NODISCARD enum status mount_path(struct arena *arena, const char *text, const char **ret_path,
                                 struct reason *reason);
/* A mount at, above or below `path`: its path in the arena. ST_NOT_FOUND: `path` is free. */
NODISCARD enum status mount_conflict(struct state_txn *txn, const char *ns, const char *path,
                                     const char **ret_path);

/* Stage a new mount. The call sets UUID and accessor, the caller all other fields. ST_EXISTS: the
 * path is in use, or a path above or below it. ST_TOO_BIG: the record is longer than
 * MOUNT_RECORD_MAX; every request reads a record. */
NODISCARD enum status mount_create(struct state_txn *txn, struct env *env, const char *ns,
                                   struct mount *mount);
/* Stage changed fields of a mount. ST_TOO_BIG: see mount_create. Else the statuses of state_put. */
NODISCARD enum status mount_update(struct state_txn *txn, const char *ns,
                                   const struct mount *mount);
/* Stage the move of a mount, with its UUID and so its data, to another path. ST_EXISTS. */
NODISCARD enum status mount_move(struct state_txn *txn, const char *ns, const struct mount *mount,
                                 const char *to);
/* Stage the end of a mount and of everything it stores. */
NODISCARD enum status mount_remove(struct state_txn *txn, const char *ns,
                                   const struct mount *mount);

/* Call `each` for every mount, ordered by path, until it returns another status than ST_OK. */
NODISCARD enum status mount_each(struct state_txn *txn, const char *ns,
                                 enum status (*each)(void *ctx, const struct mount *mount),
                                 void *ctx);

/* The version at which any mount of the namespace changed last (state_newest). */
NODISCARD enum status mount_newest(struct state_txn *txn, const char *ns, uint64_t *ret_version);

/* The whole key under which a mount stores `path`. ST_NOMEM. */
NODISCARD enum status mount_key(struct arena *arena, const char *ns, const struct mount *mount,
                                const char *path, struct bytes *ret_key);

#endif
