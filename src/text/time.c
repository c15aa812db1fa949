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

void text_time_put(struct buf *out, int64_t ms)
{
    ASSERT(ms >= INT64_C(-62135596800000) && ms < INT64_C(253402300800000));
    int64_t days = (ms - (ms < 0 ? DAY_MS - 1 : 0)) / DAY_MS;
    int64_t rest = ms - days * DAY_MS;
    int64_t year;
    unsigned month, day;
    civil(days, &year, &month, &day);
    buf_add_format(out, "%04lld-%02u-%02uT%02lld:%02lld:%02lld", (long long)year, month, day,
                   (long long)(rest / 3600000), (long long)(rest / 60000 % 60),
                   (long long)(rest / 1000 % 60));
    unsigned fraction = (unsigned)(rest % 1000);
    if (fraction % 100 == 0 && fraction != 0)
        buf_add_format(out, ".%u", fraction / 100);
    else if (fraction % 10 == 0 && fraction != 0)
        buf_add_format(out, ".%02u", fraction / 10);
    else if (fraction != 0)
        buf_add_format(out, ".%03u", fraction);
    buf_add_str(out, "Z");
}
