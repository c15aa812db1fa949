#include "text/time.h"

#include <string.h>

enum { DAY_MS = 86400000, ERA_DAYS = 146097 };

/* A point in time as a date and a time of day in UTC. */
struct moment {
    int64_t days;     /* since 1970 */
    uint32_t rest_ms; /* since midnight */
    uint32_t year, month, day;
};

/* Convert days since 1970, modulo 2^32, to year, month and day of the Gregorian calendar. Years are
 * counted from March, so that the leap day is the last day of a year. */
static void civil(uint32_t days, struct moment *ret_moment)
{
    days += 719468; /* now days since 0000-03-01 */
    uint32_t era = days / ERA_DAYS;
    uint32_t in_era = days % ERA_DAYS;
    uint32_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    uint32_t in_year = in_era - (365 * year + year / 4 - year / 100);
    uint32_t month = (5 * in_year + 2) / 153; /* months since March */
    ASSERT(in_year < 366);
    ret_moment->day = in_year - (153 * month + 2) / 5 + 1;
    ret_moment->month = month < 10 ? month + 3 : month - 9;
    ret_moment->year = era * 400 + year + (ret_moment->month <= 2);
}

/* Two digits, then the character `end`. */
static inline uint8_t *put_pair(uint8_t *to, unsigned n, char end)
{
    ASSERT(n < 100);
    to[0] = (uint8_t)('0' + n / 10);
    to[1] = (uint8_t)('0' + n % 10);
    to[2] = (uint8_t)end;
    return to + 3;
}

static inline uint8_t *put_year(uint8_t *to, unsigned year, char end)
{
    (void)put_pair(to, year / 100, end); /* the next pair goes over `end` */
    return put_pair(to + 2, year % 100, end);
}

/* Replace the 'Z' before `end` by a point, the fraction and 'Z', unless the fraction is 0. */
static uint8_t *put_fraction(uint8_t *end, unsigned ms)
{
    ASSERT(end[-1] == 'Z' && ms < 1000);
    if (ms == 0)
        return end;
    end[-1] = '.';
    end[0] = (uint8_t)('0' + ms / 100);
    end = put_pair(end + 1, ms % 100, 'Z');
    while (end[-2] == '0') /* ends: the fraction is not 0 */
        end--;
    end[-1] = 'Z';
    return end;
}

static inline struct moment moment_of(int64_t ms)
{
    struct moment m;
    ms = MIN(MAX(ms, TEXT_TIME_FIRST), TEXT_TIME_END - 1);
    m.days = (ms - (ms < 0 ? DAY_MS - 1 : 0)) / DAY_MS;
    m.rest_ms = (uint32_t)(ms - m.days * DAY_MS);
    civil((uint32_t)m.days, &m);
    return m;
}

/* Write the time of day as "12:00:00", then the character `end`. */
static inline uint8_t *put_clock(uint8_t *to, uint32_t rest_ms, char end)
{
    to = put_pair(to, rest_ms / 3600000, ':');
    to = put_pair(to, rest_ms / 60000 % 60, ':');
    return put_pair(to, rest_ms / 1000 % 60, end);
}

size_t text_time(int64_t ms, uint8_t ret_text[TEXT_TIME_MAX])
{
    struct moment m = moment_of(ms);
    uint8_t *to = put_year(ret_text, m.year, '-');
    to = put_pair(to, m.month, '-');
    to = put_pair(to, m.day, 'T');
    to = put_clock(to, m.rest_ms, 'Z');
    to = put_fraction(to, m.rest_ms % 1000);
    ASSERT(to <= ret_text + TEXT_TIME_MAX);
    return (size_t)(to - ret_text);
}

static uint8_t *put_word(uint8_t *to, const char *word)
{
    size_t n = strlen(word);
    memcpy(to, word, n);
    return to + n;
}

void text_http_date(int64_t ms, uint8_t ret_text[TEXT_HTTP_DATE_LEN])
{
    static const char days[7][6] = {"Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, ", "Sun, "};
    static const char months[12][5] = {"Jan ", "Feb ", "Mar ", "Apr ", "May ", "Jun ",
                                       "Jul ", "Aug ", "Sep ", "Oct ", "Nov ", "Dec "};
    enum { YEAR_1_DAYS = 719162 }; /* from 0001-01-01, a Monday, to 1970 */
    struct moment m = moment_of(ms);
    uint8_t *to = put_word(ret_text, days[(m.days + YEAR_1_DAYS) % 7]);
    to = put_pair(to, m.day, ' ');
    to = put_word(to, months[m.month - 1]);
    to = put_year(to, m.year, ' ');
    to = put_clock(to, m.rest_ms, ' ');
    to = put_word(to, "GMT");
    ASSERT(to == ret_text + TEXT_HTTP_DATE_LEN);
}

/* Days since 1970; the inverse of civil(). */
static int64_t days_of(int64_t year, unsigned month, unsigned day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t in_era = y % 400, from_march = month > 2 ? month - 3 : month + 9;
    int64_t in_year = (153 * from_march + 2) / 5 + day - 1;
    return y / 400 * ERA_DAYS + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

/* Read a number of `digits` digits, then the character `end`; '\0': no such character. */
static bool read_time_field(struct bytes *text, unsigned digits, char end, unsigned *ret_n)
{
    unsigned n = 0;
    if (text->len < digits + (end != '\0'))
        return false;
    for (unsigned i = 0; i < digits; i++) {
        if (text->data[i] < '0' || text->data[i] > '9')
            return false;
        n = 10 * n + (text->data[i] - '0');
    }
    if (end != '\0' && text->data[digits] != (uint8_t)end)
        return false;
    *text = bytes_from(*text, digits + (end != '\0'));
    *ret_n = n;
    return true;
}

/* Read the fraction of the seconds, a point and digits, as milliseconds; no point: 0. */
static bool read_fraction(struct bytes *text, unsigned *ret_ms)
{
    unsigned n = 0, ms = 0;
    *ret_ms = 0;
    if (text->len == 0 || text->data[0] != '.')
        return true;
    *text = bytes_from(*text, 1);
    for (; text->len != 0 && text->data[0] >= '0' && text->data[0] <= '9'; n++) {
        if (n < 3)
            ms = 10 * ms + (text->data[0] - '0');
        *text = bytes_from(*text, 1);
    }
    for (unsigned i = n; i < 3; i++)
        ms *= 10;
    ASSERT(ms < 1000);
    *ret_ms = ms;
    return n != 0;
}

/* Read the offset at the end of the text, "Z" or "+01:00", as minutes east of UTC. */
static bool read_offset(struct bytes text, int64_t *ret_minutes)
{
    unsigned hours, minutes;
    *ret_minutes = 0;
    if (text.len == 1 && (text.data[0] == 'Z' || text.data[0] == 'z'))
        return true;
    if (text.len == 0 || (text.data[0] != '+' && text.data[0] != '-'))
        return false;
    bool west = text.data[0] == '-';
    text = bytes_from(text, 1);
    if (!read_time_field(&text, 2, ':', &hours) || !read_time_field(&text, 2, '\0', &minutes) ||
        text.len != 0 || hours > 23 || minutes > 59)
        return false;
    *ret_minutes = (int64_t)(hours * 60 + minutes) * (west ? -1 : 1);
    return true;
}

enum status text_time_parse(struct bytes text, int64_t *ret_ms)
{
    static const uint8_t month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned year, month, day, hour, minute, second, ms;
    int64_t offset;

    if (!read_time_field(&text, 4, '-', &year) || !read_time_field(&text, 2, '-', &month) ||
        !read_time_field(&text, 2, 'T', &day) || !read_time_field(&text, 2, ':', &hour) ||
        !read_time_field(&text, 2, ':', &minute) || !read_time_field(&text, 2, '\0', &second) ||
        !read_fraction(&text, &ms) || !read_offset(text, &offset))
        return ST_INVALID;
    if (year == 0 || month == 0 || month > 12 || hour > 23 || minute > 59 || second > 59)
        return ST_INVALID;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (day == 0 || day > (unsigned)month_days[month - 1] + (month == 2 && leap))
        return ST_INVALID;
    int64_t minutes = (days_of(year, month, day) * 24 + hour) * 60 + minute - offset;
    int64_t at_ms = (minutes * 60 + second) * 1000 + ms;
    if (at_ms < TEXT_TIME_FIRST || at_ms >= TEXT_TIME_END)
        return ST_INVALID;
    *ret_ms = at_ms;
    return ST_OK;
}
