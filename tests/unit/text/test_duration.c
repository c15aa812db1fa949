#include "support.h"

#include "text/duration.h"
#include "text/time.h"
#include "text/utf8.h"

static void durations_are_read_in_every_form(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"", 0},
        {"0", 0},
        {"90", 90000000000},
        {"1h30m", 5400000000000},
        {"2d", 172800000000000},
        {"1.5h", 5400000000000},
        {"250ms", 250000000},
        {"1h0m1.5s", 3601500000000},
        {"10us", 10000},
        {"10\xc2\xb5s", 10000},
        {"7ns", 7},
        {".5s", 500000000},
        {"5.s", 5000000000},
        {"768h", 2764800000000000},
        {"9223372036", 9223372036000000000},
        {"106751d", 9223286400000000000},
        {"0.1234567891234567891234s", 123456789},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t ns = -1;
        if (text_duration_parse(bytes_str(cases[i].text), &ns) != ST_OK || ns != cases[i].ns)
            fail_msg("\"%s\" gives %lld", cases[i].text, (long long)ns);
    }
}

static void what_is_no_duration_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {
        "-1",
        "-1h",
        "1x",
        "h",
        "1h-1m",
        "1 h",
        ".s",
        "1.5",
        "1.5d",
        "9223372037",
        "2562048h",
        "soon",
        "+5",
        "1h30",
        "106752d",
        "2562047h48m",
        "2562047h47m16.9s",
        "d",
        "99999999999999999999h",
        "1\xff",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        int64_t ns = -1;
        if (text_duration_parse(bytes_str(texts[i]), &ns) != ST_INVALID || ns != -1)
            fail_msg("\"%s\" gives %lld", texts[i], (long long)ns);
    }
}

/* Cut off, a fraction of a second would turn a short limit into 0. */
static void whole_seconds_have_no_fraction(void **ctx)
{
    (void)ctx;
    static const char *const whole[] = {"", "0", "90", "1m30s", "1.5m", "2000ms", "1d"};
    static const int64_t s[] = {0, 0, 90, 90, 90, 2, 86400};
    static const char *const neither[] = {"500ms", "1.5s", "1ns", "0.5", "1h0.1s", "-1", "soon"};
    int64_t n = -1;
    for (size_t i = 0; i < ARRAY_LEN(neither); i++)
        if (text_seconds_parse(bytes_str(neither[i]), &n) != ST_INVALID || n != -1)
            fail_msg("\"%s\" gives %lld", neither[i], (long long)n);
    for (size_t i = 0; i < ARRAY_LEN(whole); i++) {
        assert_status(text_seconds_parse(bytes_str(whole[i]), &n), ST_OK);
        assert_int_equal(n, s[i]);
    }
}

static void durations_are_written_in_gos_form(void **ctx)
{
    (void)ctx;
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {1, "1ns"},
        {1500, "1.5\xc2\xb5s"},
        {250000000, "250ms"},
        {1500000000, "1.5s"},
        {60000000000, "1m0s"},
        {5400000000000, "1h30m0s"},
        {3601500000000, "1h0m1.5s"},
        {INT64_MAX, "2562047h47m16.854775807s"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(buf_done) struct buf out = {0};
        text_duration_put(&out, cases[i].ns);
        assert_bytes(buf_bytes(&out), bytes_str(cases[i].text));
        int64_t again = -1;
        assert_status(text_duration_parse(buf_bytes(&out), &again), ST_OK);
        assert_true(again == cases[i].ns);
    }
}

static void spans_have_no_part_that_is_0(void **ctx)
{
    (void)ctx;
    static const struct {
        int64_t s;
        const char *text;
    } cases[] = {{0, "0s"},
                 {59, "59s"},
                 {60, "1m"},
                 {3601, "1h1s"},
                 {5400, "1h30m"},
                 {3600000, "1000h"},
                 {INT64_MAX, "2562047788015215h30m7s"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[TEXT_SPAN_MAX];
        assert_string_equal(text_span(cases[i].s, text), cases[i].text);
    }
}

static void sizes_have_binary_and_decimal_units(void **ctx)
{
    (void)ctx;
    uint64_t n = 0;
    assert_status(text_size_parse(BYTES("4096"), &n), ST_OK);
    assert_int_equal(n, 4096);
    assert_status(text_size_parse(BYTES("64MiB"), &n), ST_OK);
    assert_int_equal(n, 64 << 20);
    assert_status(text_size_parse(BYTES("3KB"), &n), ST_OK);
    assert_int_equal(n, 3000);
    static const struct {
        const char *text;
        uint64_t n;
    } units[] = {
        {"7KiB", 7 << 10},
        {"7MiB", 7 << 20},
        {"7GiB", UINT64_C(7) << 30},
        {"7TiB", UINT64_C(7) << 40},
        {"7MB", 7000000},
        {"7GB", UINT64_C(7000000000)},
        {"7TB", UINT64_C(7000000000000)},
    };
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        assert_status(text_size_parse(bytes_str(units[i].text), &n), ST_OK);
        assert_true(n == units[i].n);
    }
    n = 1;
    assert_status(text_size_parse(BYTES("-1"), &n), ST_INVALID);
    assert_status(text_size_parse(BYTES("1.5GiB"), &n), ST_INVALID);
    assert_status(text_size_parse(BYTES("KiB"), &n), ST_INVALID);
    assert_status(text_size_parse(BYTES("10000000TiB"), &n), ST_INVALID);
    assert_status(text_size_parse(BYTES("-1KiB"), &n), ST_INVALID);
    assert_status(text_size_parse(BYTES("1kib"), &n), ST_INVALID);
    assert_status(text_size_parse(BYTES("1KiBKiB"), &n), ST_INVALID);
    assert_int_equal(n, 1);
}

static void text_that_does_not_show_is_not_printable(void **ctx)
{
    (void)ctx;
    assert_true(text_printable(BYTES("kv/a b-\xc3\xa4\xf0\x9f\x94\x92~")));
    assert_true(text_printable(BYTES("\xc2\xa1\xc2\xac\xc2\xae\xe2\x80\x90\xef\xbf\xbd")));
    static const char *const hidden[] = {"\x01",
                                         "a\n",
                                         "\x7f",
                                         "\xc2\x85",
                                         "\xc2\xa0",
                                         "\xe2\x80\xae",
                                         "\xe2\x80\x8b",
                                         "\xef\xbb\xbf",
                                         "\xff",
                                         "\xc3",
                                         "\xf3\xa0\x80\x81",
                                         "\xc2\xad",
                                         "\xd8\x9c",
                                         "\xe1\x9a\x80",
                                         "\xe1\xa0\x8e",
                                         "\xe2\x80\xa8",
                                         "\xe2\x81\xa6",
                                         "\xe3\x80\x80",
                                         "\xee\x80\x80",
                                         "\xef\xb7\x90",
                                         "\xef\xbf\xb9",
                                         "\xef\xbf\xbf",
                                         "\xf3\xb0\x80\x80",
                                         "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
        if (text_printable(bytes_str(hidden[i])))
            fail_msg("%zu is called printable", i);
    assert_false(text_printable(BYTES("a\0b")));
}

static void instants_are_written_as_rfc_3339(void **ctx)
{
    (void)ctx;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00Z"},
        {951782400000, "2000-02-29T00:00:00Z"},
        {951868799999, "2000-02-29T23:59:59.999Z"},
        {951868800000, "2000-03-01T00:00:00Z"},
        {4107542400000, "2100-03-01T00:00:00Z"},
        {1709208000250, "2024-02-29T12:00:00.25Z"},
        {1709208000300, "2024-02-29T12:00:00.3Z"},
        {1709208000007, "2024-02-29T12:00:00.007Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {-86400000, "1969-12-31T00:00:00Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
        {-62135596800000, "0001-01-01T00:00:00Z"},
        {TEXT_TIME_END, "9999-12-31T23:59:59.999Z"}, /* the nearest that can be written */
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
        {INT64_MIN, "0001-01-01T00:00:00Z"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint8_t text[TEXT_TIME_MAX];
        assert_bytes(bytes_of(text, text_time(cases[i].ms, text)), bytes_str(cases[i].text));
    }
}

static void dates_of_http_are_imf_fixdates(void **ctx)
{
    (void)ctx;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {784111777000, "Sun, 06 Nov 1994 08:49:37 GMT"},
        {784111777999, "Sun, 06 Nov 1994 08:49:37 GMT"},
        {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
        {-1, "Wed, 31 Dec 1969 23:59:59 GMT"},
        {951782400000, "Tue, 29 Feb 2000 00:00:00 GMT"},
        {TEXT_TIME_END - 1, "Fri, 31 Dec 9999 23:59:59 GMT"},
        {TEXT_TIME_FIRST, "Mon, 01 Jan 0001 00:00:00 GMT"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint8_t text[TEXT_HTTP_DATE_LEN];
        text_http_date(cases[i].ms, text);
        assert_bytes(bytes_of(text, sizeof text), bytes_str(cases[i].text));
    }
}

static void times_are_read_with_any_offset(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2023-11-14T22:13:20z", 1700000000000},
        {"2023-11-14T22:13:20.5Z", 1700000000500},
        {"2023-11-14T22:13:20.123999999Z", 1700000000123},
        {"2023-11-15T00:13:20+02:00", 1700000000000},
        {"2023-11-14T14:43:20-07:30", 1700000000000},
        {"2024-02-29T00:00:00Z", 1709164800000},
        {"2000-02-29T00:00:00Z", 951782400000},
        {"0001-01-01T00:00:00Z", TEXT_TIME_FIRST},
        {"9999-12-31T23:59:59.999Z", TEXT_TIME_END - 1},
    };
    static const char *const bad[] = {
        "",
        "Z",
        "2023-11-14",
        "2023-11-14T22:13Z",
        "2023-11-14T22:13:20",
        "2023-11-14 22:13:20Z",
        "2023-13-14T22:13:20Z",
        "2023-00-14T22:13:20Z",
        "2023-11-31T22:13:20Z",
        "2023-11-00T22:13:20Z",
        "2023-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2023-11-14T24:00:00Z",
        "2023-11-14T22:60:20Z",
        "2023-11-14T22:13:60Z",
        "2023-11-14T22:13:20.Z",
        "2023-11-14T22:13:20ZZ",
        "2023-11-14T22:13:20+2:00",
        "2023-11-14T22:13:20+24:00",
        "2023-11-14T22:13:20+01:60",
        "0000-12-31T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "+023-11-14T22:13:20Z",
        "2023-11-14T22:13:20+01:000",
    };
    int64_t ms;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_status(text_time_parse(bytes_str(good[i].text), &ms), ST_OK);
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (text_time_parse(bytes_str(bad[i]), &ms) != ST_INVALID)
            fail_msg("\"%s\" is taken", bad[i]);
    for (int64_t day = TEXT_TIME_FIRST; day < TEXT_TIME_END; day += 86400000 * INT64_C(37) + 1) {
        uint8_t text[TEXT_TIME_MAX];
        struct bytes shown = bytes_of(text, text_time(day, text));
        assert_status(text_time_parse(shown, &ms), ST_OK);
        assert_int_equal(ms, day);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read_in_every_form),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(whole_seconds_have_no_fraction),
        cmocka_unit_test(durations_are_written_in_gos_form),
        cmocka_unit_test(spans_have_no_part_that_is_0),
        cmocka_unit_test(instants_are_written_as_rfc_3339),
        cmocka_unit_test(times_are_read_with_any_offset),
        cmocka_unit_test(dates_of_http_are_imf_fixdates),
        cmocka_unit_test(sizes_have_binary_and_decimal_units),
        cmocka_unit_test(text_that_does_not_show_is_not_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
