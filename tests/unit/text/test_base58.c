/* Base58: known answers, and what is refused. */
#include "support.h"

#include "text/base58.h"
#include "text/encode.h"

static const struct {
    const char *hex, *text;
} rows[] = {
    {"", ""},
    {"00", "1"},
    {"0000", "11"},
    {"61", "2g"},
    {"626262", "a3gV"},
    {"636363", "aPEr"},
    {"73696d706c792061206c6f6e6720737472696e67", "2cFupjhnEsSn59qHXstmK2ffpLv2"},
    {"00eb15231dfceb60925886b67d065299925915aeb172c06647", "1NS17iag9jJgTHD1VXjvLCEnZuQ3rJDE9L"},
    {"516b6fcd0f", "ABnLTmg"},
    {"10c8511e", "Rt5zm"},
    {"00000000000000000000", "1111111111"},
};

static void known_answers_go_both_ways(void **ctx)
{
    uint8_t data[TEXT_BASE58_BYTES_MAX], back[TEXT_BASE58_BYTES_MAX];
    char text[TEXT_BASE58_LEN_MAX + 1];
    size_t len;
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t n = strlen(rows[i].hex) / 2;
        assert_status(text_hex_parse(bytes_str(rows[i].hex), data), ST_OK);
        assert_int_equal(text_base58_put(bytes_of(data, n), text), strlen(rows[i].text));
        assert_string_equal(text, rows[i].text);
        assert_status(text_base58_parse(bytes_str(text), back, &len), ST_OK);
        assert_int_equal(len, n);
        assert_memory_equal(back, data, n);
    }
}

static void the_longest_data_fits_and_longer_data_do_not(void **ctx)
{
    uint8_t data[TEXT_BASE58_BYTES_MAX], back[TEXT_BASE58_BYTES_MAX];
    char text[TEXT_BASE58_LEN_MAX + 2];
    size_t len;
    (void)ctx;
    memset(data, 0xff, sizeof data);
    len = text_base58_put(bytes_of(data, sizeof data), text);
    assert_true(len <= TEXT_BASE58_LEN_MAX);
    assert_status(text_base58_parse(bytes_of(text, len), back, &len), ST_OK);
    assert_int_equal(len, sizeof data);
    assert_memory_equal(back, data, sizeof data);
    memset(text, '1', sizeof text);
    assert_status(text_base58_parse(bytes_of(text, sizeof data), back, &len), ST_OK);
    assert_status(text_base58_parse(bytes_of(text, sizeof data + 1), back, &len), ST_INVALID);
    memset(text, 'z', sizeof text);
    assert_status(text_base58_parse(bytes_of(text, TEXT_BASE58_LEN_MAX), back, &len), ST_INVALID);
    assert_status(text_base58_parse(bytes_of(text, sizeof text), back, &len), ST_INVALID);
}

static void other_characters_are_refused(void **ctx)
{
    uint8_t back[TEXT_BASE58_BYTES_MAX];
    size_t len;
    (void)ctx;
    for (unsigned c = 0; c < 256; c++) {
        const uint8_t text[] = {'2', (uint8_t)c};
        bool digit = (c >= '1' && c <= '9') || (c >= 'A' && c <= 'Z' && c != 'I' && c != 'O') ||
                     (c >= 'a' && c <= 'z' && c != 'l');
        assert_status(text_base58_parse(bytes_of(text, sizeof text), back, &len),
                      digit ? ST_OK : ST_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers_go_both_ways),
        cmocka_unit_test(the_longest_data_fits_and_longer_data_do_not),
        cmocka_unit_test(other_characters_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
