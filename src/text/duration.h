/* Durations and sizes as people write them. */
#ifndef HOLDFAST_TEXT_DURATION_H
#define HOLDFAST_TEXT_DURATION_H

#include "base/buf.h"
#include "base/status.h"

/* Read a duration: "" and "0" are 0; whole seconds "90"; days "2d"; Go's form "1h30m", "1.5h",
 * "250ms" with the units h m s ms us ns. Never negative. ST_INVALID, also beyond 2^63 - 1 ns (292
 * years). */
NODISCARD enum status text_duration_parse(struct bytes text, int64_t *ret_ns);

/* As text_duration_parse, in whole seconds: a fraction of a second is ST_INVALID. Cut off, "500ms"
 * would become 0, which often means no limit. */
NODISCARD enum status text_seconds_parse(struct bytes text, int64_t *ret_s);

/* Seconds ≥ 0 as people write them, without parts that are 0: "0s", "90s" as "1m30s", "1000h". */
enum { TEXT_SPAN_MAX = 40 };
const char *text_span(int64_t seconds, char text[TEXT_SPAN_MAX]);
/* Write a duration ≥ 0 in Go's form: "0s", "250ms", "1h30m0s". */
void text_duration_put(struct buf *out, int64_t ns);

/* Read a size in bytes: "4096", "64KiB"; no fraction. KB MB GB TB are powers of 1000, KiB MiB GiB
 * TiB powers of 1024. ST_INVALID. */
NODISCARD enum status text_size_parse(struct bytes text, uint64_t *ret_bytes);

#endif
