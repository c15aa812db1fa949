#include "support.h"

#include "base/crc32c.h"

enum { LEN_MAX = 64, ALIGNMENTS = 8 };

typedef uint32_t crc_function(uint32_t crc, struct bytes b);

static crc_function *const functions[] = {crc32c, crc32c_portable};

/* The definition: a division bit by bit by the reflected polynomial (RFC 3720 B.4). */
static uint32_t crc_by_definition(struct bytes b)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < b.len; i++) {
        crc ^= b.data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    }
    return ~crc;
}

static struct bytes sample(uint8_t *bytes, size_t len)
{
    uint32_t state = 1;
    for (size_t i = 0; i < len; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(state >> 24);
    }
    return bytes_of(bytes, len);
}

static void a_crc32c_is_the_published_one(void **ctx)
{
    (void)ctx;
    uint8_t zeros[32] = {0};
    for (size_t f = 0; f < ARRAY_LEN(functions); f++) {
        assert_int_equal(functions[f](0, BYTES("123456789")), 0xE3069283u);
        assert_int_equal(functions[f](0, bytes_of(zeros, sizeof zeros)), 0x8A9136AAu);
        assert_int_equal(functions[f](0, BYTES("")), 0);
    }
}

static void a_crc32c_is_the_same_at_every_length_and_alignment(void **ctx)
{
    (void)ctx;
    uint8_t bytes[ALIGNMENTS + LEN_MAX];
    struct bytes all = sample(bytes, sizeof bytes);
    for (size_t f = 0; f < ARRAY_LEN(functions); f++)
        for (size_t at = 0; at < ALIGNMENTS; at++)
            for (size_t len = 0; len <= LEN_MAX; len++) {
                struct bytes b = bytes_of(all.data + at, len);
                assert_int_equal(functions[f](0, b), crc_by_definition(b));
            }
}

static void a_crc32c_goes_on_from_every_split(void **ctx)
{
    (void)ctx;
    uint8_t bytes[LEN_MAX];
    struct bytes all = sample(bytes, sizeof bytes);
    for (size_t f = 0; f < ARRAY_LEN(functions); f++)
        for (size_t at = 0; at <= LEN_MAX; at++) {
            uint32_t begun = functions[f](0, bytes_of(bytes, at));
            assert_int_equal(functions[f](begun, bytes_from(all, at)), crc_by_definition(all));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crc32c_is_the_published_one),
        cmocka_unit_test(a_crc32c_is_the_same_at_every_length_and_alignment),
        cmocka_unit_test(a_crc32c_goes_on_from_every_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
