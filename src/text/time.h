/* Points in time as text. */
#ifndef HOLDFAST_TEXT_TIME_H
#define HOLDFAST_TEXT_TIME_H

#include "base/bytes.h"
#include "base/status.h"

#include <assert.h>

enum { TEXT_TIME_MAX = sizeof "2024-02-29T12:00:00.123Z" - 1 };

#define TEXT_TIME_FIRST INT64_C(-62135596800000) /* the year 1 begins */
#define TEXT_TIME_END INT64_C(253402300800000)   /* the year 10000 begins */

/* Bounds (exclusive) for times that are read from frames, entries and records. TEXT_CLOCK_END
 * bounds the time of a clock. TEXT_EXPIRY_END bounds an expiry: the time of a clock and the longest
 * duration that text_duration_parse accepts. */
#define TEXT_CLOCK_END INT64_C(253370764800000) /* the year 9999 begins */
#define TEXT_EXPIRY_END (INT64_C(1) << 48)      /* in the year 10889 */
#define TEXT_DURATION_MAX_S (INT64_MAX / 1000000000)
static_assert(TEXT_CLOCK_END + TEXT_DURATION_MAX_S * 1000 < TEXT_EXPIRY_END,
              "now and the longest duration make an expiry");

/* Write a time as RFC 3339 in UTC, "2024-02-29T12:00:00.25Z", the fraction without trailing zeros.
 * `ms` counts from 1970. A time outside the years 1 to 9999 is written as the nearest time in these
 * years. Returns the length; the text has no terminating zero. */
size_t text_time(int64_t ms, uint8_t ret_text[TEXT_TIME_MAX]);

/* Read RFC 3339 with any offset; the fraction is cut to milliseconds. ST_INVALID, also outside the
 * years 1 to 9999 in UTC. */
NODISCARD enum status text_time_parse(struct bytes text, int64_t *ret_ms);

enum { TEXT_HTTP_DATE_LEN = sizeof "Sun, 06 Nov 1994 08:49:37 GMT" - 1 };

/* Write the date of an HTTP header (IMF-fixdate, RFC 9110 5.6.7). A time outside the years 1 to
 * 9999 is written as the nearest time in these years. The text has no terminating zero. */
void text_http_date(int64_t ms, uint8_t ret_text[TEXT_HTTP_DATE_LEN]);

#endif
