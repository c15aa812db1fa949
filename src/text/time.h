/* Instants as text. */
#ifndef HOLDFAST_TEXT_TIME_H
#define HOLDFAST_TEXT_TIME_H

#include "base/macros.h"

enum { TEXT_TIME_MAX = sizeof "2024-02-29T12:00:00.123Z" - 1 };

#define TEXT_TIME_FIRST INT64_C(-62135596800000) /* the year 1 begins */

/* RFC 3339 in UTC: "2024-02-29T12:00:00.25Z"; the fraction without trailing zeroes. `ms` counts
 * from 1970, for years 1 to 9999. Gives the length; no zero ends it. */
size_t text_time(int64_t ms, uint8_t ret_text[TEXT_TIME_MAX]);

#endif
