/* Followers of the log. A follower gets a copy of each line from its level on, also lines below the
 * level that the process logs.
 *
 * 1. The log never waits for a follower: a line is copied into the follower's memory, or counted as
 *    lost if the memory is full.
 * 2. At most TAIL_MAX followers, each with TAIL_BYTES of memory.
 * 3. Lines have no secrets, as the log has none (trace.h).
 *
 * Any thread; a follower is used by one thread at a time. */
#ifndef HOLDFAST_BASE_TRACE_TAIL_H
#define HOLDFAST_BASE_TRACE_TAIL_H

#include "base/trace.h"

enum { TAIL_MAX = 16, TAIL_BYTES = 256 * 1024, TRACE_LINE_MAX = 4096 };

enum tail_format { TAIL_STANDARD, TAIL_JSON };

struct tail;

/* Begin to follow. ST_BUSY: there are TAIL_MAX followers; ST_NOMEM. The caller owns the follower.
 */
NODISCARD enum status tail_open(enum trace_level level, enum tail_format format,
                                struct tail **ret_tail);
void tail_close(struct tail *tail); /* NULL is allowed */

/* Take whole lines, in order, out of the follower's memory. `room` is TRACE_LINE_MAX or more. A
 * line tells how many lines were lost before it. Returns the number of bytes; 0: there is no line.
 */
size_t tail_take(struct tail *tail, void *into, size_t room);

/* For trace.c: the lowest level that a follower wants; TRACE_OFF: there are no followers. */
enum trace_level tail_lowest(void);
/* For trace.c: a line of the standard format, "TIME [LEVEL] module: text", with its newline. `text`
 * is that of the JSON line, whose control characters are escaped. Returns its length. */
size_t tail_put_text(char line[TRACE_LINE_MAX], enum trace_level level, const char *module,
                     const char *stamp, const char *text);
/* For trace.c: give a line to the followers. `json` is the line of the log, with its newline;
 * `stamp` is its time. */
void tail_give(enum trace_level level, const char *module, const char *stamp, const char *text,
               struct bytes json);

#endif
