#include "base/crc32c.h"

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc_fast(uint32_t crc, struct bytes b)
{
    uint64_t wide = crc;
    size_t i = 0;
    for (; i + 8 <= b.len; i += 8)
        wide = _mm_crc32_u64(wide, le64_get(b.data + i));
    crc = (uint32_t)wide;
    for (; i < b.len; i++)
        crc = _mm_crc32_u8(crc, b.data[i]);
    return crc;
}
#endif

static uint32_t crc_plain(uint32_t crc, struct bytes b)
{
    for (size_t i = 0; i < b.len; i++) {
        crc ^= b.data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82F63B78u & (0u - (crc & 1)));
    }
    return crc;
}

uint32_t crc32c(uint32_t crc, struct bytes b)
{
    crc = ~crc;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_fast(crc, b);
#endif
    return ~crc_plain(crc, b);
}
