/* Shamir's secret sharing over GF(2^8) with the field of AES, in the form of upstream's tools. Each
 * byte of the secret is the constant term of its own random polynomial. A share is the values of
 * all polynomials at one point, followed by that point, which is not 0.
 *
 * Arithmetic takes constant time for all secrets and shares. Any thread. */
#ifndef HOLDFAST_BARRIER_SHAMIR_H
#define HOLDFAST_BARRIER_SHAMIR_H

#include "base/bytes.h"
#include "base/env.h"
#include "base/status.h"

enum { SHAMIR_SHARES_MAX = 255, SHAMIR_BYTES_MAX = 64 };

/* Split a secret of 1..SHAMIR_BYTES_MAX bytes into `n` shares, of which any `threshold` suffice:
 * 2 <= threshold <= n <= SHAMIR_SHARES_MAX. `ret_shares` gets n shares of secret.len + 1 bytes, one
 * after the other. Randomness comes from `env`. */
void shamir_split(struct env *env, struct bytes secret, unsigned n, unsigned threshold,
                  uint8_t *ret_shares);

/* Combine `n` shares, 2..SHAMIR_SHARES_MAX, of `share_bytes` bytes each, into a secret that is one
 * byte shorter than a share. Too few shares, or shares of different secrets, give meaningless
 * bytes. ST_INVALID: a point is 0 or repeated. */
NODISCARD enum status shamir_combine(const uint8_t *shares, unsigned n, size_t share_bytes,
                                     uint8_t *ret_secret);

#endif
