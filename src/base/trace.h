/* Log lines for operators: one JSON object a line on standard error. Never pass a secret.
 Any thread. */
#ifndef HOLDFAST_BASE_TRACE_H
#define HOLDFAST_BASE_TRACE_H

#include "base/bytes.h"
#include "base/status.h"

enum trace_level { TRACE_DEBUG, TRACE_INFO, TRACE_WARN, TRACE_ERROR, TRACE_OFF };

/* The lowest level that is written; TRACE_INFO at start. */
void trace_set_level(enum trace_level level);
enum trace_level trace_level(void);

/* The modules, which may have levels of their own: name number i, NULL behind the last. */
const char *trace_module(unsigned i);
enum trace_level trace_level_of(const char *module);
/* ST_NOT_FOUND: no such module. */
NODISCARD enum status trace_set_level_of(const char *module, enum trace_level level);
/* A module follows the others again; NULL: all do. ST_NOT_FOUND. */
NODISCARD enum status trace_follow(const char *module);

/* One line: {"@timestamp","@level","@module",["@node",]"@message"}. `module` is a folder name. */
void trace(enum trace_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with members of its own: `object` is the JSON text of an object that is not empty, of no
 * more than TRACE_FIELDS_MAX bytes, else it is left out. */
enum { TRACE_FIELDS_MAX = 1600 };
void trace_fields(enum trace_level level, const char *module, const char *text,
                  struct bytes object);

/* The same for the reason why the process ends: written whatever the lowest level is. */
void trace_end(enum trace_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A name put into every line of the process, NULL for none. Kept by reference. */
void trace_set_node(const char *name);

/* Tests and the simulator: send lines here instead of standard error, NULL to go back. */
void trace_set_sink(void (*sink)(enum trace_level level, const char *module, const char *text));

#endif
