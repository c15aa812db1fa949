/* Kinds of resources: the one description of what a client may send and what a reply has. The
 * modules decode, check and encode by it (src/api/platform), and the OpenAPI document is written
 * from it. */
#ifndef HOLDFAST_FRONT_PLATFORM_PLATFORM_KIND_H
#define HOLDFAST_FRONT_PLATFORM_PLATFORM_KIND_H

#include "base/bytes.h"

enum platform_value {
    PLATFORM_TEXT,
    PLATFORM_FLAG,   /* a boolean; the texts "true" and "false" are taken for it */
    PLATFORM_NUMBER, /* a whole number */
    PLATFORM_TEXTS,  /* a list of texts */
    PLATFORM_ANY,    /* any JSON value */
};

enum platform_trait {
    PLATFORM_REQUIRED = 1 << 0, /* a request that creates must have it, and not empty */
    PLATFORM_SHOWN = 1 << 1,    /* only in replies: a value that a client sends is ignored */
    PLATFORM_SECRET = 1 << 2,   /* only in requests: replies have null */
    PLATFORM_CLEARS = 1 << 3,   /* null in an update clears the value; else null keeps it */
    PLATFORM_FIXED = 1 << 4,    /* an update may not change it */
    PLATFORM_UNSAVED = 1 << 5,  /* read from the request, never stored, never shown */
    PLATFORM_NULL = 1 << 6,     /* replies may have null */
};

struct platform_attr {
    const char *name;
    const char *alias; /* another name that requests may use, and that replies repeat; NULL: none */
    enum platform_value value;
    unsigned traits;           /* bits of enum platform_trait */
    const char *preset;        /* value of an absent attribute, as JSON; NULL: null */
    const char *const *values; /* the texts that are allowed; NULL: any; ends in NULL */
    int64_t min, max;          /* of a number; bytes of a text, items of a list; max 0: no bound */
    /* Check a text. Returns what is wrong, or NULL. */
    const char *(*check)(struct bytes text);
    const char *help;
};

struct platform_kind {
    const char *type;       /* "workspaces" */
    const char *other_type; /* a type that requests may name instead; NULL: none */
    const char *prefix;     /* of ids: "ws-"; NULL: ids are no random texts */
    const char *noun;       /* for errors: "workspace" */
    const struct platform_attr *attrs;
    size_t n;
};

enum platform_reply {
    PLATFORM_NOTHING, /* 204, or a body that is no document */
    PLATFORM_ONE,     /* a document with one resource */
    PLATFORM_LIST,    /* a document with a list of resources, in pages */
};

/* The part of a row that the platform alone needs (route.of_dialect). */
struct platform_row {
    const struct platform_kind *kind;
    enum platform_reply reply;
    const char *permission; /* the right that the handler asks for, in words */
    bool takes;             /* the body is a document of `kind` */
    bool created;           /* the status of a success is 201 */
};

#endif
