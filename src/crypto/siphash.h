/* SipHash-2-4 with a tag of 128 bits (Aumasson, Bernstein: "SipHash: a fast short-input PRF"): for
 * tables of this process whose keys strangers choose or must not learn. A tag tells nothing about
 * its message, and nobody finds a message for a tag, without the key. What leaves the process takes
 * hmac.h. */
#ifndef HOLDFAST_CRYPTO_SIPHASH_H
#define HOLDFAST_CRYPTO_SIPHASH_H

#include "base/bytes.h"

enum { SIPHASH_KEY_BYTES = 16 };

struct siphash_tag {
    uint64_t words[2];
};

struct siphash_tag siphash(const uint8_t key[SIPHASH_KEY_BYTES], struct bytes message);

/* Without a branch that depends on where they differ. */
static inline bool siphash_tag_eq(struct siphash_tag a, struct siphash_tag b)
{
    return ((a.words[0] ^ b.words[0]) | (a.words[1] ^ b.words[1])) == 0;
}

#endif
