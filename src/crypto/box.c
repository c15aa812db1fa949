#include "crypto/box.h"

#include "base/mem.h"
#include "crypto/aead.h"
#include "crypto/hkdf.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/evp.h>

/* The key of a message is used once, so the nonce may be zero. */
static const uint8_t nonce[AEAD_NONCE_BYTES];

static enum status key_make(EVP_PKEY **ret_key, uint8_t ret_public[BOX_PUBLIC_BYTES])
{
    size_t n = BOX_PUBLIC_BYTES;
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    if (key == NULL || EVP_PKEY_get_raw_public_key(key, ret_public, &n) != 1 ||
        n != BOX_PUBLIC_BYTES) {
        EVP_PKEY_free(key);
        ERR_clear_error();
        return ST_CRYPTO;
    }
    *ret_key = key;
    return ST_OK;
}

enum status box_key_new(struct box_key *ret_key)
{
    EVP_PKEY *key = NULL;
    ASSERT(ret_key->key == NULL);
    TRY(key_make(&key, ret_key->public_key));
    ret_key->key = key;
    return ST_OK;
}

enum status box_key_save(const struct box_key *key, uint8_t ret_saved[BOX_SAVED_BYTES])
{
    size_t n = BOX_SAVED_BYTES;
    ASSERT(key->key != NULL);
    return EVP_PKEY_get_raw_private_key(key->key, ret_saved, &n) == 1 && n == BOX_SAVED_BYTES
               ? ST_OK
               : ST_CRYPTO;
}

enum status box_key_load(struct bytes saved, struct box_key *ret_key)
{
    struct box_key key = {0};
    size_t n = BOX_PUBLIC_BYTES;
    ASSERT(ret_key->key == NULL);
    if (saved.len != BOX_SAVED_BYTES)
        return ST_CORRUPT;
    key.key = EVP_PKEY_new_raw_private_key_ex(NULL, "X25519", NULL, saved.data, saved.len);
    if (key.key == NULL || EVP_PKEY_get_raw_public_key(key.key, key.public_key, &n) != 1 ||
        n != BOX_PUBLIC_BYTES) {
        box_key_done(&key);
        ERR_clear_error();
        return ST_CRYPTO;
    }
    *ret_key = key;
    return ST_OK;
}

void box_key_done(struct box_key *key)
{
    EVP_PKEY_free(key->key);
    *key = (struct box_key){0};
}

/* The shared secret. ST_INVALID: the peer's key gives none, as points of small order do. */
static enum status box_agree(EVP_PKEY *own, const uint8_t peer[BOX_PUBLIC_BYTES],
                             struct secret *ret_shared)
{
    EVP_PKEY *other = EVP_PKEY_new_raw_public_key_ex(NULL, "X25519", NULL, peer, BOX_PUBLIC_BYTES);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, own, NULL);
    size_t n = BOX_PUBLIC_BYTES;
    ASSERT(own != NULL && ret_shared->data == NULL);
    enum status st = other != NULL && ctx != NULL ? secret_new(n, ret_shared) : ST_CRYPTO;
    bool ok = st == ST_OK && EVP_PKEY_derive_init(ctx) == 1 &&
              EVP_PKEY_derive_set_peer(ctx, other) == 1 &&
              EVP_PKEY_derive(ctx, ret_shared->data, &n) == 1 && n == BOX_PUBLIC_BYTES;
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(other);
    ERR_clear_error();
    return st != ST_OK ? st : ok ? ST_OK : ST_INVALID;
}

/* HKDF (RFC 5869): extract with a label as the salt, expand with both public keys to one block. */
static enum status box_derive(struct bytes shared, const uint8_t sender[BOX_PUBLIC_BYTES],
                              const uint8_t receiver[BOX_PUBLIC_BYTES], uint8_t ret_key[HKDF_BYTES])
{
    uint8_t info[2 * BOX_PUBLIC_BYTES];
    ASSERT(shared.len == BOX_PUBLIC_BYTES);
    ASSERT(sender != receiver);
    memcpy(info, sender, BOX_PUBLIC_BYTES);
    memcpy(info + BOX_PUBLIC_BYTES, receiver, BOX_PUBLIC_BYTES);
    return hkdf_derive(BYTES("holdfast box 1"), shared, bytes_of(info, sizeof info), ret_key);
}

/* The cipher of a message between `own` and the peer. */
static enum status cipher_of(EVP_PKEY *own, const uint8_t peer[BOX_PUBLIC_BYTES],
                             const uint8_t sender[BOX_PUBLIC_BYTES],
                             const uint8_t receiver[BOX_PUBLIC_BYTES], struct aead **ret_cipher)
{
    CLEANUP(secret_done) struct secret shared = {0};
    uint8_t key[HKDF_BYTES];
    ASSERT(sender == peer || receiver == peer);
    static_assert((int)HKDF_BYTES == (int)AEAD_KEY_BYTES, "one block of HKDF is the key");
    TRY(box_agree(own, peer, &shared));
    enum status st = box_derive(secret_bytes(&shared), sender, receiver, key);
    if (st == ST_OK)
        st = aead_new(bytes_of(key, sizeof key), ret_cipher);
    mem_wipe(key, sizeof key);
    return st;
}

enum status box_seal(const uint8_t receiver[BOX_PUBLIC_BYTES], struct bytes context,
                     struct bytes plain, struct buf *out)
{
    EVP_PKEY *own = NULL;
    struct aead *cipher = NULL;
    uint8_t sender[BOX_PUBLIC_BYTES];
    ASSERT(plain.len > 0 && plain.len <= BOX_PLAIN_MAX);
    TRY(key_make(&own, sender));
    enum status st = cipher_of(own, receiver, sender, receiver, &cipher);
    EVP_PKEY_free(own);
    TRY(st);
    uint8_t *at = buf_extend(out, plain.len + BOX_OVERHEAD);
    if (at != NULL)
        memcpy(at, sender, sizeof sender);
    st = at == NULL ? ST_NOMEM
                    : aead_seal(cipher, nonce, context, plain, at + BOX_PUBLIC_BYTES,
                                at + BOX_PUBLIC_BYTES + plain.len);
    aead_free(cipher);
    return st;
}

enum status box_open(const struct box_key *key, struct bytes context, struct bytes sealed,
                     struct secret *ret_plain)
{
    CLEANUP(secret_done) struct secret plain = {0};
    struct aead *cipher = NULL;
    ASSERT(key->key != NULL);
    ASSERT(ret_plain->data == NULL);
    if (sealed.len <= BOX_OVERHEAD || sealed.len > BOX_OVERHEAD + BOX_PLAIN_MAX)
        return ST_CORRUPT;
    size_t n = sealed.len - BOX_OVERHEAD;
    const uint8_t *sender = sealed.data, *text = sealed.data + BOX_PUBLIC_BYTES;
    enum status st = cipher_of(key->key, sender, sender, key->public_key, &cipher);
    if (st == ST_INVALID)
        return ST_CORRUPT;
    TRY(st);
    st = secret_new(n, &plain);
    if (st == ST_OK)
        st = aead_open(cipher, nonce, context, bytes_of(text, n), text + n, plain.data);
    aead_free(cipher);
    TRY(st);
    *ret_plain = plain;
    plain = (struct secret){0};
    return ST_OK;
}
