#include "auth/token_cache.h"
#include "base/mem.h"

/* One place for each hash: a newcomer takes the place of whoever is there. */
struct slot {
    struct state_stamp stamp;
    size_t key_len, len;
    uint8_t *bytes; /* the key, then the record */
};

struct token_cache {
    bool used;
    struct slot slots[TOKEN_CACHE_SLOTS];
};

enum status token_cache_new(struct token_cache **ret_cache)
{
    struct token_cache *cache = mem_zalloc(sizeof *cache);
    if (cache == NULL)
        return ST_NOMEM;
    *ret_cache = cache;
    return ST_OK;
}

static void empty(struct slot *slot)
{
    if (slot->bytes != NULL)
        mem_wipe(slot->bytes, slot->key_len + slot->len);
    mem_free(slot->bytes);
    *slot = (struct slot){0};
}

void token_cache_clear(struct token_cache *cache)
{
    if (cache == NULL || !cache->used)
        return;
    for (size_t i = 0; i < TOKEN_CACHE_SLOTS; i++)
        empty(&cache->slots[i]);
    cache->used = false;
}

void token_cache_free(struct token_cache *cache)
{
    token_cache_clear(cache);
    mem_free(cache);
}

static size_t slot_of(struct bytes key)
{
    return bytes_hash(key) % TOKEN_CACHE_SLOTS;
}

struct bytes token_cache_get(const struct token_cache *cache, struct bytes key,
                             struct state_stamp stamp)
{
    const struct slot *slot = &cache->slots[slot_of(key)];
    ASSERT(stamp.modified != 0); /* staged values have none */
    if (slot->stamp.modified != stamp.modified || slot->stamp.seal != stamp.seal ||
        !bytes_eq(bytes_of(slot->bytes, slot->key_len), key))
        return (struct bytes){0};
    return bytes_of(slot->bytes + slot->key_len, slot->len);
}

void token_cache_put(struct token_cache *cache, struct bytes key, struct state_stamp stamp,
                     struct bytes record)
{
    struct slot *slot = &cache->slots[slot_of(key)];
    ASSERT(stamp.modified != 0);
    if (record.len > TOKEN_CACHE_RECORD_MAX)
        return;
    uint8_t *bytes = mem_alloc(key.len + record.len);
    if (bytes == NULL)
        return;
    empty(slot);
    memcpy(bytes, key.data, key.len);
    memcpy(bytes + key.len, record.data, record.len);
    *slot = (struct slot){stamp, key.len, record.len, bytes};
    cache->used = true;
}
