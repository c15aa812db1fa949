/* BLAKE2b with a digest of 256 bits (RFC 7693), of a message given in parts. libb2 computes it:
 * OpenSSL 3.0 has BLAKE2b only with 512 bits. Any thread. */
#ifndef HOLDFAST_CRYPTO_BLAKE2B_H
#define HOLDFAST_CRYPTO_BLAKE2B_H

#include "base/bytes.h"

enum { CRYPTO_BLAKE2B256_BYTES = 32 };

/* The digest of the `n` parts in order. Aborts if the library refuses: it refuses wrong lengths
 * alone. */
void crypto_blake2b256(const struct bytes *parts, size_t n,
                       uint8_t ret_digest[CRYPTO_BLAKE2B256_BYTES]);

#endif
