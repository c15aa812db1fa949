/* Records of mounts that one worker decrypted and parsed recently. A lookup here is a read of the
 * transaction: the stamp of the stored record decides whether the cached copy is current. */
#ifndef HOLDFAST_MOUNT_MOUNT_CACHE_H
#define HOLDFAST_MOUNT_MOUNT_CACHE_H

#include "mount/mount.h"

struct mount_cache;
struct mount_ref; /* A reference to a mount that is in use. */

enum { MOUNT_CACHE_SLOTS = 512, MOUNT_CACHE_RECORD_MAX = 2048 /* longer records are not kept */ };

NODISCARD enum status mount_cache_new(struct mount_cache **ret_cache); /* ST_NOMEM. */
/* wipes the entries; NULL is allowed */
void mount_cache_clear(struct mount_cache *cache);
/* wipes the entries; NULL is allowed */
void mount_cache_free(struct mount_cache *cache);

/* As mount_find. The mount lives until mount_ref_drop, whatever becomes of the cache. */
NODISCARD enum status mount_cache_find(struct mount_cache *cache, struct state_txn *txn,
                                       const char *ns, struct bytes path,
                                       struct mount_ref **ret_ref);
/* The mount at exactly `path`, which ends in '/'. As mount_get. */
NODISCARD enum status mount_cache_get(struct mount_cache *cache, struct state_txn *txn,
                                      const char *ns, const char *path, struct mount_ref **ret_ref);
const struct mount *mount_ref_get(const struct mount_ref *ref);
void mount_ref_drop(struct mount_ref *ref); /* NULL is allowed */

#endif
