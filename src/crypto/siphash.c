#include "crypto/siphash.h"

enum { WORD = 8, ROUNDS_PER_WORD = 2, ROUNDS_AT_END = 4 };

static uint64_t rotated(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static inline void rounds(uint64_t v[4], unsigned n)
{
    for (; n > 0; n--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotated(v[1], 13) ^ v[0];
        v[3] = rotated(v[3], 16) ^ v[2];
        v[0] = rotated(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotated(v[1], 17) ^ v[2];
        v[3] = rotated(v[3], 21) ^ v[0];
        v[2] = rotated(v[2], 32);
    }
}

static inline void add_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    rounds(v, ROUNDS_PER_WORD);
    v[0] ^= word;
}

/* The last word of the message: the bytes after the last whole word, and in the highest byte the
 * length of the message. */
static uint64_t last_word(struct bytes message)
{
    uint64_t word = (uint64_t)message.len << 56;
    size_t from = message.len / WORD * WORD;
    for (size_t i = from; i < message.len; i++)
        word |= (uint64_t)message.data[i] << (8 * (i - from));
    return word;
}

struct siphash_tag siphash(const uint8_t key[SIPHASH_KEY_BYTES], struct bytes message)
{
    uint64_t k0 = le64_get(key), k1 = le64_get(key + WORD);
    uint64_t v[4] = {
        k0 ^ UINT64_C(0x736f6d6570736575),
        k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee, /* 0xee selects a tag of 128 bits */
        k0 ^ UINT64_C(0x6c7967656e657261),
        k1 ^ UINT64_C(0x7465646279746573),
    };
    struct siphash_tag tag;

    for (size_t at = 0; message.len - at >= WORD; at += WORD)
        add_word(v, le64_get(message.data + at));
    add_word(v, last_word(message));
    v[2] ^= 0xee;
    rounds(v, ROUNDS_AT_END);
    tag.words[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    rounds(v, ROUNDS_AT_END);
    tag.words[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
    return tag;
}
