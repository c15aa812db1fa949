/* The time in which a scheduled task runs: a line of cron for its start, and an hour for its end
 * (scheduler, B13).
 *
 *   start   "30 9 * * MON-FRI *"   minute hour day-of-month month day-of-week year
 *   end     "0 16"                 minute hour, of the same day, after the start
 *
 * Minute and hour are numbers. Each other field is '*', a value or a range a-b; months and days of
 * the week have names too. Where day of month and day of week are both restricted, either one is
 * enough, as other readers of cron take it. */
#ifndef HOLDFAST_TEXT_WINDOW_H
#define HOLDFAST_TEXT_WINDOW_H

#include "base/bytes.h"
#include "base/status.h"

struct tm;

struct text_window {
    int start_minute, end_minute;    /* of the day */
    uint64_t days, months, weekdays; /* bits */
    int first_year, last_year;
    bool any_day, any_weekday;
};

/* ST_INVALID with a reason. */
NODISCARD enum status text_window_parse(struct bytes start, struct bytes end,
                                        struct text_window *ret_window, struct reason *why);
/* Whether a local time lies in the window. */
bool text_window_has(const struct text_window *window, const struct tm *at);

#endif
