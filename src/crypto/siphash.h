/* SipHash-2-4 with a tag of 128 bits (Aumasson, Bernstein: "SipHash: a fast short-input PRF"): for
 * tables of this process whose keys clients choose or must not learn. Without the key, a tag tells
 * nothing about its message, and no message for a given tag can be found. Tags that leave the
 * process are made by hmac.h instead. */
#ifndef HOLDFAST_CRYPTO_SIPHASH_H
#define HOLDFAST_CRYPTO_SIPHASH_H

#include "base/bytes.h"

enum { SIPHASH_KEY_BYTES = 16 };

struct siphash_tag {
    uint64_t words[2];
};

/* Compute the tag of a message of any length. */
struct siphash_tag siphash(const uint8_t key[SIPHASH_KEY_BYTES], struct bytes message);

/* Compare without a branch that depends on where the tags differ. */
static inline bool siphash_tag_eq(struct siphash_tag a, struct siphash_tag b)
{
    return ((a.words[0] ^ b.words[0]) | (a.words[1] ^ b.words[1])) == 0;
}

#endif
