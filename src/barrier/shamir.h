/* Shamir's secret sharing over GF(2^8) with the field of AES, as upstream's tools read it: each
 * byte of the secret is the constant term of a random polynomial of its own; a share is the values
 * of all of them at one point, followed by that point, which is not 0.
 *
 * Arithmetic takes the same time whatever the secret and the shares are. Any thread. */
#ifndef HOLDFAST_BARRIER_SHAMIR_H
#define HOLDFAST_BARRIER_SHAMIR_H

#include "base/bytes.h"
#include "base/env.h"
#include "base/status.h"

enum { SHAMIR_SHARES_MAX = 255, SHAMIR_BYTES_MAX = 64 };

/* `n` shares of secret.len + 1 bytes each, one behind the other, of which any `threshold` suffice:
 * 2 <= threshold <= n <= SHAMIR_SHARES_MAX, 1..SHAMIR_BYTES_MAX bytes. Randomness from `env`. */
void shamir_split(struct env *env, struct bytes secret, unsigned n, unsigned threshold,
                  uint8_t *ret_shares);

/* From `n` shares of `share_bytes` each, 2..SHAMIR_SHARES_MAX of them, share_bytes - 1 bytes. Too
 * few shares, or shares of different secrets, give bytes without meaning. ST_INVALID: a point is 0
 * or there twice. */
NODISCARD enum status shamir_combine(const uint8_t *shares, unsigned n, size_t share_bytes,
                                     uint8_t *ret_secret);

#endif
