#include "auth/token_cache.h"
#include "base/mem.h"
#include "base/plant.h"
#include "state/ns_key.h"

enum { REF_BLOCK = 1024 }; /* first block of an entry's arena: most tokens fit into it */

struct token_ref {
    struct state_stamp stamp;
    uint64_t view; /* state_view that last found the stamp; 0: none */
    /* key and record lie in `arena`, as everything that `token` points to */
    struct bytes key, record;
    struct auth_token token;
    struct arena arena;
    size_t refs; /* one reference for each user, and one while the entry is in a slot */
};

/* The cache has one slot for each hash: a new entry evicts the old one. When the long records
 * exceed their bytes, all of them are evicted: they are few, and most clients have a short one. */
struct token_cache {
    bool used;
    size_t long_bytes;
    struct token_ref *slots[TOKEN_CACHE_SLOTS];
};

/* Entries of the cache */

static enum status ref_fill(struct token_ref *ref, struct bytes key, struct bytes record)
{
    const uint8_t *slash = memrchr(key.data, '/', key.len);
    const char *text = arena_str(&ref->arena, key);
    const uint8_t *copy = arena_dup(&ref->arena, record);
    ASSERT(slash != NULL);
    if (text == NULL || copy == NULL)
        return ST_NOMEM;
    ref->key = bytes_of(text, key.len);
    ref->record = bytes_of(copy, record.len);
    TRY(token_record_read(ref->record, &ref->arena, &ref->token));
    ref->token.id = text + (slash + 1 - key.data);
    return ST_OK;
}

enum status token_ref_new(struct bytes key, struct state_stamp stamp, struct bytes record,
                          struct token_ref **ret_ref)
{
    struct token_ref *ref = mem_zalloc(sizeof *ref);
    if (ref == NULL)
        return ST_NOMEM;
    ref->refs = 1;
    ref->stamp = stamp;
    ref->arena.block_bytes = REF_BLOCK;
    enum status st = ref_fill(ref, key, record);
    if (st != ST_OK) {
        token_ref_drop(ref);
        return st;
    }
    *ret_ref = ref;
    return ST_OK;
}

void token_ref_drop(struct token_ref *ref)
{
    if (ref == NULL)
        return;
    ASSERT(ref->refs > 0);
    if (--ref->refs != 0)
        return;
    arena_done(&ref->arena);
    mem_wipe(ref, sizeof *ref);
    mem_free(ref);
}

const struct auth_token *token_ref_get(const struct token_ref *ref)
{
    ASSERT(ref->refs > 0);
    return &ref->token;
}

struct bytes token_ref_record(const struct token_ref *ref)
{
    return ref->record;
}

/* Adding to the cache */

enum status token_cache_new(struct token_cache **ret_cache)
{
    struct token_cache *cache = mem_zalloc(sizeof *cache);
    if (cache == NULL)
        return ST_NOMEM;
    *ret_cache = cache;
    return ST_OK;
}

void token_cache_clear(struct token_cache *cache)
{
    if (cache == NULL || !cache->used)
        return;
    for (size_t i = 0; i < TOKEN_CACHE_SLOTS; i++) {
        token_ref_drop(cache->slots[i]);
        cache->slots[i] = NULL;
    }
    cache->long_bytes = 0;
    cache->used = false;
}

void token_cache_free(struct token_cache *cache)
{
    token_cache_clear(cache);
    mem_free(cache);
}

static size_t slot_of(const char *id)
{
    return bytes_hash(bytes_str(id)) % TOKEN_CACHE_SLOTS;
}

void token_ref_see(struct token_ref *ref, uint64_t view)
{
    if (view != 0)
        ref->view = view;
}

struct token_ref *token_cache_seen(const struct token_cache *cache, const char *ns, const char *id,
                                   uint64_t view)
{
    struct token_ref *ref = cache->slots[slot_of(id)];
    ASSERT(view != 0);
    if (ref == NULL || strcmp(ref->token.id, id) != 0 || !state_ns_holds(ref->key, ns))
        return NULL;
    if (ref->view != view && (ref->view == 0 || !planted(PLANT_R3_OLD_VIEW)))
        return NULL;
    ref->refs++;
    return ref;
}

/* The entry of a key; NULL: there is none. */
static struct token_ref *find(const struct token_cache *cache, struct bytes key)
{
    const uint8_t *slash = memrchr(key.data, '/', key.len);
    ASSERT(slash != NULL);
    struct token_ref *ref = cache->slots[slot_of((const char *)slash + 1)];
    return ref != NULL && bytes_eq(ref->key, key) ? ref : NULL;
}

bool token_cache_has(const struct token_cache *cache, struct bytes key)
{
    return find(cache, key) != NULL;
}

struct token_ref *token_cache_get(const struct token_cache *cache, struct bytes key,
                                  struct state_stamp stamp)
{
    struct token_ref *ref = find(cache, key);
    ASSERT(stamp.modified != 0); /* a staged record has no stamp, and is not kept */
    if (ref == NULL)
        return NULL;
    bool same = ref->stamp.modified == stamp.modified && ref->stamp.seal == stamp.seal;
    if (!same && !planted(PLANT_R3_REVOKED_ELSEWHERE))
        return NULL;
    ref->refs++;
    return ref;
}

/* Bytes of an entry that count as those of a long record. */
static size_t long_bytes_of(const struct token_ref *ref)
{
    return ref != NULL && ref->record.len > TOKEN_CACHE_SHORT_MAX ? ref->record.len : 0;
}

static void empty_slot(struct token_cache *cache, struct token_ref **slot)
{
    ASSERT(cache->long_bytes >= long_bytes_of(*slot));
    cache->long_bytes -= long_bytes_of(*slot);
    token_ref_drop(*slot);
    *slot = NULL;
}

void token_cache_put(struct token_cache *cache, struct token_ref *ref)
{
    struct token_ref **slot = &cache->slots[slot_of(ref->token.id)];
    ASSERT(ref->stamp.modified != 0 && ref->refs > 0);
    if (ref->record.len > TOKEN_CACHE_RECORD_MAX)
        return;
    empty_slot(cache, slot);
    if (cache->long_bytes + long_bytes_of(ref) > TOKEN_CACHE_LONG_BYTES)
        for (size_t i = 0; i < TOKEN_CACHE_SLOTS; i++)
            if (long_bytes_of(cache->slots[i]) != 0)
                empty_slot(cache, &cache->slots[i]);
    ref->refs++;
    *slot = ref;
    cache->long_bytes += long_bytes_of(ref);
    cache->used = true;
}
