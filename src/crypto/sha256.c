#include "crypto/sha256.h"
#include "base/mem.h"

#include <openssl/evp.h>
#include <string.h>

/* A call of OpenSSL costs more than to copy so few bytes. */
enum { GATHER_BYTES = 256 };

struct crypto_sha256 {
    EVP_MD *md;
    EVP_MD_CTX *ctx;
};

enum status crypto_sha256_new(struct crypto_sha256 **ret_hash)
{
    struct crypto_sha256 *hash = mem_zalloc(sizeof *hash);
    if (hash == NULL)
        return ST_NOMEM;
    hash->md = EVP_MD_fetch(NULL, "SHA256", NULL);
    hash->ctx = EVP_MD_CTX_new();
    if (hash->md == NULL || hash->ctx == NULL) {
        crypto_sha256_free(hash);
        return ST_NOMEM;
    }
    *ret_hash = hash;
    return ST_OK;
}

void crypto_sha256_free(struct crypto_sha256 *hash)
{
    if (hash == NULL)
        return;
    EVP_MD_CTX_free(hash->ctx);
    EVP_MD_free(hash->md);
    mem_free(hash);
}

void crypto_sha256_begin(struct crypto_sha256 *hash)
{
    bool ok = EVP_DigestInit_ex(hash->ctx, hash->md, NULL) == 1;
    ASSERT(ok);
}

void crypto_sha256_add(struct crypto_sha256 *hash, struct bytes part)
{
    bool ok = EVP_DigestUpdate(hash->ctx, part.data, part.len) == 1;
    ASSERT(ok);
}

void crypto_sha256_end(struct crypto_sha256 *hash, uint8_t ret_digest[CRYPTO_SHA256_BYTES])
{
    unsigned len = 0;
    bool ok = EVP_DigestFinal_ex(hash->ctx, ret_digest, &len) == 1;
    ASSERT(ok);
    ASSERT(len == CRYPTO_SHA256_BYTES);
}

void crypto_sha256(struct crypto_sha256 *hash, const struct bytes *parts, size_t n,
                   uint8_t ret_digest[CRYPTO_SHA256_BYTES])
{
    uint8_t room[GATHER_BYTES];
    size_t len = 0, i = 0;
    for (; i < n && parts[i].len <= sizeof room - len; i++) {
        if (parts[i].len != 0)
            memcpy(room + len, parts[i].data, parts[i].len);
        len += parts[i].len;
    }
    crypto_sha256_begin(hash);
    crypto_sha256_add(hash, bytes_of(room, len));
    for (; i < n; i++)
        crypto_sha256_add(hash, parts[i]);
    crypto_sha256_end(hash, ret_digest);
}
