/* A new root key.
 *
 * The seal wraps the new root key, and the rings are stored under the new root key. Unsealed nodes
 * do not have the key of the seal. For these nodes, the new root key is also stored for an hour,
 * encrypted under the superseded root key:
 *
 *   superseded  version u8 = 1, time u64 ms, nonce 12, ciphertext 32, tag 16; version, time and the
 *               record's own key of the state authenticated
 *
 * A node that was away for longer finds no superseded record, or a record that its root key does
 * not open. Such a node still has a superseded root key and must be unsealed again. */
#include "barrier/barrier_internal.h"
#include "barrier/seal_record.h"

#include "base/mem.h"
#include "text/time.h"

enum {
    SUPERSEDED_VERSION = 1,
    SUPERSEDED_HEADER = 1 + 8,
    SUPERSEDED_TEXT = SUPERSEDED_HEADER + AEAD_NONCE_BYTES,
    SUPERSEDED_BYTES = SUPERSEDED_TEXT + SEAL_KEY_BYTES + AEAD_TAG_BYTES,
    AAD_BYTES = SUPERSEDED_HEADER + sizeof BARRIER_SUPERSEDED - 1,
};

static struct bytes make_aad(uint8_t room[AAD_BYTES], const uint8_t *record)
{
    memcpy(room, record, SUPERSEDED_HEADER);
    memcpy(room + SUPERSEDED_HEADER, BARRIER_SUPERSEDED, sizeof BARRIER_SUPERSEDED - 1);
    return bytes_of(room, AAD_BYTES);
}

static enum status superseded_put(const struct secret *old, const struct secret *next,
                                  struct env *env, int64_t time_ms, struct buf *out)
{
    struct aead *a = NULL;
    uint8_t room[AAD_BYTES];
    uint8_t *at = buf_extend(out, SUPERSEDED_BYTES);

    ASSERT(next->len == SEAL_KEY_BYTES);
    /* range of times that barrier_superseded_time accepts */
    ASSERT(time_ms >= 0 && time_ms < TEXT_CLOCK_END);
    if (at == NULL)
        return ST_NOMEM;
    at[0] = SUPERSEDED_VERSION;
    le64_put(at + 1, (uint64_t)time_ms);
    env_random(env, at + SUPERSEDED_HEADER, AEAD_NONCE_BYTES);
    TRY(aead_new(secret_bytes(old), &a));
    enum status st = aead_seal(a, at + SUPERSEDED_HEADER, make_aad(room, at), secret_bytes(next),
                               at + SUPERSEDED_TEXT, at + SUPERSEDED_TEXT + SEAL_KEY_BYTES);
    aead_free(a);
    return st;
}

enum status barrier_superseded_time(struct bytes record, int64_t *ret_time_ms)
{
    if (record.len != SUPERSEDED_BYTES || record.data[0] != SUPERSEDED_VERSION ||
        le64_get(record.data + 1) >= (uint64_t)TEXT_CLOCK_END)
        return ST_CORRUPT;
    *ret_time_ms = (int64_t)le64_get(record.data + 1);
    return ST_OK;
}

enum status superseded_open(const struct secret *root, struct bytes record, struct secret *ret_root)
{
    struct aead *a = NULL;
    struct secret next = {0};
    uint8_t room[AAD_BYTES];
    int64_t time_ms;

    TRY(barrier_superseded_time(record, &time_ms));
    TRY(aead_new(secret_bytes(root), &a));
    enum status st = secret_new(SEAL_KEY_BYTES, &next);
    if (st == ST_OK)
        st = aead_open(a, record.data + SUPERSEDED_HEADER, make_aad(room, record.data),
                       bytes_of(record.data + SUPERSEDED_TEXT, SEAL_KEY_BYTES),
                       record.data + SUPERSEDED_TEXT + SEAL_KEY_BYTES, next.data);
    aead_free(a);
    if (st == ST_OK)
        *ret_root = next;
    else
        secret_done(&next);
    return st;
}

static enum status keys_copy(struct barrier *b, struct barrier_keys *ret_keys)
{
    enum status st = ST_SEALED;
    ASSERT(ret_keys->root.len == 0);
    lock_take(&b->lock);
    if (!atomic_load(&b->sealed))
        st = secret_dup(secret_bytes(&b->keys.root), &ret_keys->root);
    for (int i = 0; st == ST_OK && i < BARRIER_RINGS; i++)
        st = b->keys.rings[i].n != 0 ? ring_copy(&b->keys.rings[i], &ret_keys->rings[i])
                                     : ST_NOT_FOUND;
    lock_drop(&b->lock);
    return st;
}

static enum status records_put(struct barrier_keys *keys, const struct secret *next,
                               const struct seal *seal, struct env *env,
                               struct barrier_rekeyed *ret)
{
    struct aead *root = NULL;
    TRY(seal_wrap(seal, env, next, &ret->seal));
    TRY(aead_new(secret_bytes(next), &root));
    enum status st =
        ring_encode(&keys->rings[BARRIER_SHARED], root, env, BYTES(BARRIER_KEYRING), &ret->keyring);
    if (st == ST_OK)
        st = ring_encode(&keys->rings[BARRIER_LOCAL], root, env, BYTES(BARRIER_LOCAL_KEYRING),
                         &ret->local_keyring);
    aead_free(root);
    ASSERT(st != ST_OK || ring_shaped(buf_bytes(&ret->keyring)));
    ASSERT(st != ST_OK || ring_shaped(buf_bytes(&ret->local_keyring)));
    return st;
}

enum status barrier_rekey(struct barrier *b, struct env *env, const struct seal *seal,
                          int64_t time_ms, struct barrier_rekeyed *ret_rekeyed)
{
    struct barrier_keys *keys = mem_zalloc(sizeof *keys);
    struct barrier_rekeyed out = {0};
    struct secret next = {0};

    ASSERT(seal->key.len == SEAL_KEY_BYTES && time_ms >= 0);
    if (keys == NULL)
        return ST_NOMEM;
    enum status st = keys_copy(b, keys);
    if (st == ST_OK)
        st = secret_new(SEAL_KEY_BYTES, &next);
    if (st == ST_OK) {
        env_random(env, next.data, next.len);
        st = records_put(keys, &next, seal, env, &out);
    }
    if (st == ST_OK)
        st = superseded_put(&keys->root, &next, env, time_ms, &out.superseded);
    secret_done(&next);
    keys_free(&keys);
    ASSERT(st != ST_OK || out.superseded.len == SUPERSEDED_BYTES);
    if (st == ST_OK)
        *ret_rekeyed = out;
    else
        barrier_rekeyed_done(&out);
    return st;
}

void barrier_rekeyed_done(struct barrier_rekeyed *rekeyed)
{
    buf_done(&rekeyed->seal);
    buf_done(&rekeyed->keyring);
    buf_done(&rekeyed->local_keyring);
    buf_done(&rekeyed->superseded);
    *rekeyed = (struct barrier_rekeyed){0};
}

enum status barrier_reseal(struct barrier *b, struct env *env, const struct seal *seal,
                           struct buf *ret_record)
{
    struct secret root = {0};
    TRY(copy_root(b, &root));
    enum status st = seal_wrap(seal, env, &root, ret_record);
    secret_done(&root);
    return st;
}
