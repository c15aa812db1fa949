#include "base/trace.h"

#include "base/trace_tail.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_MAX_BYTES = 1024 };

static _Atomic enum trace_level lowest = TRACE_INFO;
static _Atomic(const char *) node_name;
static void (*_Atomic line_sink)(enum trace_level, const char *, const char *);

static const char *const modules[] = {"audit", "auth",   "http",  "main",  "mesh", "node",
                                      "raft",  "router", "state", "store", "sys"};
/* For each module, its own level + 1; 0: the module has the common level. */
static _Atomic int own_levels[ARRAY_LEN(modules)];
static _Atomic bool any_own;
static _Atomic bool is_text;

static size_t find_module(const char *name)
{
    size_t i = 0;
    while (i < ARRAY_LEN(modules) && strcmp(modules[i], name) != 0)
        i++;
    return i;
}

const char *trace_module(unsigned i)
{
    return i < ARRAY_LEN(modules) ? modules[i] : NULL;
}

enum trace_level trace_level_of(const char *module)
{
    size_t i = any_own ? find_module(module) : ARRAY_LEN(modules);
    int own = i < ARRAY_LEN(modules) ? own_levels[i] : 0;
    return own != 0 ? (enum trace_level)(own - 1) : lowest;
}

enum status trace_set_level_of(const char *module, enum trace_level level)
{
    ASSERT(level <= TRACE_OFF);
    size_t i = find_module(module);
    if (i == ARRAY_LEN(modules))
        return ST_NOT_FOUND;
    own_levels[i] = (int)level + 1;
    any_own = true;
    return ST_OK;
}

enum status trace_follow(const char *module)
{
    size_t i = module != NULL ? find_module(module) : 0;
    size_t end = module != NULL ? i + 1 : ARRAY_LEN(modules);
    if (i == ARRAY_LEN(modules))
        return ST_NOT_FOUND;
    for (; i < end; i++)
        own_levels[i] = 0;
    return ST_OK;
}

void trace_set_level(enum trace_level level)
{
    ASSERT(level <= TRACE_OFF);
    lowest = level;
}

enum trace_level trace_level(void)
{
    return lowest;
}

void trace_set_text(bool text)
{
    is_text = text;
}

void trace_set_node(const char *name)
{
    node_name = name;
}

void trace_set_sink(void (*sink)(enum trace_level level, const char *module, const char *text))
{
    line_sink = sink;
}

/* Write `text` as the content of a JSON string. Bytes that are not printable ASCII become \u00XX.
 */
static size_t escape(char *out, size_t room, const char *text)
{
    size_t n = 0;
    for (; *text != '\0' && n + 7 < room; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            n += (size_t)snprintf(out + n, room - n, "\\%c", c);
        else if (c < 0x20 || c >= 0x7F)
            n += (size_t)snprintf(out + n, room - n, "\\u%04x", c);
        else
            out[n++] = (char)c;
    }
    out[n] = '\0';
    return n;
}

/* Put a line of text, with the members of `more` behind the message, into `line`. */
static size_t show_as_text(char line[TRACE_LINE_MAX], enum trace_level level, const char *module,
                           const char *stamp, const char *text, struct bytes more)
{
    char message[TRACE_LINE_MAX];
    bool plain = more.len == 0;
    ASSERT(plain || more.data[0] == ',');
    ASSERT(level < TRACE_OFF);
    (void)snprintf(message, sizeof message, "%s%s%.*s%s", text, plain ? "" : " {",
                   plain ? 0 : (int)more.len - 1, (const char *)more.data + (plain ? 0 : 1),
                   plain ? "" : "}"); /* a line that is cut off is still useful */
    return tail_put_text(line, level, module, stamp, message);
}

/* Write one line, and give it to followers. `more` is JSON text behind the message,
 * ",\"name\":value" for each member; may be empty. `logged` false: the line is for followers only.
 */
static void write_line(enum trace_level level, const char *module, const char *text,
                       struct bytes more, bool logged)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char line[TRACE_LINE_MAX], safe[TEXT_MAX_BYTES + 512], day[32], stamp[64];
    const char *node = node_name;
    struct timespec now;
    struct tm tm;

    ASSERT(level < TRACE_OFF);                 /* no line has this level */
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
    (void)gmtime_r(&now.tv_sec, &tm);          /* the year fits */
    (void)strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(stamp, sizeof stamp, "%s.%06ldZ", day, now.tv_nsec / 1000); /* fits */
    (void)escape(safe, sizeof safe, text);
    int n = snprintf(line, sizeof line,
                     "{\"@timestamp\":\"%s\",\"@level\":\"%s\",\"@module\":\"%s\"%s%s%s,\"@"
                     "message\":\"%s\"%.*s}\n",
                     stamp, names[level], module, node != NULL ? ",\"@node\":\"" : "",
                     node != NULL ? node : "", node != NULL ? "\"" : "", safe, (int)more.len,
                     (const char *)more.data);
    size_t len = n > 0 ? MIN((size_t)n, sizeof line - 1) : 0;
    if (level >= tail_lowest())
        tail_give(level, module, stamp, safe, bytes_of(line, len));
    if (logged && is_text)
        len = show_as_text(line, level, module, stamp, safe, more);
    if (logged && write(STDERR_FILENO, line, len) < 0)
        return; /* there is no other place to report the failure */
}

/* Whether a follower wants a line that the process does not log. */
static bool is_followed(enum trace_level level)
{
    return level >= tail_lowest();
}

static void say_line(enum trace_level level, const char *module, const char *format, va_list args,
                     bool logged)
{
    char text[TEXT_MAX_BYTES];
    (void)vsnprintf(text, sizeof text, format, args); /* a line that is cut off is still useful */
    void (*sink)(enum trace_level, const char *, const char *) = line_sink;
    if (sink == NULL)
        write_line(level, module, text, (struct bytes){(const uint8_t *)"", 0}, logged);
    else if (logged)
        sink(level, module, text);
}

void trace_fields(enum trace_level level, const char *module, const char *text, struct bytes object)
{
    char more[TRACE_FIELDS_MAX] = "";
    size_t n = 0;
    void (*sink)(enum trace_level, const char *, const char *) = line_sink;
    bool logged = level >= trace_level_of(module);
    if (!logged && !is_followed(level))
        return;
    if (object.len > 2 && object.len <= TRACE_FIELDS_MAX) {
        n = object.len - 1; /* a comma in place of the opening brace, no closing brace */
        memcpy(more, object.data, n);
        more[0] = ',';
    }
    if (sink == NULL)
        write_line(level, module, text, bytes_of((const uint8_t *)more, n), logged);
    else if (logged)
        sink(level, module, text);
}

void trace(enum trace_level level, const char *module, const char *format, ...)
{
    va_list args;
    bool logged = level >= trace_level_of(module);
    if (!logged && !is_followed(level))
        return;
    va_start(args, format);
    say_line(level, module, format, args, logged);
    va_end(args);
}

void trace_end(enum trace_level level, const char *module, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_line(level, module, format, args, true);
    va_end(args);
}
