#include "crypto/sha1.h"

#include <openssl/evp.h>

enum status crypto_sha1(struct bytes message, uint8_t ret_digest[CRYPTO_SHA1_BYTES])
{
    size_t len = 0;
    int ok = EVP_Q_digest(NULL, "SHA1", NULL, message.data, message.len, ret_digest, &len);
    return ok == 1 && len == CRYPTO_SHA1_BYTES ? ST_OK : ST_CRYPTO;
}
