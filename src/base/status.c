#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name, *text;
    int http;
} table[] = {
#define STATUS_ROW(name, http, text) [ST_##name] = {"ST_" #name, text, http},
    STATUS_TABLE(STATUS_ROW)
#undef STATUS_ROW
};

static bool known(enum status st)
{
    return (unsigned)st < ARRAY_LEN(table);
}

const char *status_text(enum status st)
{
    return known(st) ? table[st].text : "unknown status";
}

const char *status_name(enum status st)
{
    return known(st) ? table[st].name : "ST_?";
}

int status_http(enum status st)
{
    return known(st) ? table[st].http : 500;
}

enum status status_from_errno(int err)
{
    switch (err) {
    case 0: return ST_OK;
    case ENOENT: return ST_NOT_FOUND;
    case EEXIST: return ST_EXISTS;
    case ENOSPC:
    case EDQUOT: return ST_NO_SPACE;
    case ENOMEM: return ST_NOMEM;
    case EACCES:
    case EPERM: return ST_DENIED;
    case EWOULDBLOCK: return ST_BUSY;
    default: return ST_IO;
    }
}

void reason_set(struct reason *reason, const char *format, ...)
{
    va_list args;
    if (reason == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(reason->text, sizeof reason->text, format,
                    args); /* a text that is cut off is still useful */
    va_end(args);
}

void assert_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "Assertion failed: %s, at %s:%d\n", condition, file,
                  line); /* the process aborts next */
    abort();
}
