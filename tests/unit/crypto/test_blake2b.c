#include "support.h"

#include "crypto/blake2b.h"

static void assert_digest(const struct bytes *parts, size_t n, const uint8_t wanted[32])
{
    uint8_t digest[CRYPTO_BLAKE2B256_BYTES];
    crypto_blake2b256(parts, n, digest);
    assert_memory_equal(digest, wanted, sizeof digest);
}

/* Computed by Python's hashlib, which has an implementation of its own. */
static const uint8_t of_nothing[32] = {
    0x0e, 0x57, 0x51, 0xc0, 0x26, 0xe5, 0x43, 0xb2, 0xe8, 0xab, 0x2e, 0xb0, 0x60, 0x99, 0xda, 0xa1,
    0xd1, 0xe5, 0xdf, 0x47, 0x77, 0x8f, 0x77, 0x87, 0xfa, 0xab, 0x45, 0xcd, 0xf1, 0x2f, 0xe3, 0xa8};
static const uint8_t of_abc[32] = {0xbd, 0xdd, 0x81, 0x3c, 0x63, 0x42, 0x39, 0x72, 0x31, 0x71, 0xef,
                                   0x3f, 0xee, 0x98, 0x57, 0x9b, 0x94, 0x96, 0x4e, 0x3b, 0xb1, 0xcb,
                                   0x3e, 0x42, 0x72, 0x62, 0xc8, 0xc0, 0x68, 0xd5, 0x23, 0x19};

static void the_digest_is_as_published(void **ctx)
{
    struct bytes abc = BYTES("abc");
    (void)ctx;
    assert_digest(NULL, 0, of_nothing);
    assert_digest(&abc, 1, of_abc);
}

static void parts_are_hashed_as_one_message(void **ctx)
{
    struct bytes parts[] = {{NULL, 0}, BYTES("a"), BYTES(""), BYTES("bc")};
    (void)ctx;
    assert_digest(parts, ARRAY_LEN(parts), of_abc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_digest_is_as_published),
        cmocka_unit_test(parts_are_hashed_as_one_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
