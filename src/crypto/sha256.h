/* SHA-256 (FIPS 180-4) of a message given in parts. */
#ifndef HOLDFAST_CRYPTO_SHA256_H
#define HOLDFAST_CRYPTO_SHA256_H

#include "base/bytes.h"
#include "base/status.h"

enum { CRYPTO_SHA256_BYTES = 32 };

/* Reusable working memory of one thread; makes many short hashes cheap. */
struct crypto_sha256;

/* ST_NOMEM. */
NODISCARD enum status crypto_sha256_new(struct crypto_sha256 **ret_hash);
void crypto_sha256_free(struct crypto_sha256 *hash);

/* Compute the digest of the `n` parts in order. Aborts if the library refuses: the caller could do
 * nothing without SHA-256. */
void crypto_sha256(struct crypto_sha256 *hash, const struct bytes *parts, size_t n,
                   uint8_t ret_digest[CRYPTO_SHA256_BYTES]);

/* Hash a message whose parts come one by one: begin, add, end. Between begin and end the struct
 * must not hash anything else. */
void crypto_sha256_begin(struct crypto_sha256 *hash);
void crypto_sha256_add(struct crypto_sha256 *hash, struct bytes part);
void crypto_sha256_end(struct crypto_sha256 *hash, uint8_t ret_digest[CRYPTO_SHA256_BYTES]);

#endif
