/* HMAC-SHA-512 and MD5 by the vectors of their standards. */
#include "support.h"

#include "crypto/digest.h"
#include "text/encode.h"

static void hmac512_gives_the_result_of_rfc_4231(void **ctx)
{
    uint8_t mac[CRYPTO_HMAC512_BYTES];
    char hex[2 * sizeof mac + 1];
    (void)ctx;
    assert_status(crypto_hmac512(BYTES("Jefe"), BYTES("what do ya want for nothing?"), mac), ST_OK);
    text_hex_put(bytes_of(mac, sizeof mac), hex);
    assert_string_equal(hex, "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
                             "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737");
    assert_status(crypto_hmac512((struct bytes){0}, (struct bytes){0}, mac), ST_OK);
    text_hex_put(bytes_of(mac, 8), hex);
    assert_string_equal(hex, "b936cee86c9f87aa");
}

static void md5_gives_the_results_of_rfc_1321(void **ctx)
{
    uint8_t digest[CRYPTO_MD5_BYTES];
    char hex[2 * sizeof digest + 1];
    (void)ctx;
    assert_status(crypto_md5(BYTES("message digest"), digest), ST_OK);
    text_hex_put(bytes_of(digest, sizeof digest), hex);
    assert_string_equal(hex, "f96b697d7cb7938d525a2f31aaf161d0");
    assert_status(crypto_md5((struct bytes){0}, digest), ST_OK);
    text_hex_put(bytes_of(digest, sizeof digest), hex);
    assert_string_equal(hex, "d41d8cd98f00b204e9800998ecf8427e");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hmac512_gives_the_result_of_rfc_4231),
        cmocka_unit_test(md5_gives_the_results_of_rfc_1321),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
