#include "support.h"

#include "base/mem.h"
#include "text/json.h"
#include "text/time.h"

#include <jansson.h>
#include <stdlib.h>

static struct arena arena;
static struct reason why;

static int fresh(void **ctx)
{
    (void)ctx;
    why.text[0] = '\0';
    return 0;
}

static int wipe(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

static const struct text_value *parsed(const char *text)
{
    const struct text_value *v = NULL;
    if (text_json_parse(&arena, bytes_str(text), &v, &why) != ST_OK)
        fail_msg("%s: %s", text, why.text);
    return v;
}

static const char *rewritten(const struct text_value *v)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out};
    text_put_value(&w, v);
    assert_status(buf_status(&out), ST_OK);
    return arena_str(&arena, buf_bytes(&out));
}

static void refused(const char *text, const char *part)
{
    const struct text_value *v = NULL;
    assert_status(text_json_parse(&arena, bytes_str(text), &v, &why), ST_INVALID);
    assert_null(v);
    if (strstr(why.text, part) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", text, why.text, part);
}

static void what_is_read_is_written_again(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "[]",
        "{}",
        "\"\"",
        "[1,[2,[3]],{}]",
        "{\"b\":1,\"a\":{\"c\":[true,null]}}",
        ("\"\\u0000\\u001f\\\"\\\\\\n\\r\\t\\u2028\\u003c\\u003e\\u0026 k\xc3\xa4se "
         "\xf0\x9f\x94\x92\""),
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_string_equal(rewritten(parsed(texts[i])), texts[i]);
}

static void numbers_keep_every_digit(void **ctx)
{
    (void)ctx;
    static const char *const numbers[] = {
        "9007199254740993",
        "18446744073709551616",
        "-9223372036854775809",
        "0.10",
        "1E+400",
        "1e-7",
    };
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        assert_string_equal(rewritten(parsed(numbers[i])), numbers[i]);
}

static void whole_numbers_convert_exactly_or_not_at_all(void **ctx)
{
    (void)ctx;
    int64_t n = 7;
    assert_status(text_to_int(parsed("9223372036854775807"), &n), ST_OK);
    assert_true(n == INT64_MAX);
    assert_status(text_to_int(parsed("-9223372036854775808"), &n), ST_OK);
    assert_true(n == INT64_MIN);
    n = 7;
    assert_status(text_to_int(parsed("9223372036854775808"), &n), ST_INVALID);
    assert_status(text_to_int(parsed("-9223372036854775809"), &n), ST_INVALID);
    assert_status(text_to_int(parsed("1.0"), &n), ST_INVALID);
    assert_status(text_to_int(parsed("\"1\""), &n), ST_INVALID);
    assert_true(n == 7);
}

static void strings_may_hold_a_zero_character(void **ctx)
{
    (void)ctx;
    const struct text_value *v = text_get(parsed("{\"a\":\"x\\u0000y\"}"), "a");
    assert_bytes(v->text, BYTES("x\0y"));
}

static void escapes_become_utf8(void **ctx)
{
    (void)ctx;
    assert_bytes(parsed("\"\\u00e4\\uD83D\\uDD12\\/\\b\\f\"")->text,
                 BYTES("\xc3\xa4\xf0\x9f\x94\x92/\b\f"));
    assert_bytes(parsed("\"\\ud800\\udc00\\uDBFF\\uDFFF\\ud7ff\\ue000\"")->text,
                 BYTES("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80"));
}

static void malformed_text_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "[",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\"}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "-",
        "tru",
        "nul",
        "NaN",
        "Infinity",
        "'a'",
        "\"a",
        "\"\\x\"",
        "\"\\",
        "\"\\u12",
        "\"\t\"",
        "\"\n\"",
        "\"\x1f\"",
        "1 2",
        "{}{}",
        "[1 2]",
        "\xef\xbb\xbf{}",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800\\udbff\"",
        "\"\\ud800\\ue000\"",
        "\"\\udbff\\n\"",
        "\"\\udc00\\udc00\"",
        "\"\\u00g0\"",
        "1e+",
        "-01",
        "-a",
        "1.e5",
        "nulL",
        "{\"a\":1,,}",
        "[,1]",
        "// no\n1",
        "{\"a\":1 \"b\":2}",
        "]",
        "\"\xf4\x90\x80\x80\"",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        refused(texts[i], "line ");
}

static void a_repeated_name_is_refused(void **ctx)
{
    (void)ctx;
    refused("{\"a\":1,\n\"a\":2}", "\"a\" is repeated");
    refused("{\"a\":1,\"\\u0061\":2}", "\"a\" is repeated");
    CLEANUP(buf_done) struct buf many = {0};
    buf_add_str(&many, "{");
    for (int i = 0; i < 100; i++)
        buf_add_format(&many, "\"k%d\":0,", i);
    buf_add_str(&many, "\"k50\":0}");
    buf_add_u8(&many, 0);
    refused((const char *)many.data, "\"k50\" is repeated");
}

static void depth_is_bounded(void **ctx)
{
    (void)ctx;
    char text[2 * (TEXT_JSON_DEPTH_MAX + 1) + 1] = {0};
    for (int i = 0; i < TEXT_JSON_DEPTH_MAX; i++) {
        text[i] = '[';
        text[TEXT_JSON_DEPTH_MAX + i] = ']';
    }
    assert_non_null(parsed(text));
    memset(text, '[', TEXT_JSON_DEPTH_MAX + 1);
    refused(text, "nested deeper");
}

static void the_number_of_values_is_bounded(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf many = {0};
    const struct text_value *v;
    buf_add_str(&many, "[0");
    for (int i = 1; i < TEXT_JSON_VALUES_MAX; i++)
        buf_add_str(&many, ",0");
    buf_add_str(&many, "]");
    assert_status(buf_status(&many), ST_OK);
    assert_status(text_json_parse(&arena, buf_bytes(&many), &v, &why), ST_TOO_BIG);
}

static void reasons_name_the_line(void **ctx)
{
    (void)ctx;
    refused("{\n\"a\": 1,\n\"b\": x\n}", "line 3: ");
}

static void a_failed_allocation_is_reported(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf text = {0};
    const struct text_value *v = NULL;
    buf_add_str(&text, "{");
    for (int i = 0; i < 200; i++)
        buf_add_format(&text, "\"k%d\":[\"%d\",1.5],", i, i);
    buf_add_str(&text, "\"z\":{}}");
    uint64_t n = 1;
    for (;; n++) {
        (void)mem_fail_nth(n);
        enum status st = text_json_parse(&arena, buf_bytes(&text), &v, NULL);
        bool used = mem_fail_nth(0);
        arena_done(&arena);
        if (!used) {
            assert_status(st, ST_OK);
            break;
        }
        assert_status(st, ST_NOMEM);
    }
    assert_true(n > 3);
}

static void the_writer_nests_and_separates(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out};
    text_open_object(&w);
    text_member_str(&w, "a", "x");
    text_member_str(&w, "none", NULL);
    text_key(&w, "list");
    text_open_list(&w);
    text_put_int(&w, INT64_MIN);
    text_put_uint(&w, UINT64_MAX);
    text_open_object(&w);
    text_close(&w);
    text_put_bool(&w, true);
    text_close(&w);
    text_member_bool(&w, "b", false);
    text_member_int(&w, "n", 0);
    text_key(&w, "raw");
    text_put_raw(&w, BYTES("{\"q\":1}"));
    text_close(&w);
    assert_bytes(buf_bytes(&out),
                 BYTES("{\"a\":\"x\",\"none\":null,\"list\":[-9223372036854775808,"
                       "18446744073709551615,{},true],\"b\":false,\"n\":0,\"raw\":{\"q\":1}}"));
}

static void bytes_that_are_no_text_are_written_as_replacements(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out};
    text_put_bytes(&w, BYTES("a\xff\xc3z\x7f"));
    assert_bytes(buf_bytes(&out), BYTES("\"a\\ufffd\\ufffdz\\u007f\""));
}

static void plain_text_is_escaped_only_where_it_must_be(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out, .plain = true};
    text_put_value(&w, parsed("{\"<\":\"<>&\\u2028\\u007f\\u0001\\\"\"}"));
    assert_bytes(buf_bytes(&out), BYTES("{\"<\":\"<>&\xe2\x80\xa8\x7f\\u0001\\\"\"}"));
}

/* What RFC 8259 7 and the safety of HTML ask of one ASCII character. */
static void expect_char(struct buf *out, uint8_t c, bool plain)
{
    static const char from[] = "\"\\\n\r\t", gives[] = "\"\\nrt";
    const char *named = c != 0 ? strchr(from, c) : NULL;
    bool html = !plain && (strchr("<>&", c) != NULL || c == 0x7f);
    if (named != NULL)
        buf_add_format(out, "\\%c", gives[named - from]);
    else if (c < 0x20 || html)
        buf_add_format(out, "\\u%04x", c);
    else
        buf_add_u8(out, c);
}

static void each_character_is_written_as_it_must_be_wherever_it_stands(void **ctx)
{
    (void)ctx;
    static const char *const around[][2] = {{"", ""}, {"", "z"}, {"ab", ""}, {"ab", "\xc3\xa4z"}};
    for (unsigned i = 0; i < 2 * 128 * ARRAY_LEN(around); i++) {
        CLEANUP(buf_done) struct buf text = {0}, want = {0}, out = {0};
        bool plain = i % 2 != 0;
        uint8_t c = i / 2 % 128;
        struct text_writer w = {.out = &out, .plain = plain};
        buf_add_format(&want, "\"%s", around[i / 256][0]);
        buf_add_str(&text, around[i / 256][0]);
        buf_add_u8(&text, c);
        expect_char(&want, c, plain);
        buf_add_str(&text, around[i / 256][1]);
        buf_add_format(&want, "%s\"", around[i / 256][1]);
        text_put_bytes(&w, buf_bytes(&text));
        assert_bytes(buf_bytes(&out), buf_bytes(&want));
    }
}

/* Long texts are looked at by eight or sixteen bytes. */
static void each_character_is_found_at_each_place(void **ctx)
{
    (void)ctx;
    static const char x[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    static const size_t after[] = {0, 1, 3, 7, 9, 17};
    for (unsigned i = 0; i < 2 * 129 * ARRAY_LEN(after) * 18; i++) {
        CLEANUP(buf_done) struct buf text = {0}, want = {0}, out = {0};
        uint8_t c = (uint8_t)(i / 2 % 129);
        struct bytes before = bytes_of(x, i / 2 / 129 % 18);
        struct bytes behind = bytes_of(x, after[i / 2 / 129 / 18]);
        struct text_writer w = {.out = &out, .plain = i % 2 != 0};
        buf_add(&text, before);
        buf_add_format(&want, "\"%.*s", (int)before.len, x);
        if (c < 128) {
            buf_add_u8(&text, c);
            expect_char(&want, c, w.plain);
        } else {
            buf_add_str(&text, "\xc3\xa4");
            buf_add_str(&want, "\xc3\xa4");
        }
        buf_add(&text, behind);
        buf_add_format(&want, "%.*s\"", (int)behind.len, x);
        text_put_bytes(&w, buf_bytes(&text));
        assert_bytes(buf_bytes(&out), buf_bytes(&want));
    }
}

static void instants_are_strings(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out};
    text_open_object(&w);
    text_member_time(&w, "first", TEXT_TIME_FIRST);
    text_member_time(&w, "last", 1709208000250);
    text_close(&w);
    assert_bytes(
        buf_bytes(&out),
        BYTES("{\"first\":\"0001-01-01T00:00:00Z\",\"last\":\"2024-02-29T12:00:00.25Z\"}"));
}

/* jansson is an independent reader of the same language. */
static void another_reader_agrees_on_what_was_written(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {
        "{\"a\":[1,2.5,\"\\u2028<&>\",{\"b\":null}],\"\xc3\xa4\":true}",
        "[\"\\ud83d\\udd12\",-12,\"\\\\\\\"\"]",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        json_t *first = json_loads(texts[i], 0, NULL);
        json_t *second = json_loads(rewritten(parsed(texts[i])), 0, NULL);
        assert_non_null(first);
        assert_true(json_equal(first, second));
        json_decref(first);
        json_decref(second);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, wipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_read_is_written_again),
        TEST(numbers_keep_every_digit),
        TEST(whole_numbers_convert_exactly_or_not_at_all),
        TEST(strings_may_hold_a_zero_character),
        TEST(escapes_become_utf8),
        TEST(malformed_text_is_refused),
        TEST(a_repeated_name_is_refused),
        TEST(depth_is_bounded),
        TEST(the_number_of_values_is_bounded),
        TEST(reasons_name_the_line),
        TEST(a_failed_allocation_is_reported),
        TEST(the_writer_nests_and_separates),
        TEST(bytes_that_are_no_text_are_written_as_replacements),
        TEST(plain_text_is_escaped_only_where_it_must_be),
        TEST(instants_are_strings),
        TEST(each_character_is_written_as_it_must_be_wherever_it_stands),
        TEST(each_character_is_found_at_each_place),
        TEST(another_reader_agrees_on_what_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
