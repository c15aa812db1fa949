/* A borrowed run of bytes, and little-endian fixed-width numbers in memory. */
#ifndef HOLDFAST_BASE_BYTES_H
#define HOLDFAST_BASE_BYTES_H

#include "base/macros.h"

#include <string.h>

/* Not owned and not terminated. `data` may be NULL only when `len` is 0. */
struct bytes {
    const uint8_t *data;
    size_t len;
};

#define BYTES(literal) ((struct bytes){(const uint8_t *)("" literal), sizeof(literal) - 1})

static inline struct bytes bytes_of(const void *data, size_t len)
{
    return (struct bytes){data, len};
}

static inline struct bytes bytes_str(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

static inline bool bytes_eq(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Lexicographic order of unsigned bytes; a proper prefix comes first. */
static inline int bytes_cmp(struct bytes a, struct bytes b)
{
    size_t n = MIN(a.len, b.len);
    int order = n != 0 ? memcmp(a.data, b.data, n) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static inline bool bytes_has_prefix(struct bytes b, struct bytes prefix)
{
    return b.len >= prefix.len && (prefix.len == 0 || memcmp(b.data, prefix.data, prefix.len) == 0);
}

/* The number of equal bytes at the front of `a` and `b`. */
size_t bytes_common_len(struct bytes a, struct bytes b);

/* Copy the bytes to `to`, which has room for them. The place behind the copy. */
static inline uint8_t *bytes_put(uint8_t *to, struct bytes b)
{
    if (b.len != 0)
        memcpy(to, b.data, b.len);
    return to + b.len;
}

/* The bytes from index `from` (≤ len) to the end. */
static inline struct bytes bytes_from(struct bytes b, size_t from)
{
    ASSERT(from <= b.len);
    return from == 0 ? b : (struct bytes){b.data + from, b.len - from};
}

/* Compare in constant time: the time depends on the lengths alone. */
bool bytes_eq_secret(struct bytes a, struct bytes b);

/* A hash for tables of this process. Every bit is usable. It does not resist an attacker who
 * chooses keys that collide. bytes_hash_from continues from the hash of earlier bytes. */
uint64_t bytes_hash(struct bytes b);
uint64_t bytes_hash_from(uint64_t seed, struct bytes b);

static inline uint16_t le16_get(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t le32_get(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t le64_get(const uint8_t *p)
{
    return (uint64_t)le32_get(p) | (uint64_t)le32_get(p + 4) << 32;
}

static inline void le16_put(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void le32_put(uint8_t *p, uint32_t v)
{
    le16_put(p, (uint16_t)v);
    le16_put(p + 2, (uint16_t)(v >> 16));
}

static inline void le64_put(uint8_t *p, uint64_t v)
{
    le32_put(p, (uint32_t)v);
    le32_put(p + 4, (uint32_t)(v >> 32));
}

/* Big-endian: numbers inside keys, so that keys sort by value. */
static inline void be64_put(uint8_t *p, uint64_t v)
{
    for (int i = 7; i >= 0; i--, v >>= 8)
        p[i] = (uint8_t)v;
}

static inline uint64_t be64_get(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | p[i];
    return v;
}

#endif
