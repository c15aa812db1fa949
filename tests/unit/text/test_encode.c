#include "support.h"
#include "text/encode.h"

#include <stdio.h>
#include <string.h>

static void hex_goes_there_and_back(void **state)
{
    (void)state;
    static const uint8_t data[] = {0x00, 0x7F, 0x80, 0xFF, 0x1A};
    char text[TEXT_HEX_LEN(sizeof data) + 1];
    uint8_t back[sizeof data];
    text_hex_put(bytes_of(data, sizeof data), text);
    assert_string_equal(text, "007f80ff1a");
    assert_int_equal(text_hex_parse(BYTES("007F80ff1A"), back), ST_OK);
    assert_memory_equal(back, data, sizeof data);
}

static void every_byte_has_its_hex_at_every_length(void **state)
{
    (void)state;
    uint8_t data[256];
    char text[TEXT_HEX_LEN(sizeof data) + 1], wanted[TEXT_HEX_LEN(sizeof data) + 1];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)i;
        assert_int_equal(snprintf(wanted + 2 * i, 3, "%02zx", i), 2);
    }
    for (size_t from = 0; from < sizeof data; from++)
        for (size_t n = 0; n <= MIN(sizeof data - from, (size_t)40); n++) {
            text_hex_put(bytes_of(data + from, n), text);
            assert_int_equal(strlen(text), 2 * n);
            assert_memory_equal(text, wanted + 2 * from, 2 * n);
        }
}

static void hex_of_other_characters_or_odd_length_is_refused(void **state)
{
    (void)state;
    uint8_t out[4];
    assert_int_equal(text_hex_parse(BYTES("abc"), out), ST_INVALID);
    assert_int_equal(text_hex_parse(BYTES("0g"), out), ST_INVALID);
    assert_int_equal(text_hex_parse(BYTES("g0"), out), ST_INVALID);
    assert_int_equal(text_hex_parse(BYTES(""), out), ST_OK);
}

/* RFC 4648, section 10. */
static void base64_gives_the_texts_of_the_standard(void **state)
{
    (void)state;
    static const char *const texts[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                        "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t n = 0; n < 7; n++) {
        char text[TEXT_BASE64_LEN(6) + 1], raw[TEXT_BASE64_LEN(6) + 1];
        uint8_t back[TEXT_BASE64_BYTES(8)];
        size_t len = 99;
        assert_int_equal(text_base64_put(bytes_of("foobar", n), TEXT_BASE64, text),
                         strlen(texts[n]));
        assert_string_equal(text, texts[n]);
        assert_int_equal(text_base64_parse(bytes_str(text), back, &len), ST_OK);
        assert_int_equal(len, n);
        assert_memory_equal(back, "foobar", n);
        (void)text_base64_put(bytes_of("foobar", n), TEXT_BASE64_RAW, raw);
        assert_int_equal(strlen(raw), strcspn(texts[n], "="));
        assert_int_equal(text_base64_parse(bytes_str(raw), back, &len), ST_OK);
        assert_int_equal(len, n);
    }
}

static void base64_for_urls_uses_other_characters(void **state)
{
    (void)state;
    static const uint8_t data[] = {0xFB, 0xFF, 0xFE};
    char text[TEXT_BASE64_LEN(3) + 1];
    uint8_t back[TEXT_BASE64_BYTES(4)];
    size_t len;
    (void)text_base64_put(bytes_of(data, 3), TEXT_BASE64_URL, text);
    assert_string_equal(text, "-__-");
    assert_int_equal(text_base64_parse(bytes_str(text), back, &len), ST_OK);
    assert_memory_equal(back, data, 3);
    (void)text_base64_put(bytes_of(data, 3), TEXT_BASE64, text);
    assert_string_equal(text, "+//+");
}

static void base64_that_means_no_bytes_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"Z",    "Zg=",   "Zg===", "Zh==",  "Zm9=", "=",
                                      "====", "Zm 9v", "Zm9v=", "Zm9vY", "Z===", "Zg==Zg=="};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        uint8_t out[32];
        size_t len;
        if (text_base64_parse(bytes_str(bad[i]), out, &len) != ST_INVALID)
            fail_msg("%s was accepted", bad[i]);
    }
}

static void base64_of_a_token_has_one_spelling(void **state)
{
    (void)state;
    static const char *const bad[] = {"+__-", "-/_-", "Zg==", "Zm8=", "Zh", "Zm9", "Z", "Zm9v="};
    uint8_t out[32];
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (text_base64_url_parse(bytes_str(bad[i]), out, &len) != ST_INVALID)
            fail_msg("%s was accepted", bad[i]);
    assert_int_equal(text_base64_url_parse(BYTES("-__-Zg"), out, &len), ST_OK);
    assert_int_equal(len, 4);
    assert_memory_equal(out, "\xFB\xFF\xFE\x66", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hex_goes_there_and_back),
        cmocka_unit_test(every_byte_has_its_hex_at_every_length),
        cmocka_unit_test(hex_of_other_characters_or_odd_length_is_refused),
        cmocka_unit_test(base64_gives_the_texts_of_the_standard),
        cmocka_unit_test(base64_for_urls_uses_other_characters),
        cmocka_unit_test(base64_that_means_no_bytes_is_refused),
        cmocka_unit_test(base64_of_a_token_has_one_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
