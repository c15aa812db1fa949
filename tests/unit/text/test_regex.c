#include "support.h"

#include "base/buf.h"
#include "text/regex.h"

static struct regex *compiled(const char *pattern)
{
    struct reason why = {0};
    struct regex *regex;
    if (regex_new(bytes_str(pattern), &regex, &why) != ST_OK)
        fail_msg("%s: %s", pattern, why.text);
    return regex;
}

static void what_gos_syntax_lacks_is_refused(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *pattern, *why;
    } rows[] = {
        {"(a)\\1", "invalid escape sequence: \\1, at byte 4"},
        {"(?=a)", "look-around is not supported, at byte 1"},
        {"x(?!a)", "look-around is not supported, at byte 2"},
        {"(?<=a)b", "look-around is not supported, at byte 1"},
        {"(?<!a)b", "look-around is not supported, at byte 1"},
        {"a\\Cb", "\\C is not supported, at byte 2"},
        {"(?P<\xc3\xa9>a)", "a name of a group has letters, digits and '_' only, at byte 1"},
        {"(?<>a)", "a name of a group has letters, digits and '_' only, at byte 1"},
        {"(?P<a", "a name of a group has letters, digits and '_' only, at byte 1"},
        {"(?P<a>x)(?P<a>y)", "two groups have the same name, at byte 9"},
        {"(\\d{3}", "missing )"},
        {"a)", "unexpected )"},
        {"[a", "missing ]"},
        {"a**", "bad repetition operator: **, at byte 2"},
        {"a{1001}", "repetition"},
        {"((a{100}){100}){100}", "repe"},
        {"\\pX", "invalid character class range: \\pX"},
        {"a\\", "trailing \\"},
        {"(?P=a)", "invalid"},
        {"\xff", "not valid UTF-8"},
        {"(?:\\pL{500}){2}", "too large"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct reason why = {0};
        struct regex *regex = NULL;
        if (regex_new(bytes_str(rows[i].pattern), &regex, &why) != ST_INVALID ||
            strstr(why.text, rows[i].why) == NULL)
            fail_msg("%s: %s", rows[i].pattern, why.text);
    }
}

static void a_pattern_is_bounded_in_length_groups_and_depth(void **ctx)
{
    (void)ctx;
    char pattern[REGEX_PATTERN_MAX + 2];
    struct reason why;
    struct regex *regex;
    memset(pattern, 'a', sizeof pattern);
    assert_status(regex_new(bytes_of(pattern, REGEX_PATTERN_MAX + 1), &regex, &why), ST_INVALID);
    assert_status(regex_new(bytes_of(pattern, REGEX_PATTERN_MAX), &regex, &why), ST_OK);
    regex_free(regex);
    memset(pattern, '(', REGEX_DEPTH_MAX + 1);
    assert_status(regex_new(bytes_of(pattern, REGEX_DEPTH_MAX + 1), &regex, &why), ST_INVALID);
    for (size_t i = 0; i < 3 * (REGEX_GROUPS_MAX + 1); i += 3)
        memcpy(pattern + i, "(a)", 3);
    assert_status(regex_new(bytes_of(pattern, 3 * (REGEX_GROUPS_MAX + 1)), &regex, &why),
                  ST_INVALID);
    assert_non_null(strstr(why.text, "too many groups"));
    assert_status(regex_new(bytes_of(pattern, 3 * REGEX_GROUPS_MAX), &regex, &why), ST_OK);
    assert_int_equal(regex_groups(regex), REGEX_GROUPS_MAX);
    regex_free(regex);
}

static void groups_are_counted_and_nesting_is_seen(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *pattern;
        unsigned groups;
        bool nests;
    } rows[] = {
        {"abc", 0, false},         {"(a)(b)", 2, false},          {"((a))", 2, true},
        {"(?:(a)|(b))", 2, false}, {"(a(?:b)c)", 1, false},       {"(a(?:(b)))", 2, true},
        {"[(]\\((a)", 1, false},   {"[]()](a)", 1, false},        {"[^]()](a)", 1, false},
        {"\\Q((\\E(a)", 1, false}, {"(?i)(a)(?-i)", 1, false},    {"[[:alpha:](](a)", 1, false},
        {"(?i:(a))(b)", 2, false}, {"(?<x>a)(?P<y>b)", 2, false}, {"[\\]()](a)", 1, false},
        {"\\Q(a", 0, false},       {"(?<o>a(?<i>b))", 2, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct regex *regex = compiled(rows[i].pattern);
        if (regex_groups(regex) != rows[i].groups || regex_nests(regex) != rows[i].nests)
            fail_msg("%s: %u groups", rows[i].pattern, regex_groups(regex));
        regex_free(regex);
    }
}

static void groups_that_repeat_are_seen(void **ctx)
{
    (void)ctx;
    static const char *const repeat[] = {"(a)*",     "(a)+?",         "(a){2}",    "(a){1,}",
                                         "(a){0,7}", "(?:(a)-?){4}b", "(?:b(a))+", "((a)b)*"};
    static const char *const once[] = {"(a*)",     "(a)?",      "(a)??",          "(a){1}",
                                       "(a){0,1}", "(a)(?:b)+", "(?:b(a))c*[)]*", "(?:b)*(a)",
                                       "(a)\\*",   "(a)b*"};
    for (size_t i = 0; i < ARRAY_LEN(repeat); i++) {
        struct regex *regex = compiled(repeat[i]);
        if (!regex_repeats(regex))
            fail_msg("%s repeats a group", repeat[i]);
        regex_free(regex);
    }
    for (size_t i = 0; i < ARRAY_LEN(once); i++) {
        struct regex *regex = compiled(once[i]);
        if (regex_repeats(regex))
            fail_msg("%s repeats no group", once[i]);
        regex_free(regex);
    }
}

static void the_whole_text_must_match(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *pattern, *text;
        bool matches;
        const char *first; /* of group 1; NULL: it took no part */
    } rows[] = {
        {"(\\d+)", "123", true, "123"},
        {"(\\d+)", "123x", false, NULL},
        {"(\\d+)", "x123", false, NULL},
        {"(a|ab)(?:c|bcd)(d*)", "abcd", true, "a"},
        {"(\\d)?x", "x", true, NULL},
        {"(\\d*)x", "x", true, ""},
        {"(\\w+)", "\xc3\xa9", false, NULL},
        {"([α-ω]+)", "ας", true, "ας"},
        {"(.)", "\xf0\x9f\x94\x92", true, "\xf0\x9f\x94\x92"},
        {"(a$)", "a\n", false, NULL},
        {"(?i)(k)", "\xe2\x84\xaa", true, "\xe2\x84\xaa"},
        {"(.)", "\n", false, NULL},
        {"()", "", true, ""},
        {"(?:(a)|b)*", "ab", true, "a"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct regex_span spans[REGEX_GROUPS_MAX + 1];
        struct regex *regex = compiled(rows[i].pattern);
        enum status st = regex_match(regex, bytes_str(rows[i].text), spans);
        if ((st == ST_OK) != rows[i].matches)
            fail_msg("%s on %s: %s", rows[i].pattern, rows[i].text, status_name(st));
        if (st == ST_OK && rows[i].first == NULL)
            assert_null(spans[1].data);
        if (st == ST_OK && rows[i].first != NULL)
            assert_true(bytes_eq(bytes_of(spans[1].data, spans[1].len), bytes_str(rows[i].first)));
        regex_free(regex);
    }
}

/* Each row as Go 1.24 writes it. */
static void formats_are_expanded_as_gos(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *format, *out, *unknown;
    } rows[] = {
        {"$1-$2-$3", "123-45-", NULL},
        {"${1}_${2}", "123_45", NULL},
        {"$1_$2", "45", "1_"},
        {"$$1", "$1", NULL},
        {"$$$2", "$45", NULL},
        {"$0", "123/45", NULL},
        {"$name", "45", NULL},
        {"${name}x", "45x", NULL},
        {"$namex", "", "namex"},
        {"$3", "", NULL}, /* took no part */
        {"$4", "", "4"},
        {"$01", "", "01"},
        {"$", "$", NULL},
        {"$-1", "$-1", NULL},
        {"${1", "${1", NULL},
        {"${1-}", "${1-}", NULL},
        {"${}", "${}", NULL},
        {"$1\xc3\xa9", "", "1\xc3\xa9"},             /* é is a letter */
        {"$1\xe2\x82\xac", "123\xe2\x82\xac", NULL}, /* € is none */
        {"$1\xd9\xa1", "", "1\xd9\xa1"},             /* an Arabic digit */
        {"$1234567890", "", "1234567890"},
        {"", "", NULL},
        {"plain", "plain", NULL},
    };
    struct regex_span spans[REGEX_GROUPS_MAX + 1];
    struct regex *regex = compiled("(\\d{3})[-/](?<name>\\d{2})(-x)?");
    assert_status(regex_match(regex, BYTES("123/45"), spans), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out = {0};
        struct bytes unknown = regex_unknown(regex, bytes_str(rows[i].format));
        regex_expand(regex, bytes_str(rows[i].format), spans, &out);
        if (!bytes_eq(buf_bytes(&out), bytes_str(rows[i].out)))
            fail_msg("%s gives %.*s", rows[i].format, (int)out.len, (const char *)out.data);
        if (!bytes_eq(unknown, bytes_str(rows[i].unknown != NULL ? rows[i].unknown : "")))
            fail_msg("%s: unknown %.*s", rows[i].format, (int)unknown.len,
                     (const char *)unknown.data);
        buf_done(&out);
    }
    regex_free(regex);
}

static void the_size_of_a_program_tells_what_a_match_costs(void **state)
{
    struct regex *small, *large;
    struct reason why;
    (void)state;
    assert_int_equal(regex_new(BYTES("(\\d{4})-(\\d{4})"), &small, &why), ST_OK);
    assert_int_equal(regex_new(BYTES("(.*)(.{1,900})"), &large, &why), ST_OK);
    assert_in_range(regex_size(small), 8, 100);
    assert_in_range(regex_size(large), 4000, 43690); /* RE2's own bound for 1 MiB */
    regex_free(small);
    regex_free(large);
}

static void formats_that_reorder_or_repeat_groups_are_seen(void **state)
{
    static const char *const in_order[] = {"", "$1-$2", "$1-${b}", "$0", "$1", "$$1$2 $none"};
    static const char *const other[] = {"$2-$1", "${b}-$1", "$1$1", "$0$1", "$2$0", "$0$0"};
    struct regex *regex;
    struct reason why;
    (void)state;
    assert_int_equal(regex_new(BYTES("(\\d{4})-(?P<b>\\d{4})"), &regex, &why), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(in_order); i++)
        assert_false(regex_reorders(regex, bytes_str(in_order[i])));
    for (size_t i = 0; i < ARRAY_LEN(other); i++)
        assert_true(regex_reorders(regex, bytes_str(other[i])));
    regex_free(regex);
}

static void a_sample_matches_its_pattern(void **state)
{
    static const char *const patterns[] = {"(\\d{4})[- ]?(\\d{4})", "([1-5]{8})", "x([a-f]{3})y",
                                           "([\u03b1-\u03c9]+)-([\u03b1-\u03c9]*)"};
    struct regex_span spans[REGEX_GROUPS_MAX + 1];
    struct bytes sample;
    struct regex *regex;
    struct reason why;
    char text[128];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        assert_int_equal(regex_new(bytes_str(patterns[i]), &regex, &why), ST_OK);
        assert_int_equal(regex_sample(regex, text, sizeof text, &sample), ST_OK);
        assert_int_equal(regex_match(regex, sample, spans), ST_OK);
        regex_free(regex);
    }
    assert_int_equal(regex_new(BYTES("(a{200})"), &regex, &why), ST_OK);
    assert_int_equal(regex_sample(regex, text, sizeof text, &sample), ST_NOT_FOUND);
    regex_free(regex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_gos_syntax_lacks_is_refused),
        cmocka_unit_test(a_pattern_is_bounded_in_length_groups_and_depth),
        cmocka_unit_test(groups_are_counted_and_nesting_is_seen),
        cmocka_unit_test(groups_that_repeat_are_seen),
        cmocka_unit_test(the_whole_text_must_match),
        cmocka_unit_test(formats_that_reorder_or_repeat_groups_are_seen),
        cmocka_unit_test(a_sample_matches_its_pattern),
        cmocka_unit_test(the_size_of_a_program_tells_what_a_match_costs),
        cmocka_unit_test(formats_are_expanded_as_gos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
