#include "base/bytes.h"

bool bytes_eq_secret(struct bytes a, struct bytes b)
{
    uint8_t differ = 0;
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        differ |= (uint8_t)(a.data[i] ^ b.data[i]);
    return differ == 0;
}

size_t bytes_common_len(struct bytes a, struct bytes b)
{
    size_t n = MIN(a.len, b.len), i = 0;
    while (n - i >= sizeof(uint64_t) && le64_get(a.data + i) == le64_get(b.data + i))
        i += sizeof(uint64_t);
    while (i < n && a.data[i] == b.data[i])
        i++;
    return i;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
    return hash ^ hash >> 32;
}

/* Mix in eight bytes at a time; the last eight bytes may overlap those before. The length is mixed
 * in last: this step also carries changes of the highest bits to the lowest bits. */
uint64_t bytes_hash_from(uint64_t seed, struct bytes b)
{
    uint64_t hash = seed, word = 0;
    if (b.len < sizeof word) {
        for (size_t i = 0; i < b.len; i++)
            word = word << 8 | b.data[i];
        return mix(mix(hash, word), b.len);
    }
    for (size_t i = 0; i < b.len - sizeof word; i += sizeof word)
        hash = mix(hash, le64_get(b.data + i));
    return mix(mix(hash, le64_get(b.data + b.len - sizeof word)), b.len);
}

uint64_t bytes_hash(struct bytes b)
{
    return bytes_hash_from(0, b);
}
