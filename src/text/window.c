#include "text/window.h"

#include <strings.h>
#include <time.h>

enum { FIELDS_MAX = 6, YEAR_MAX = 2099 };

struct part {
    struct bytes fields[FIELDS_MAX];
    unsigned n;
};

static const char *const months[] = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                     "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
static const char *const weekdays[] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

/* Split at single blanks; n is FIELDS_MAX + 1 where there are more fields. */
static struct part window_split(struct bytes text)
{
    struct part part = {.n = 0};
    size_t from = 0;
    for (size_t i = 0; i <= text.len; i++) {
        if (i < text.len && text.data[i] != ' ')
            continue;
        if (part.n < FIELDS_MAX)
            part.fields[part.n] = bytes_of(text.data + from, i - from);
        part.n = part.n <= FIELDS_MAX ? part.n + 1 : part.n;
        from = i + 1;
    }
    return part;
}

/* A number, or a name whose index + base is the value; -1. */
static int window_value_of(struct bytes text, const char *const *names, int n_names, int base)
{
    int n = 0;
    for (int i = 0; i < n_names; i++)
        if (text.len == 3 && strncasecmp((const char *)text.data, names[i], 3) == 0)
            return i + base;
    if (text.len == 0 || text.len > 4)
        return -1;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -1;
        n = n * 10 + (text.data[i] - '0');
    }
    return n;
}

struct limits {
    int least, most;
    const char *const *names;
    int n_names, base;
};

/* '*', a value, or a range. A range that ends before it begins never fires, as in cronexpr. */
static bool range_of(struct bytes text, const struct limits *l, int *ret_from, int *ret_to)
{
    const uint8_t *dash = text.len != 0 ? memchr(text.data, '-', text.len) : NULL;
    *ret_from = l->least;
    *ret_to = l->most;
    if (text.len == 1 && text.data[0] == '*')
        return true;
    size_t left = dash != NULL ? (size_t)(dash - text.data) : text.len;
    *ret_from = window_value_of(bytes_of(text.data, left), l->names, l->n_names, l->base);
    *ret_to = dash != NULL
                  ? window_value_of(bytes_from(text, left + 1), l->names, l->n_names, l->base)
                  : *ret_from;
    return *ret_from >= l->least && *ret_from <= l->most && *ret_to >= l->least &&
           *ret_to <= l->most;
}

static uint64_t bits(int from, int to)
{
    uint64_t set = 0;
    ASSERT(from >= 0 && to < 64);
    for (int i = from; i <= to; i++)
        set |= UINT64_C(1) << i;
    return set;
}

static bool minute_of_day(struct bytes minute, struct bytes hour, int *ret)
{
    int m = window_value_of(minute, NULL, 0, 0), h = window_value_of(hour, NULL, 0, 0);
    *ret = h * 60 + m;
    return m >= 0 && m <= 59 && h >= 0 && h <= 23;
}

enum status text_window_parse(struct bytes start, struct bytes end, struct text_window *ret_window,
                              struct reason *why)
{
    static const struct limits day = {1, 31, NULL, 0, 0}, month = {1, 12, months, 12, 1},
                               weekday = {0, 6, weekdays, 7, 0},
                               year = {1970, YEAR_MAX, NULL, 0, 0};
    struct text_window w = {.start_minute = 0};
    struct part s = window_split(start), e = window_split(end);
    int from, to;
    for (size_t i = 0; i < start.len; i++)
        if (start.data[i] == '/' || start.data[i] == ',') {
            reason_set(why, "cron.start must not contain \"/,\"");
            return ST_INVALID;
        }
    if (s.n != 6 || e.n != 2) {
        reason_set(why, s.n != 6 ? "cron.start must contain 6 fields"
                                 : "cron.end must contain 2 fields");
        return ST_INVALID;
    }
    reason_set(why, "cron.start or cron.end has a field with an impossible value");
    if (!minute_of_day(s.fields[0], s.fields[1], &w.start_minute) ||
        !minute_of_day(e.fields[0], e.fields[1], &w.end_minute) ||
        !range_of(s.fields[2], &day, &from, &to))
        return ST_INVALID;
    w.days = bits(from, to);
    w.any_day = s.fields[2].data[0] == '*';
    if (!range_of(s.fields[3], &month, &from, &to))
        return ST_INVALID;
    w.months = bits(from, to);
    if (!range_of(s.fields[4], &weekday, &from, &to))
        return ST_INVALID;
    w.weekdays = bits(from, to);
    w.any_weekday = s.fields[4].data[0] == '*';
    if (!range_of(s.fields[5], &year, &w.first_year, &w.last_year))
        return ST_INVALID;
    if (w.end_minute <= w.start_minute) {
        reason_set(why, "cron.end must be after cron.start");
        return ST_INVALID;
    }
    *ret_window = w;
    return ST_OK;
}

bool text_window_has(const struct text_window *w, const struct tm *at)
{
    ASSERT(w->start_minute < w->end_minute);
    ASSERT(at->tm_mday >= 1 && at->tm_mon < 12);
    int minute = at->tm_hour * 60 + at->tm_min, year = at->tm_year + 1900;
    bool day = (w->days >> at->tm_mday & 1) != 0;
    bool weekday = (w->weekdays >> at->tm_wday & 1) != 0;
    bool fits = w->any_day || w->any_weekday ? day && weekday : day || weekday;
    return fits && (w->months >> (at->tm_mon + 1) & 1) != 0 && year >= w->first_year &&
           year <= w->last_year && minute >= w->start_minute && minute < w->end_minute;
}
