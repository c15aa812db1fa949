#include "barrier/barrier_internal.h"

#include "base/mem.h"

#include <assert.h>

enum {
    VALUE_VERSION = 1,
    VALUE_HEADER = 1 + 4, /* version and term, which are authenticated */
    VALUE_TEXT = VALUE_HEADER + AEAD_NONCE_BYTES,
    KEY_MAX = 4096,
    LOAD_TRIES = 8, /* a try fails only if the rings change between loading and using a key */
};

static struct bytes make_aad(uint8_t *room, const uint8_t *header, struct bytes key)
{
    ASSERT(key.len > 0 && key.len <= KEY_MAX);
    memcpy(room, header, VALUE_HEADER);
    memcpy(room + VALUE_HEADER, key.data, key.len);
    return bytes_of(room, VALUE_HEADER + key.len);
}

enum status value_encrypt(struct aead *aead, struct env *env, uint32_t term, struct bytes key,
                          struct bytes plain, uint8_t *out)
{
    uint8_t room[VALUE_HEADER + KEY_MAX];

    ASSERT(term != 0);
    out[0] = VALUE_VERSION;
    le32_put(out + 1, term);
    env_random(env, out + VALUE_HEADER, AEAD_NONCE_BYTES);
    return aead_seal(aead, out + VALUE_HEADER, make_aad(room, out, key), plain, out + VALUE_TEXT,
                     out + VALUE_TEXT + plain.len);
}

enum status value_term(struct bytes stored, uint32_t *ret_term)
{
    if (stored.len < BARRIER_OVERHEAD || stored.data[0] != VALUE_VERSION)
        return ST_CORRUPT;
    *ret_term = le32_get(stored.data + 1);
    return ST_OK;
}

enum status value_decrypt(struct aead *aead, struct bytes key, struct bytes stored, uint8_t *out,
                          size_t *ret_len)
{
    uint8_t room[VALUE_HEADER + KEY_MAX];

    ASSERT(stored.len >= BARRIER_OVERHEAD);
    size_t n = stored.len - BARRIER_OVERHEAD;
    TRY(aead_open(aead, stored.data + VALUE_HEADER, make_aad(room, stored.data, key),
                  bytes_of(stored.data + VALUE_TEXT, n), stored.data + VALUE_TEXT + n, out));
    *ret_len = n;
    return ST_OK;
}

void cipher_clear(struct barrier_cipher *cipher)
{
    for (int i = 0; i < BARRIER_RINGS; i++) {
        for (int j = 0; j < CIPHER_CONTEXTS; j++)
            aead_free(cipher->rings[i].contexts[j].aead);
        cipher->rings[i] = (struct cipher_ring){0};
    }
    hmac_free(cipher->mac);
    cipher->mac = NULL;
    cipher->epoch = 0;
}

struct barrier *barrier_of(const struct barrier_cipher *cipher)
{
    return cipher->barrier;
}

enum status barrier_cipher_new(struct barrier *b, struct env *env,
                               struct barrier_cipher **ret_cipher)
{
    struct barrier_cipher *cipher = mem_zalloc(sizeof *cipher);
    if (cipher == NULL)
        return ST_NOMEM;
    cipher->barrier = b;
    cipher->env = env;
    if (pthread_mutex_init(&cipher->lock, NULL) != 0) {
        mem_free(cipher);
        return ST_NOMEM;
    }
    lock_take(&b->lock);
    list_push(&b->ciphers, &cipher->link);
    lock_drop(&b->lock);
    *ret_cipher = cipher;
    return ST_OK;
}

void barrier_cipher_free(struct barrier_cipher *cipher)
{
    if (cipher == NULL)
        return;
    lock_take(&cipher->barrier->lock);
    list_remove(&cipher->link);
    lock_drop(&cipher->barrier->lock);
    cipher_clear(cipher);
    int failed = pthread_mutex_destroy(&cipher->lock);
    ASSERT(failed == 0);
    mem_free(cipher);
}

static enum barrier_ring ring_of(struct bytes key)
{
    return key.len > 0 && key.data[0] == BARRIER_LOCAL_KEYRING[0] ? BARRIER_LOCAL : BARRIER_SHARED;
}

/* Whether a cipher context holds the barrier's present keys. Its lock is held. */
static bool is_fresh(const struct barrier_cipher *cipher)
{
    return cipher->epoch == atomic_load(&cipher->barrier->epoch);
}

/* Drop the keys of an earlier epoch. Both locks are held, the barrier is unsealed. */
static void cipher_freshen(struct barrier_cipher *cipher)
{
    struct barrier *b = cipher->barrier;

    ASSERT(lock_is_held(&b->lock) && lock_is_held(&cipher->lock));
    ASSERT(!atomic_load(&b->sealed));
    if (is_fresh(cipher))
        return;
    cipher_clear(cipher);
    for (int i = 0; i < BARRIER_RINGS; i++)
        cipher->rings[i].active =
            b->keys.rings[i].n != 0 ? ring_active(&b->keys.rings[i])->term : 0;
    cipher->epoch = atomic_load(&b->epoch);
}

/* The context of a term; term 0 means the active one. NULL: none is kept. */
static struct cipher_context *context_find(struct barrier_cipher *cipher, enum barrier_ring ring,
                                           uint32_t term)
{
    struct cipher_ring *r = &cipher->rings[ring];

    if (!is_fresh(cipher))
        return NULL;
    if (term == 0)
        term = r->active;
    if (term == 0)
        return NULL; /* the ring does not exist yet */
    for (int i = 0; i < CIPHER_CONTEXTS; i++)
        if (r->contexts[i].term == term)
            return &r->contexts[i];
    return NULL;
}

/* Make a context and keep it. The caller holds both locks. */
static enum status context_keep(struct barrier_cipher *cipher, enum barrier_ring ring,
                                uint32_t term)
{
    struct cipher_ring *r = &cipher->rings[ring];
    struct aead *aead = NULL;
    const struct ring_term *found = ring_find(&cipher->barrier->keys.rings[ring], term);

    ASSERT(lock_is_held(&cipher->barrier->lock) && lock_is_held(&cipher->lock));
    ASSERT(is_fresh(cipher));
    if (found == NULL)
        return ST_NOT_FOUND;
    TRY(aead_new(secret_bytes(&found->key), &aead));
    struct cipher_context *c = &r->contexts[r->next++ % CIPHER_CONTEXTS];
    aead_free(c->aead);
    *c = (struct cipher_context){term, aead};
    return ST_OK;
}

/* Make the HMAC and keep it. The caller holds both locks. */
static enum status mac_keep(struct barrier_cipher *cipher)
{
    uint8_t key[SIPHASH_KEY_BYTES];
    struct hmac *mac = NULL;

    ASSERT(is_fresh(cipher));
    ASSERT(cipher->barrier->keys.salt.len > 0);
    if (cipher->mac != NULL)
        return ST_OK;
    TRY(hmac_new(secret_bytes(&cipher->barrier->keys.salt), &mac));
    env_random(cipher->env, key, sizeof key);
    enum status st = hmac_keep_recent(mac, key);
    mem_wipe(key, sizeof key);
    if (st != ST_OK) {
        hmac_free(mac);
        return st;
    }
    cipher->mac = mac;
    return ST_OK;
}

/* The part of a cipher context that a function needs: the context of a term (0: the active term),
 * or the HMAC. */
struct want {
    bool mac;
    enum barrier_ring ring;
    uint32_t term;
};

static enum status context_load(struct barrier_cipher *cipher, struct want want)
{
    struct barrier *b = cipher->barrier;
    enum status st = ST_OK;

    lock_take(&b->lock);
    lock_take(&cipher->lock);
    if (atomic_load(&b->sealed))
        st = ST_SEALED;
    else {
        cipher_freshen(cipher);
        if (want.mac)
            st = mac_keep(cipher);
        else if (context_find(cipher, want.ring, want.term) == NULL)
            st = context_keep(cipher, want.ring,
                              want.term != 0 ? want.term : cipher->rings[want.ring].active);
    }
    lock_drop(&cipher->lock);
    lock_drop(&b->lock);
    return st;
}

/* Lock the cipher context and give the wanted context. *ret_context is NULL for the HMAC. On
 * failure the lock is not held. Until the lock is released, the context may be used even if the
 * barrier is sealed meanwhile: a thread that wipes the keys first waits for the lock. */
static enum status context_lock(struct barrier_cipher *cipher, struct want want,
                                struct cipher_context **ret_context)
{
    for (int i = 0; i < LOAD_TRIES; i++) {
        lock_take(&cipher->lock);
        struct cipher_context *c = want.mac ? NULL : context_find(cipher, want.ring, want.term);
        if (want.mac ? is_fresh(cipher) && cipher->mac != NULL : c != NULL) {
            *ret_context = c;
            return ST_OK;
        }
        lock_drop(&cipher->lock);
        TRY(context_load(cipher, want));
    }
    return ST_BUSY;
}

/* Count one use of the active term. ST_BUSY: too many uses were made in advance. */
static enum status pay(struct barrier *b, enum barrier_ring ring)
{
    if (atomic_fetch_sub(&b->prepaid[ring], 1) > -BARRIER_USES_GRANT)
        return ST_OK;
    atomic_fetch_add(&b->prepaid[ring], 1);
    return ST_BUSY;
}

enum status barrier_encrypt(struct barrier_cipher *cipher, struct bytes key, struct bytes plain,
                            uint8_t *out)
{
    struct want want = {.ring = ring_of(key)};
    struct cipher_context *c = NULL;

    enum status st = context_lock(cipher, want, &c);
    if (st == ST_NOT_FOUND)
        return ST_BUSY; /* the ring does not exist yet */
    TRY(st);
    st = pay(cipher->barrier, want.ring);
    if (st == ST_OK)
        st = value_encrypt(c->aead, cipher->env, c->term, key, plain, out);
    lock_drop(&cipher->lock);
    return st;
}

enum status barrier_decrypt(struct barrier_cipher *cipher, struct bytes key, struct bytes stored,
                            uint8_t *out, size_t *ret_len)
{
    struct want want = {.ring = ring_of(key)};
    struct cipher_context *c = NULL;

    TRY(value_term(stored, &want.term));
    if (want.term == 0)
        return ST_CORRUPT;
    TRY(context_lock(cipher, want, &c));
    ASSERT(c->term == want.term);
    enum status st = value_decrypt(c->aead, key, stored, out, ret_len);
    lock_drop(&cipher->lock);
    return st;
}

enum status barrier_mac(struct barrier_cipher *cipher, struct bytes message,
                        uint8_t ret_mac[BARRIER_MAC_BYTES])
{
    static_assert(BARRIER_MAC_BYTES == (int)HMAC_BYTES, "one size");

    struct cipher_context *none = NULL;
    TRY(context_lock(cipher, (struct want){.mac = true}, &none));
    enum status st = hmac_run(cipher->mac, message, ret_mac);
    lock_drop(&cipher->lock);
    return st;
}
