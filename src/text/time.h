/* Instants as text. */
#ifndef HOLDFAST_TEXT_TIME_H
#define HOLDFAST_TEXT_TIME_H

#include "base/bytes.h"
#include "base/status.h"

#include <assert.h>

enum { TEXT_TIME_MAX = sizeof "2024-02-29T12:00:00.123Z" - 1 };

#define TEXT_TIME_FIRST INT64_C(-62135596800000) /* the year 1 begins */
#define TEXT_TIME_END INT64_C(253402300800000)   /* the year 10000 begins */

/* Bounds (exclusive) for times that are read from frames, entries and records. A clock tells no
 * later time than the first. An expiry is such a time and a duration, which text_duration_parse
 * bounds: it stays below the second. */
#define TEXT_CLOCK_END INT64_C(253370764800000) /* the year 9999 begins */
#define TEXT_EXPIRY_END (INT64_C(1) << 48)      /* in the year 10889 */
#define TEXT_DURATION_MAX_S (INT64_MAX / 1000000000)
static_assert(TEXT_CLOCK_END + TEXT_DURATION_MAX_S * 1000 < TEXT_EXPIRY_END,
              "now and the longest duration make an expiry");

/* RFC 3339 in UTC: "2024-02-29T12:00:00.25Z"; the fraction without trailing zeroes. `ms` counts
 * from 1970; a time outside of the years 1 to 9999 is written as the nearest in them. Gives the
 * length; no zero ends it. */
size_t text_time(int64_t ms, uint8_t ret_text[TEXT_TIME_MAX]);

/* RFC 3339 with any offset, the fraction cut to milliseconds; years 1 to 9999 in UTC. ST_INVALID.
 */
NODISCARD enum status text_time_parse(struct bytes text, int64_t *ret_ms);

enum { TEXT_HTTP_DATE_LEN = sizeof "Sun, 06 Nov 1994 08:49:37 GMT" - 1 };

/* The date of an HTTP header (IMF-fixdate, RFC 9110 5.6.7). A time outside of the years 1 to 9999
 * is written as the nearest in them. No zero ends the text. */
void text_http_date(int64_t ms, uint8_t ret_text[TEXT_HTTP_DATE_LEN]);

#endif
