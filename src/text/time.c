#include "text/time.h"

enum { DAY_MS = 86400000, ERA_DAYS = 146097 };

/* Days since 1970 to year, month and day of the Gregorian calendar, counting years from March so
 * that the leap day is the last of its year. */
static void civil(int64_t days, int64_t *ret_year, unsigned *ret_month, unsigned *ret_day)
{
    days += 719468; /* since 0000-03-01 */
    int64_t era = days / ERA_DAYS;
    int64_t in_era = days % ERA_DAYS;
    int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * in_year + 2) / 153; /* from March */
    *ret_day = (unsigned)(in_year - (153 * month + 2) / 5 + 1);
    *ret_month = (unsigned)(month < 10 ? month + 3 : month - 9);
    *ret_year = era * 400 + year + (*ret_month <= 2);
}

static uint8_t *put_digits(uint8_t *to, int64_t n, unsigned digits, char end)
{
    for (unsigned i = digits; i-- > 0; n /= 10)
        to[i] = (uint8_t)('0' + n % 10);
    to[digits] = (uint8_t)end;
    return to + digits + 1;
}

/* A point and the fraction in place of the 'Z', if there is one. */
static uint8_t *put_fraction(uint8_t *end, int64_t ms)
{
    unsigned digits = 3;
    if (ms == 0)
        return end;
    for (; ms % 10 == 0; ms /= 10)
        digits--;
    end[-1] = '.';
    return put_digits(end, ms, digits, 'Z');
}

size_t text_time(int64_t ms, uint8_t ret_text[TEXT_TIME_MAX])
{
    ASSERT(ms >= TEXT_TIME_FIRST && ms < INT64_C(253402300800000));
    int64_t days = (ms - (ms < 0 ? DAY_MS - 1 : 0)) / DAY_MS;
    int64_t rest = ms - days * DAY_MS;
    int64_t year;
    unsigned month, day;
    civil(days, &year, &month, &day);
    uint8_t *to = put_digits(ret_text, year, 4, '-');
    to = put_digits(to, month, 2, '-');
    to = put_digits(to, day, 2, 'T');
    to = put_digits(to, rest / 3600000, 2, ':');
    to = put_digits(to, rest / 60000 % 60, 2, ':');
    to = put_digits(to, rest / 1000 % 60, 2, 'Z');
    to = put_fraction(to, rest % 1000);
    return (size_t)(to - ret_text);
}
