#include "barrier/barrier_internal.h"
#include "barrier/seal_record.h"

#include "base/mem.h"

enum status barrier_new(struct barrier **ret_barrier)
{
    struct barrier *b = mem_zalloc(sizeof *b);
    if (b == NULL)
        return ST_NOMEM;
    if (pthread_mutex_init(&b->lock, NULL) != 0) {
        mem_free(b);
        return ST_NOMEM;
    }
    atomic_store(&b->sealed, true);
    atomic_store(&b->epoch, 1);
    list_init(&b->ciphers);
    *ret_barrier = b;
    return ST_OK;
}

void barrier_free(struct barrier *b)
{
    if (b == NULL)
        return;
    ASSERT(list_empty(&b->ciphers));
    keys_done(&b->keys);
    int failed = pthread_mutex_destroy(&b->lock);
    ASSERT(failed == 0);
    mem_free(b);
}

bool barrier_is_sealed(const struct barrier *b)
{
    return atomic_load(&b->sealed);
}

void barrier_clear_ciphers(struct barrier *b)
{
    ASSERT(lock_is_held(&b->lock));
    atomic_fetch_add(&b->epoch, 1);
    LIST_FOR (item, &b->ciphers) {
        struct barrier_cipher *cipher = CONTAINER_OF(item, struct barrier_cipher, link);
        lock_take(&cipher->lock);
        cipher_clear(cipher);
        lock_drop(&cipher->lock);
    }
}

void barrier_seal(struct barrier *b)
{
    lock_take(&b->lock);
    atomic_store(&b->sealed, true);
    keys_done(&b->keys);
    ASSERT(b->keys.root.len == 0 && b->keys.salt.len == 0);
    barrier_clear_ciphers(b);
    lock_drop(&b->lock);
}

static enum status open_all(struct barrier_keys *keys, const struct seal *seal,
                            const struct barrier_records *records, struct reason *reason)
{
    if (records->seal.len == 0) {
        reason_set(reason, "the cluster is not initialised");
        return ST_NOT_FOUND;
    }
    struct secret root = {0};
    TRY(seal_unwrap(seal, records->seal, &root, reason));
    enum status st = keys_open(&root, NULL, records, keys, reason);
    secret_done(&root);
    return st;
}

void barrier_set_unpaid(struct barrier *b, enum barrier_ring ring)
{
    ASSERT(lock_is_held(&b->lock));
    atomic_store(&b->prepaid[ring], 0);
    atomic_store(&b->granted[ring], 0);
    atomic_store(&b->lacking[ring], b->keys.rings[ring].n == 0);
}

void barrier_take_keys(struct barrier *b, struct barrier_keys *keys, uint64_t restored)
{
    ASSERT(b->keys.root.len == 0);
    ASSERT(keys->root.len == ROOT_BYTES && keys->salt.len == SALT_BYTES);
    ASSERT(keys->rings[BARRIER_SHARED].n > 0);
    b->keys = *keys;
    mem_wipe(keys, sizeof *keys);
    barrier_clear_ciphers(b);
    for (enum barrier_ring i = BARRIER_SHARED; i < BARRIER_RINGS; i++)
        barrier_set_unpaid(b, i);
    atomic_store(&b->restored, restored);
}

/* Unseal with the keys, which are moved. ST_EXISTS: another thread unsealed the barrier. */
static enum status keys_install(struct barrier *b, struct barrier_keys *keys, uint64_t restored)
{
    lock_take(&b->lock);
    bool sealed = atomic_load(&b->sealed);
    if (sealed) {
        barrier_take_keys(b, keys, restored);
        atomic_store(&b->sealed, false);
    }
    lock_drop(&b->lock);
    return sealed ? ST_OK : ST_EXISTS;
}

enum status barrier_unseal(struct barrier *b, const struct seal *seal,
                           const struct barrier_records *records, struct reason *reason)
{
    CLEANUP(keys_free) struct barrier_keys *keys = NULL;

    if (!barrier_is_sealed(b))
        return ST_EXISTS;
    keys = mem_zalloc(sizeof *keys);
    if (keys == NULL)
        return ST_NOMEM;
    TRY(open_all(keys, seal, records, reason));
    return keys_install(b, keys, records->restored);
}

static enum status create_salt(struct barrier_keys *keys, struct env *env, struct buf *ret_record)
{
    const struct ring_term *active = ring_active(&keys->rings[BARRIER_SHARED]);
    struct aead *a = NULL;

    TRY(secret_new(SALT_BYTES, &keys->salt));
    env_random(env, keys->salt.data, SALT_BYTES);
    uint8_t *at = buf_extend(ret_record, SALT_BYTES + BARRIER_OVERHEAD);
    if (at == NULL)
        return ST_NOMEM;
    TRY(aead_new(secret_bytes(&active->key), &a));
    enum status st =
        value_encrypt(a, env, active->term, BYTES(BARRIER_SALT), secret_bytes(&keys->salt), at);
    aead_free(a);
    ASSERT(ret_record->len == SALT_BYTES + BARRIER_OVERHEAD);
    return st;
}

static enum status create_ring(struct barrier_keys *keys, struct aead *root, struct env *env,
                               enum barrier_ring ring, int64_t time_ms, struct buf *ret_record)
{
    TRY(ring_grow(&keys->rings[ring], env, time_ms));
    TRY(ring_encode(&keys->rings[ring], root, env, keys_ring_name(ring), ret_record));
    ASSERT(ring_shaped(buf_bytes(ret_record)));
    keys->marks[ring] = keys_mark(buf_bytes(ret_record));
    return ST_OK;
}

static enum status create_all(struct barrier_keys *keys, struct env *env, const struct seal *seal,
                              int64_t time_ms, struct barrier_created *created)
{
    struct aead *root = NULL;

    TRY(secret_new(ROOT_BYTES, &keys->root));
    env_random(env, keys->root.data, ROOT_BYTES);
    TRY(seal_wrap(seal, env, &keys->root, &created->seal));
    TRY(aead_new(secret_bytes(&keys->root), &root));
    enum status st = create_ring(keys, root, env, BARRIER_SHARED, time_ms, &created->keyring);
    if (st == ST_OK)
        st = create_ring(keys, root, env, BARRIER_LOCAL, time_ms, &created->local_keyring);
    aead_free(root);
    return st == ST_OK ? create_salt(keys, env, &created->salt) : st;
}

enum status barrier_create(struct env *env, const struct seal *seal, int64_t time_ms,
                           struct barrier_created *ret_created)
{
    CLEANUP(keys_free) struct barrier_keys *keys = mem_zalloc(sizeof *keys);
    struct barrier_created created = {0};

    ASSERT(seal->key.len == SEAL_KEY_BYTES);
    if (keys == NULL)
        return ST_NOMEM;
    enum status st = create_all(keys, env, seal, time_ms, &created);
    if (st == ST_OK)
        st = barrier_new(&created.barrier);
    if (st == ST_OK)
        st = keys_install(created.barrier, keys, 0);
    if (st != ST_OK) {
        barrier_created_done(&created);
        return st;
    }
    *ret_created = created;
    return ST_OK;
}

void barrier_created_done(struct barrier_created *created)
{
    barrier_free(created->barrier);
    buf_done(&created->seal);
    buf_done(&created->keyring);
    buf_done(&created->local_keyring);
    buf_done(&created->salt);
    *created = (struct barrier_created){0};
}

uint64_t barrier_restored(const struct barrier *b)
{
    return atomic_load(&b->restored);
}

enum status copy_root(struct barrier *b, struct secret *ret_root)
{
    lock_take(&b->lock);
    enum status st =
        atomic_load(&b->sealed) ? ST_SEALED : secret_dup(secret_bytes(&b->keys.root), ret_root);
    lock_drop(&b->lock);
    ASSERT(st != ST_OK || ret_root->len == ROOT_BYTES);
    return st;
}

enum status barrier_unseal_root(struct barrier *b, const struct secret *root,
                                const struct barrier_records *records, struct reason *reason)
{
    CLEANUP(keys_free) struct barrier_keys *keys = NULL;

    if (!barrier_is_sealed(b))
        return ST_EXISTS;
    if (records->seal.len == 0) {
        reason_set(reason, "the cluster is not initialised");
        return ST_NOT_FOUND;
    }
    if (root->len != ROOT_BYTES) {
        reason_set(reason, "this is no root key");
        return ST_INVALID;
    }
    keys = mem_zalloc(sizeof *keys);
    if (keys == NULL)
        return ST_NOMEM;
    enum status st = keys_open(root, NULL, records, keys, reason);
    if (st == ST_CORRUPT)
        return ST_INVALID;
    TRY(st);
    return keys_install(b, keys, records->restored);
}

enum status barrier_unseal_as(struct barrier *b, struct barrier *other,
                              const struct barrier_records *records, struct reason *reason)
{
    CLEANUP(secret_done) struct secret root = {0};
    TRY(copy_root(other, &root));
    return barrier_unseal_root(b, &root, records, reason);
}

enum status barrier_hand_over(struct barrier *b, const uint8_t receiver[BOX_PUBLIC_BYTES],
                              struct bytes context, struct buf *out)
{
    CLEANUP(secret_done) struct secret root = {0};
    TRY(copy_root(b, &root));
    return box_seal(receiver, context, secret_bytes(&root), out);
}

/* HMAC under a key derived from the root key: the root key itself only encrypts rings. */
static enum status root_prove(struct bytes root, struct bytes message, uint8_t ret_mac[HMAC_BYTES])
{
    uint8_t key[HMAC_BYTES];
    struct hmac *h = NULL;

    ASSERT(root.len == ROOT_BYTES);
    TRY(hmac_new(root, &h));
    enum status st = hmac_run(h, BYTES("holdfast: proof of the root key"), key);
    hmac_free(h);
    h = NULL;
    if (st == ST_OK)
        st = hmac_new(bytes_of(key, sizeof key), &h);
    if (st == ST_OK)
        st = hmac_run(h, message, ret_mac);
    hmac_free(h);
    mem_wipe(key, sizeof key);
    return st;
}

enum status barrier_prove(struct barrier *b, struct bytes message,
                          uint8_t ret_mac[BARRIER_MAC_BYTES])
{
    struct secret root = {0};
    TRY(copy_root(b, &root));
    enum status st = root_prove(secret_bytes(&root), message, ret_mac);
    secret_done(&root);
    return st;
}

enum status barrier_prove_by(const struct seal *seal, struct bytes seal_record,
                             struct bytes message, uint8_t ret_mac[BARRIER_MAC_BYTES],
                             struct reason *reason)
{
    struct secret root = {0};
    TRY(seal_unwrap(seal, seal_record, &root, reason));
    enum status st = root_prove(secret_bytes(&root), message, ret_mac);
    secret_done(&root);
    return st;
}

enum status barrier_check(struct barrier *b, const struct barrier_records *records,
                          struct reason *reason)
{
    CLEANUP(keys_free) struct barrier_keys *keys = mem_zalloc(sizeof *keys);
    struct barrier_records shared = *records;
    struct secret root = {0};

    if (keys == NULL)
        return ST_NOMEM;
    shared.local_keyring = (struct bytes){0};
    TRY(copy_root(b, &root));
    enum status st = keys_open(&root, NULL, &shared, keys, reason);
    secret_done(&root);
    return st == ST_CORRUPT ? ST_INVALID : st;
}

enum status barrier_check_form(const struct barrier_records *records, struct reason *reason)
{
    struct seal_info info;
    uint32_t term = 0;
    const char *bad = NULL;

    if (seal_info_read(records->seal, &info) != ST_OK)
        bad = "seal";
    else if (!ring_shaped(records->keyring))
        bad = "key ring";
    else if (records->salt.len != SALT_BYTES + BARRIER_OVERHEAD ||
             value_term(records->salt, &term) != ST_OK || term == 0)
        bad = "salt";
    if (bad == NULL)
        return ST_OK;
    reason_set(reason, "the stored %s is damaged", bad);
    return ST_INVALID;
}

enum status barrier_rewrap(struct barrier *b, struct barrier *other, struct env *env,
                           struct buf *ret_record)
{
    struct ring ring = {0};
    struct secret key = {0};
    struct aead *root = NULL;
    enum status st = ST_SEALED;

    TRY(copy_root(other, &key));
    lock_take(&b->lock);
    if (!atomic_load(&b->sealed))
        st = b->keys.rings[BARRIER_LOCAL].n != 0 ? ring_copy(&b->keys.rings[BARRIER_LOCAL], &ring)
                                                 : ST_NOT_FOUND;
    lock_drop(&b->lock);
    if (st == ST_OK)
        st = aead_new(secret_bytes(&key), &root);
    if (st == ST_OK)
        st = ring_encode(&ring, root, env, keys_ring_name(BARRIER_LOCAL), ret_record);
    aead_free(root);
    ring_done(&ring);
    secret_done(&key);
    return st;
}

bool barrier_is_behind(struct barrier *b)
{
    lock_take(&b->lock);
    bool behind = b->keys.local_root.len != 0;
    lock_drop(&b->lock);
    return behind;
}

bool barrier_upkeep_due(struct barrier *b, enum barrier_ring ring)
{
    if (barrier_is_sealed(b))
        return false;
    int64_t prepaid = atomic_load(&b->prepaid[ring]);
    bool unused = prepaid == 0 && atomic_load(&b->granted[ring]) == 0;
    return unused ? atomic_load(&b->lacking[ring]) : prepaid < barrier_grant(b, ring) / 2;
}

int64_t barrier_grant(const struct barrier *b, enum barrier_ring ring)
{
    int64_t granted = atomic_load(&b->granted[ring]);
    return MIN(MAX(granted, BARRIER_USES_FIRST), BARRIER_USES_GRANT);
}

enum status barrier_upkeep(struct barrier *b, struct env *env, enum barrier_ring ring,
                           int64_t grant, int64_t time_ms, struct buf *ret_record)
{
    struct ring next = {0};
    struct aead *root = NULL;
    enum status st = ST_SEALED;

    ASSERT(grant >= 0 && grant <= BARRIER_USES_GRANT);
    lock_take(&b->lock);
    if (!atomic_load(&b->sealed)) {
        st = ring_copy(&b->keys.rings[ring], &next);
        if (st == ST_OK)
            st = aead_new(
                secret_bytes(ring == BARRIER_LOCAL ? keys_local_root(&b->keys) : &b->keys.root),
                &root);
    }
    lock_drop(&b->lock);
    if (st == ST_OK && (grant == 0 || next.n == 0 || ring_active(&next)->uses >= BARRIER_USES_MAX))
        st = ring_grow(&next, env, time_ms);
    if (st == ST_OK) {
        ring_active(&next)->uses += (uint64_t)grant;
        st = ring_encode(&next, root, env, keys_ring_name(ring), ret_record);
    }
    aead_free(root);
    ring_done(&next);
    return st;
}

void barrier_upkeep_done(struct barrier *b, enum barrier_ring ring, int64_t grant)
{
    ASSERT(grant > 0 && grant <= BARRIER_USES_GRANT);
    lock_take(&b->lock);
    if (!atomic_load(&b->sealed)) {
        atomic_fetch_add(&b->prepaid[ring], grant);
        atomic_fetch_add(&b->granted[ring], grant);
    }
    lock_drop(&b->lock);
}

enum status barrier_ring_info(struct barrier *b, enum barrier_ring ring,
                              struct barrier_ring_info *ret_info)
{
    enum status st = ST_SEALED;

    lock_take(&b->lock);
    if (!atomic_load(&b->sealed) && b->keys.rings[ring].n != 0) {
        const struct ring_term *active = ring_active(&b->keys.rings[ring]);
        int64_t unused = atomic_load(&b->prepaid[ring]);
        ASSERT(active->term > 0);
        *ret_info = (struct barrier_ring_info){
            .term = active->term,
            .n_terms = b->keys.rings[ring].n,
            .installed_ms = active->installed_ms,
            .uses = active->uses,
            .unused = unused,
        };
        st = ST_OK;
    }
    lock_drop(&b->lock);
    return st;
}
