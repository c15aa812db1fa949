/* Digests by name (FIPS 180-4, FIPS 202), for callers whose users choose the digest. Any thread. */
#ifndef HOLDFAST_CRYPTO_DIGEST_H
#define HOLDFAST_CRYPTO_DIGEST_H

#include "base/bytes.h"
#include "base/status.h"

enum { CRYPTO_DIGEST_MAX = 64 };

/* `name` is "sha2-" or "sha3-" with 224, 256, 384 or 512. ST_NOT_FOUND: another one; ST_CRYPTO. */
NODISCARD enum status crypto_digest(const char *name, struct bytes message,
                                    uint8_t ret_digest[CRYPTO_DIGEST_MAX], size_t *ret_len);

/* HMAC-SHA-512 (RFC 2104, RFC 4231) of one message. ST_CRYPTO. */
enum { CRYPTO_HMAC512_BYTES = 64 };
NODISCARD enum status crypto_hmac512(struct bytes key, struct bytes message,
                                     uint8_t ret_mac[CRYPTO_HMAC512_BYTES]);

/* MD5 (RFC 1321), which clients use as a checksum of what they send. It protects nothing.
 * ST_CRYPTO: this system has none. */
enum { CRYPTO_MD5_BYTES = 16 };
NODISCARD enum status crypto_md5(struct bytes message, uint8_t ret_digest[CRYPTO_MD5_BYTES]);

#endif
