#include "support.h"

#include "base/mem.h"
#include "crypto/sha256.h"

static void assert_digest(const struct bytes *parts, size_t n, const uint8_t wanted[32])
{
    struct crypto_sha256 *hash;
    uint8_t digest[CRYPTO_SHA256_BYTES];
    assert_status(crypto_sha256_new(&hash), ST_OK);
    for (unsigned round = 0; round < 2; round++) { /* the memory may be used again */
        crypto_sha256(hash, parts, n, digest);
        assert_memory_equal(digest, wanted, sizeof digest);
    }
    crypto_sha256_free(hash);
}

/* FIPS 180-4, examples of NIST's CSRC. */
static const uint8_t of_nothing[32] = {
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55};
static const uint8_t of_abc[32] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                   0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                   0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};

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

static void a_failed_allocation_makes_no_hash(void **ctx)
{
    struct crypto_sha256 *hash = NULL;
    (void)ctx;
    (void)mem_fail_nth(1); /* arms */
    assert_status(crypto_sha256_new(&hash), ST_NOMEM);
    (void)mem_fail_nth(0);
    assert_null(hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_digest_is_as_published),
        cmocka_unit_test(parts_are_hashed_as_one_message),
        cmocka_unit_test(a_failed_allocation_makes_no_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
