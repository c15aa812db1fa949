/* HKDF with SHA-256: the first block of the answers of RFC 5869, appendix A. */
#include "support.h"

#include "crypto/crypto.h"
#include "crypto/hkdf.h"
#include "text/encode.h"

static const struct {
    const char *salt, *secret, *info, *key;
} rows[] = {
    /* test case 1 */
    {"000102030405060708090a0b0c", "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
     "f0f1f2f3f4f5f6f7f8f9", "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"},
    /* test case 2 */
    {"606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d"
     "8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
     "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d"
     "2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f",
     "b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdd"
     "dedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
     "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"},
};

static struct bytes hex(const char *text, uint8_t *out)
{
    assert_status(text_hex_parse(bytes_str(text), out), ST_OK);
    return bytes_of(out, strlen(text) / 2);
}

static void keys_are_those_of_rfc_5869(void **ctx)
{
    uint8_t salt[128], secret[128], info[HKDF_INFO_MAX], want[HKDF_BYTES], got[HKDF_BYTES];
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_status(hkdf_derive(hex(rows[i].salt, salt), hex(rows[i].secret, secret),
                                  hex(rows[i].info, info), got),
                      ST_OK);
        (void)hex(rows[i].key, want);
        assert_memory_equal(got, want, sizeof want);
    }
}

int main(void)
{
    bool locked;
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_are_those_of_rfc_5869)};
    return crypto_init(&locked) == ST_OK ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
