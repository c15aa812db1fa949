#include "crypto/aead.h"

#include "base/mem.h"

#include <limits.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

/* One context for each direction: a context that changes its direction would need the key again. */
struct aead {
    EVP_CIPHER_CTX *seal, *open;
};

static EVP_CIPHER_CTX *context_new(struct bytes key, int encrypt)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    if (ctx != NULL &&
        EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, key.data, NULL, encrypt) == 1)
        return ctx;
    EVP_CIPHER_CTX_free(ctx);
    return NULL;
}

enum status aead_new(struct bytes key, struct aead **ret_aead)
{
    ASSERT(key.len == AEAD_KEY_BYTES);
    struct aead *a = mem_zalloc(sizeof *a);
    if (a == NULL)
        return ST_NOMEM;
    a->seal = context_new(key, 1);
    a->open = context_new(key, 0);
    if (a->seal == NULL || a->open == NULL) {
        aead_free(a);
        return ST_CRYPTO;
    }
    *ret_aead = a;
    return ST_OK;
}

void aead_free(struct aead *a)
{
    if (a == NULL)
        return;
    EVP_CIPHER_CTX_free(a->seal); /* also clears the key schedule */
    EVP_CIPHER_CTX_free(a->open);
    mem_free(a);
}

/* Nonce, associated data, text. `params`: set with the nonce; NULL: nothing. */
static bool context_feed(EVP_CIPHER_CTX *ctx, const uint8_t *nonce, const OSSL_PARAM *params,
                         struct bytes aad, struct bytes text, uint8_t *out)
{
    int n = 0;
    ASSERT(aad.len <= INT_MAX);
    ASSERT(text.len <= INT_MAX);
    if (EVP_CipherInit_ex2(ctx, NULL, NULL, nonce, -1, params) != 1)
        return false;
    if (aad.len != 0 && EVP_CipherUpdate(ctx, NULL, &n, aad.data, (int)aad.len) != 1)
        return false;
    return text.len == 0 ||
           (EVP_CipherUpdate(ctx, out, &n, text.data, (int)text.len) == 1 && (size_t)n == text.len);
}

enum status aead_seal(struct aead *a, const uint8_t nonce[AEAD_NONCE_BYTES], struct bytes aad,
                      struct bytes plain, uint8_t *out, uint8_t ret_tag[AEAD_TAG_BYTES])
{
    uint8_t tail[16];
    int n = 0;
    ASSERT(out != NULL || plain.len == 0);
    if (!context_feed(a->seal, nonce, NULL, aad, plain, out) ||
        EVP_CipherFinal_ex(a->seal, tail, &n) != 1 ||
        EVP_CIPHER_CTX_ctrl(a->seal, EVP_CTRL_AEAD_GET_TAG, AEAD_TAG_BYTES, ret_tag) != 1)
        return ST_CRYPTO;
    return ST_OK;
}

enum status aead_open(struct aead *a, const uint8_t nonce[AEAD_NONCE_BYTES], struct bytes aad,
                      struct bytes cipher, const uint8_t tag[AEAD_TAG_BYTES], uint8_t *out)
{
    uint8_t want[AEAD_TAG_BYTES], tail[16];
    int n = 0;
    ASSERT(out != NULL || cipher.len == 0);
    memcpy(want, tag, sizeof want); /* copy: OpenSSL's parameters take no pointer to const */
    const OSSL_PARAM params[] = {
        OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, want, sizeof want),
        OSSL_PARAM_END,
    };
    enum status st = ST_CRYPTO;
    if (context_feed(a->open, nonce, params, aad, cipher, out))
        st = EVP_CipherFinal_ex(a->open, tail, &n) == 1 ? ST_OK : ST_CORRUPT;
    if (st != ST_OK && cipher.len != 0)
        mem_wipe(out, cipher.len);
    return st;
}
