#include "base/crc32c.h"

#include <pthread.h>

/* crc_fast and crc_sliced take and return the remainder as the CRC instructions do: not inverted.
 */

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

static bool is_fast(void)
{
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

/* The builtins behind __crc32cd and __crc32cb of arm_acle.h. clang offers that header only if the
 * whole file is compiled for processors with CRC instructions. */
#if defined(__clang__)
#define CRC_TARGET "crc"
#define CRC_64 __builtin_arm_crc32cd
#define CRC_8 __builtin_arm_crc32cb
#else
#define CRC_TARGET "+crc"
#define CRC_64 __builtin_aarch64_crc32cx
#define CRC_8 __builtin_aarch64_crc32cb
#endif

__attribute__((target(CRC_TARGET))) static uint32_t crc_fast(uint32_t crc, struct bytes b)
{
    size_t i = 0;
    for (; i + 8 <= b.len; i += 8)
        crc = CRC_64(crc, le64_get(b.data + i));
    for (; i < b.len; i++)
        crc = CRC_8(crc, b.data[i]);
    return crc;
}

static bool is_fast(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
#else
static uint32_t crc_fast(uint32_t crc, struct bytes b)
{
    (void)b;
    return crc;
}

static bool is_fast(void)
{
    return false;
}
#endif

/* slices[k][v] is the remainder of byte v followed by k zero bytes. One look-up for each of eight
 * bytes gives the remainder of all eight ("slicing by 8": Kounavis, Berry, 2005). */
enum { SLICES = 8 };
static uint32_t slices[SLICES][256];
static pthread_once_t slices_once = PTHREAD_ONCE_INIT;

static void slices_fill(void)
{
    for (uint32_t v = 0; v < 256; v++) {
        uint32_t crc = v;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82F63B78u & (0u - (crc & 1)));
        slices[0][v] = crc;
    }
    for (unsigned k = 1; k < SLICES; k++)
        for (unsigned v = 0; v < 256; v++)
            slices[k][v] = slices[k - 1][v] >> 8 ^ slices[0][slices[k - 1][v] & 0xFF];
}

static uint32_t crc_sliced(uint32_t crc, struct bytes b)
{
    size_t i = 0;
    (void)pthread_once(&slices_once, slices_fill); /* cannot fail with these arguments */
    ASSERT(slices[0][128] == 0x82F63B78u);         /* this entry is the polynomial */
    for (; i + SLICES <= b.len; i += SLICES) {
        uint64_t eight = le64_get(b.data + i) ^ crc;
        crc = slices[7][eight & 0xFF] ^ slices[6][eight >> 8 & 0xFF] ^
              slices[5][eight >> 16 & 0xFF] ^ slices[4][eight >> 24 & 0xFF] ^
              slices[3][eight >> 32 & 0xFF] ^ slices[2][eight >> 40 & 0xFF] ^
              slices[1][eight >> 48 & 0xFF] ^ slices[0][eight >> 56];
    }
    for (; i < b.len; i++)
        crc = crc >> 8 ^ slices[0][(crc ^ b.data[i]) & 0xFF];
    return crc;
}

uint32_t crc32c_portable(uint32_t crc, struct bytes b)
{
    return ~crc_sliced(~crc, b);
}

uint32_t crc32c(uint32_t crc, struct bytes b)
{
    return is_fast() ? ~crc_fast(~crc, b) : crc32c_portable(crc, b);
}
