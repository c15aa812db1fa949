#include "state/fake_env.h"
#include "support.h"
#include "text/random.h"

#include <ctype.h>

static struct fake_env env;

static void random_text_uses_every_digit_equally(void **ctx)
{
    (void)ctx;
    enum { N = 62000 };
    static char text[N + 1];
    unsigned seen[256] = {0};
    text_random(&env.env, text, N);
    assert_int_equal(strlen(text), N);
    for (size_t i = 0; i < N; i++)
        seen[(uint8_t)text[i]]++;
    unsigned kinds = 0;
    for (size_t i = 0; i < 256; i++) {
        kinds += seen[i] != 0;
        assert_true(seen[i] == 0 || (seen[i] > 800 && seen[i] < 1200));
    }
    assert_int_equal(kinds, 62);
}

static void a_uuid_is_of_version_4(void **ctx)
{
    (void)ctx;
    char first[TEXT_UUID_LEN + 1], second[TEXT_UUID_LEN + 1];
    text_uuid(&env.env, first);
    text_uuid(&env.env, second);
    assert_string_not_equal(first, second);
    assert_int_equal(strlen(first), 36);
    assert_int_equal(first[14], '4');
    assert_non_null(strchr("89ab", first[19]));
    assert_int_equal(strspn(first, "0123456789abcdef-"), 36);
    assert_true(first[8] == '-' && first[13] == '-' && first[18] == '-' && first[23] == '-');
}

static void a_uuid_is_read_in_either_case(void **ctx)
{
    (void)ctx;
    static const char *const refused[] = {
        "",
        "0123abcd-0123-4567-89ab-0123456789a",
        "0123abcd-0123-4567-89ab-0123456789abc",
        "0123abcd-0123-4567-89ab-0123456789ag",
        "0123abcd_0123-4567-89ab-0123456789ab",
        "0123abcd-0123-4567-89ab0-123456789ab",
        "0123abcd-0123-4567-89ab-0123456789a`",
        "{123abcd-0123-4567-89ab-0123456789a}",
    };
    char uuid[TEXT_UUID_LEN + 1] = "unchanged";
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        assert_status(text_uuid_parse(bytes_str(refused[i]), uuid), ST_INVALID);
    assert_string_equal(uuid, "unchanged");
    assert_status(text_uuid_parse(BYTES("0123ABCD-0123-4567-89aB-0123456789Ef"), uuid), ST_OK);
    assert_string_equal(uuid, "0123abcd-0123-4567-89ab-0123456789ef");
}

static void each_byte_of_a_uuid_is_checked_and_read_in_lower_case(void **ctx)
{
    (void)ctx;
    for (size_t at = 0; at < TEXT_UUID_LEN; at++)
        for (unsigned c = 0; c < 256; c++) {
            char given[] = "0123abcd-0123-4567-89ab-0123456789ab", uuid[TEXT_UUID_LEN + 1];
            bool fits = given[at] == '-' ? c == '-' : isxdigit((int)c) != 0;
            given[at] = (char)c;
            assert_status(text_uuid_parse(bytes_of(given, TEXT_UUID_LEN), uuid),
                          fits ? ST_OK : ST_INVALID);
            given[at] = (char)tolower((int)c);
            if (fits)
                assert_string_equal(uuid, given);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_text_uses_every_digit_equally),
        cmocka_unit_test(a_uuid_is_of_version_4),
        cmocka_unit_test(a_uuid_is_read_in_either_case),
        cmocka_unit_test(each_byte_of_a_uuid_is_checked_and_read_in_lower_case),
    };
    fake_env_init(&env, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
