/* Log lines for operators on standard error: one JSON object a line, or text. Never pass a secret.
 * Any thread. */
#ifndef HOLDFAST_BASE_TRACE_H
#define HOLDFAST_BASE_TRACE_H

#include "base/bytes.h"
#include "base/status.h"

enum trace_level { TRACE_DEBUG, TRACE_INFO, TRACE_WARN, TRACE_ERROR, TRACE_OFF };

/* The lowest level that is written; TRACE_INFO at start. */
void trace_set_level(enum trace_level level);
enum trace_level trace_level(void);

/* The name of the i-th module that may have a level of its own; NULL: there are fewer. */
const char *trace_module(unsigned i);
enum trace_level trace_level_of(const char *module);
/* Give a module a level of its own. ST_NOT_FOUND: no such module. */
NODISCARD enum status trace_set_level_of(const char *module, enum trace_level level);
/* The module has the common level again; NULL: all modules have. ST_NOT_FOUND: no such module. */
NODISCARD enum status trace_follow(const char *module);

/* Whether lines on standard error are text, "TIME [LEVEL] module: message"; at start they are JSON.
 */
void trace_set_text(bool text);

/* One line: {"@timestamp","@level","@module",["@node",]"@message"}. `module` is a folder name. */
void trace(enum trace_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One line with further members: those of `object`, the JSON text of an object that is not empty.
 * An object above TRACE_FIELDS_MAX bytes is left out. */
enum { TRACE_FIELDS_MAX = 1600 };
void trace_fields(enum trace_level level, const char *module, const char *text,
                  struct bytes object);

/* One line with the reason why the process ends: written at every level, TRACE_OFF included. */
void trace_end(enum trace_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The node's name, which every line then contains; NULL: none. The pointer is kept. */
void trace_set_node(const char *name);

/* For tests and the simulator: give lines to `sink` instead of standard error; NULL: standard error
 * again. */
void trace_set_sink(void (*sink)(enum trace_level level, const char *module, const char *text));

#endif
