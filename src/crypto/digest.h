/* Digests by name (FIPS 180-4, FIPS 202), for callers whose users choose the digest. Any thread. */
#ifndef HOLDFAST_CRYPTO_DIGEST_H
#define HOLDFAST_CRYPTO_DIGEST_H

#include "base/bytes.h"
#include "base/status.h"

enum { CRYPTO_DIGEST_MAX = 64 };

/* `name` is "sha2-" or "sha3-" with 224, 256, 384 or 512. ST_NOT_FOUND: another one; ST_CRYPTO. */
NODISCARD enum status crypto_digest(const char *name, struct bytes message,
                                    uint8_t ret_digest[CRYPTO_DIGEST_MAX], size_t *ret_len);

#endif
