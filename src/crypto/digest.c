#include "crypto/digest.h"

#include <assert.h>
#include <limits.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

enum status crypto_digest(const char *name, struct bytes message,
                          uint8_t ret_digest[CRYPTO_DIGEST_MAX], size_t *ret_len)
{
    static const struct {
        const char *name;
        const EVP_MD *(*md)(void);
    } known[] = {
        {"sha2-224", EVP_sha224},   {"sha2-256", EVP_sha256},   {"sha2-384", EVP_sha384},
        {"sha2-512", EVP_sha512},   {"sha3-224", EVP_sha3_224}, {"sha3-256", EVP_sha3_256},
        {"sha3-384", EVP_sha3_384}, {"sha3-512", EVP_sha3_512},
    };
    static_assert((int)CRYPTO_DIGEST_MAX >= (int)EVP_MAX_MD_SIZE, "every digest fits");
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        unsigned len = 0;
        if (strcmp(name, known[i].name) != 0)
            continue;
        if (EVP_Digest(message.data, message.len, ret_digest, &len, known[i].md(), NULL) != 1)
            return ST_CRYPTO;
        ASSERT(len > 0 && len <= CRYPTO_DIGEST_MAX);
        *ret_len = len;
        return ST_OK;
    }
    return ST_NOT_FOUND;
}

enum status crypto_hmac512(struct bytes key, struct bytes message,
                           uint8_t ret_mac[CRYPTO_HMAC512_BYTES])
{
    unsigned len = 0;
    ASSERT(key.len <= INT_MAX);
    const void *mac = HMAC(EVP_sha512(), key.len != 0 ? (const void *)key.data : "", (int)key.len,
                           message.data, message.len, ret_mac, &len);
    return mac != NULL && len == CRYPTO_HMAC512_BYTES ? ST_OK : ST_CRYPTO;
}

enum status crypto_md5(struct bytes message, uint8_t ret_digest[CRYPTO_MD5_BYTES])
{
    size_t len = 0;
    int done =
        EVP_Q_digest(NULL, "MD5", "-fips", message.len != 0 ? (const void *)message.data : "",
                     message.len, ret_digest, &len);
    return done == 1 && len == CRYPTO_MD5_BYTES ? ST_OK : ST_CRYPTO;
}
