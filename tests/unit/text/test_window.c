#include "support.h"

#include "text/window.h"

#include <time.h>

static void a_malformed_window_is_refused_with_its_reason(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *start, *end, *why;
    } rows[] = {
        {"30 9 * * *", "0 16", "cron.start must contain 6 fields"},
        {"30 9 * * * * *", "0 16", "cron.start must contain 6 fields"},
        {"", "0 16", "cron.start must contain 6 fields"},
        {"30 9 * * * *", "16", "cron.end must contain 2 fields"},
        {"30 9 * * * *", "0 16 *", "cron.end must contain 2 fields"},
        {"*/5 9 * * * *", "0 16", "cron.start must not contain \"/,\""},
        {"30 9 * * MON,TUE *", "0 16", "cron.start must not contain \"/,\""},
        {"60 9 * * * *", "0 16", "impossible value"},
        {"30 24 * * * *", "0 16", "impossible value"},
        {"30 9 32 * * *", "0 16", "impossible value"},
        {"30 9 * 13 * *", "0 16", "impossible value"},
        {"30 9 * * XYZ *", "0 16", "impossible value"},
        {"30 9 * * * 2100", "0 16", "impossible value"},
        {"30 9 * * - *", "0 16", "impossible value"},
        {"30 9  * * *", "0 16", "impossible value"},
        {"30 9 * * * *", "30 9", "cron.end must be after cron.start"},
        {"30 9 * * * *", "0 9", "cron.end must be after cron.start"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct text_window window;
        struct reason why = {0};
        if (text_window_parse(bytes_str(rows[i].start), bytes_str(rows[i].end), &window, &why) !=
                ST_INVALID ||
            strstr(why.text, rows[i].why) == NULL)
            fail_msg("%s, %s: %s", rows[i].start, rows[i].end, why.text);
    }
}

static void a_time_is_in_the_windows_that_have_it(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *start, *end, *at; /* %Y-%m-%d %H:%M, of any zone */
        bool has;
    } rows[] = {
        {"30 9 * * * *", "0 16", "2026-11-28 09:29", false},
        {"30 9 * * * *", "0 16", "2026-11-28 09:30", true},
        {"30 9 * * * *", "0 16", "2026-11-28 15:59", true},
        {"30 9 * * * *", "0 16", "2026-11-28 16:00", false},
        {"30 9 * * MON-FRI *", "0 16", "2026-11-27 12:00", true},
        {"30 9 * * mon-fri *", "0 16", "2026-11-28 12:00", false},
        {"0 0 * * SUN *", "59 23", "2026-11-29 12:00", true},
        {"0 0 1-5 * * *", "59 23", "2026-11-05 12:00", true},
        {"0 0 1-5 * * *", "59 23", "2026-11-06 12:00", false},
        {"0 0 1 * SAT *", "59 23", "2026-11-28 12:00", true}, /* joined by or */
        {"0 0 1 * SAT *", "59 23", "2026-11-27 12:00", false},
        {"0 0 * NOV * *", "59 23", "2026-11-28 12:00", true},
        {"0 0 * 1-10 * *", "59 23", "2026-11-28 12:00", false},
        {"0 0 * * * 2025-2026", "59 23", "2026-11-28 12:00", true},
        {"0 0 * * * 1999", "59 23", "2026-11-28 12:00", false},
        {"0 0 * * FRI-MON *", "59 23", "2026-11-28 12:00", false}, /* never, as in cronexpr */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct text_window window;
        struct tm at = {0};
        assert_non_null(strptime(rows[i].at, "%Y-%m-%d %H:%M", &at));
        assert_status(
            text_window_parse(bytes_str(rows[i].start), bytes_str(rows[i].end), &window, NULL),
            ST_OK);
        if (text_window_has(&window, &at) != rows[i].has)
            fail_msg("%s to %s at %s", rows[i].start, rows[i].end, rows[i].at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_malformed_window_is_refused_with_its_reason),
        cmocka_unit_test(a_time_is_in_the_windows_that_have_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
