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

uint64_t bytes_hash(struct bytes b)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < b.len; i++)
        h = (h ^ b.data[i]) * 0x100000001B3u;
    return h;
}
