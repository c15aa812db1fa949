/* Instants as text. */
#ifndef HOLDFAST_TEXT_TIME_H
#define HOLDFAST_TEXT_TIME_H

#include "base/buf.h"

/* RFC 3339 in UTC: "2024-02-29T12:00:00.25Z"; the fraction without trailing zeroes. `ms` counts
 * from 1970, for years 0 to 9999. */
void text_time_put(struct buf *out, int64_t ms);

#endif
