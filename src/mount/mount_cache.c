/* A cache of mounts by the hash of their keys, and by the first segment of the requested path. */
#include "mount/mount_cache.h"
#include "state/ns_key.h"

#include "base/mem.h"

enum { SEEN_SLOTS = 64 };

struct mount_ref {
    struct state_stamp stamp;
    uint64_t view;    /* the view of the state that found the mount last; 0: none */
    struct bytes key; /* key of the record, in the arena like everything that the mount points to */
    struct mount mount;
    struct arena arena;
    size_t refs; /* one for each user, and one for each slot that holds the mount */
};

/* The cache has one slot for each hash: a new entry evicts the old one. */
struct mount_cache {
    struct mount_ref *slots[MOUNT_CACHE_SLOTS];
    struct mount_ref *seen[SEEN_SLOTS]; /* mounts by the first segment of the requested path */
};

enum status mount_cache_new(struct mount_cache **ret_cache)
{
    struct mount_cache *cache = mem_zalloc(sizeof *cache);
    if (cache == NULL)
        return ST_NOMEM;
    *ret_cache = cache;
    return ST_OK;
}

static void clear(struct mount_ref **slots, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mount_ref_drop(slots[i]);
        slots[i] = NULL;
    }
}

void mount_cache_clear(struct mount_cache *cache)
{
    if (cache == NULL)
        return;
    clear(cache->slots, ARRAY_LEN(cache->slots));
    clear(cache->seen, ARRAY_LEN(cache->seen));
}

void mount_cache_free(struct mount_cache *cache)
{
    mount_cache_clear(cache);
    mem_free(cache);
}

const struct mount *mount_ref_get(const struct mount_ref *ref)
{
    return &ref->mount;
}

void mount_ref_drop(struct mount_ref *ref)
{
    if (ref == NULL)
        return;
    ASSERT(ref->refs > 0);
    if (--ref->refs != 0)
        return;
    arena_done(&ref->arena);
    mem_free(ref);
}

/* Load the mount stored at `at`, with one reference. */
static enum status make(struct state_txn *txn, const struct mount_place *at, bool *ret_keep,
                        struct mount_ref **ret_ref)
{
    struct state_value stored;
    TRY(state_get(txn, at->key, &stored));
    struct mount_ref *ref = mem_zalloc(sizeof *ref);
    if (ref == NULL)
        return ST_NOMEM;
    ref->refs = 1;
    ref->stamp = at->stamp;
    ref->key = bytes_of(arena_dup(&ref->arena, at->key), at->key.len);
    enum status st =
        ref->key.data != NULL ? mount_decode(&ref->arena, at, stored.value, &ref->mount) : ST_NOMEM;
    if (st != ST_OK) {
        mount_ref_drop(ref);
        return st;
    }
    *ret_keep = stored.value.len <= MOUNT_CACHE_RECORD_MAX;
    *ret_ref = ref;
    return ST_OK;
}

static void put(struct mount_ref **slot, struct mount_ref *ref)
{
    ASSERT(ref->refs > 0);
    ref->refs++;
    mount_ref_drop(*slot);
    *slot = ref;
}

static struct mount_ref **seen_slot(struct mount_cache *cache, struct bytes path)
{
    const uint8_t *slash = path.len != 0 ? memchr(path.data, '/', path.len) : NULL;
    size_t len = slash != NULL ? (size_t)(slash - path.data) : path.len;
    return &cache->seen[bytes_hash(bytes_of(path.data, len)) % SEEN_SLOTS];
}

/* Whether a search for `path` finds the mount: in the same view of the state, a search for another
 * path below the mount found it. */
static bool was_seen(const struct mount_ref *ref, uint64_t view, const char *ns, struct bytes path)
{
    struct bytes at = bytes_str(ref->mount.path);
    ASSERT(at.len > 0);
    struct bytes bare = bytes_of(at.data, at.len - 1); /* the path "kv" means the mount "kv/" */
    return ref->view == view && (bytes_has_prefix(path, at) || bytes_eq(path, bare)) &&
           state_ns_holds(ref->key, ns);
}

/* The mount of a record that was located. */
static enum status at_place(struct mount_cache *cache, struct state_txn *txn,
                            const struct mount_place *at, struct mount_ref **ret_ref)
{
    bool keep;
    struct mount_ref **slot = &cache->slots[bytes_hash(at->key) % MOUNT_CACHE_SLOTS], *ref = *slot;
    bool staged = at->stamp.modified == 0; /* other transactions may not see the record */
    if (ref != NULL && !staged && ref->stamp.modified == at->stamp.modified &&
        ref->stamp.seal == at->stamp.seal && bytes_eq(ref->key, at->key)) {
        ref->refs++;
        *ret_ref = ref;
        return ST_OK;
    }
    TRY(make(txn, at, &keep, &ref));
    if (keep && !staged)
        put(slot, ref);
    *ret_ref = ref;
    return ST_OK;
}

enum status mount_cache_get(struct mount_cache *cache, struct state_txn *txn, const char *ns,
                            const char *path, struct mount_ref **ret_ref)
{
    struct mount_place at;
    TRY(mount_place_of(txn, ns, path, &at));
    return at_place(cache, txn, &at, ret_ref);
}

enum status mount_cache_find(struct mount_cache *cache, struct state_txn *txn, const char *ns,
                             struct bytes path, struct mount_ref **ret_ref)
{
    uint64_t view = state_view(txn);
    struct mount_ref **seen = seen_slot(cache, path), *ref = *seen;
    struct mount_place at;
    if (ref != NULL && view != 0 && was_seen(ref, view, ns, path)) {
        ref->refs++;
        *ret_ref = ref;
        return ST_OK;
    }
    TRY(mount_locate(txn, ns, path, &at));
    TRY(at_place(cache, txn, &at, &ref));
    ASSERT(ref->refs > 0);
    if (view != 0) {
        ref->view = view;
        put(seen, ref);
    }
    *ret_ref = ref;
    return ST_OK;
}
