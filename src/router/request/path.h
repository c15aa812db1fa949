/* Request targets and form bodies. */
#ifndef HOLDFAST_ROUTER_REQUEST_PATH_H
#define HOLDFAST_ROUTER_REQUEST_PATH_H

#include "text/value.h"

enum { PATH_BYTES_MAX = 3000, PATH_PAIRS_MAX = 1000 };

/* The path of a request target in its canonical form: percent-decoded once, repeated slashes made
 * one. Every decision about a request uses this form, so that a path has one meaning however it is
 * written. A '/' at the end is kept: it says that a folder is meant. */
struct path_target {
    /* the whole path from '/' on, zero-terminated; data NULL: the target is malformed */
    struct bytes full;
    struct bytes path; /* the part below a dialect's root, zero-terminated; data NULL: none */
    const char *fault; /* why the target is malformed; NULL: the target is well formed */
    /* a malformed target as the client sent it, PATH_BYTES_MAX at most; data NULL: well formed */
    struct bytes malformed;
    bool as_sent; /* `full` equals, byte for byte, what the client sent */
};

/* `raw` is the target without its query, so without '?'. ST_OK, also for a malformed target, which
 * gets no `path`; ST_NOMEM. */
NODISCARD enum status path_canonical(struct arena *arena, struct bytes raw,
                                     struct path_target *ret_target);

/* A well-formed target as it is sent to another node, which gets the same canonical form from it.
 * ST_NOMEM. */
NODISCARD enum status path_encode(struct arena *arena, const struct path_target *target,
                                  struct bytes *ret_raw);

/* Set target->path to what follows a root such as "/v1/". */
void path_set_root(struct path_target *target, const char *root);

/* `path`, zero-terminated, as a folder, which ends in '/'; an empty path stays empty. ST_NOMEM. */
NODISCARD enum status path_folder(struct arena *arena, struct bytes path, struct bytes *ret_folder);

/* The path without the '/' at its end. */
static inline struct bytes path_trimmed(struct bytes path)
{
    path.len -= path.len != 0 && path.data[path.len - 1] == '/';
    return path;
}

/* Decode a text in which '+' is a space and "%2F" a slash into zero-terminated text in the arena.
 * ST_INVALID: a malformed escape, or the result is not UTF-8; ST_NOMEM. */
NODISCARD enum status path_unescape(struct arena *arena, struct bytes raw, struct bytes *ret_text);

/* "a=1&b=x+y&a=2" as an object of strings; a name that is repeated gives a list. Also for bodies of
 * application/x-www-form-urlencoded. ST_INVALID with a reason; ST_NOMEM. */
NODISCARD enum status path_parse_pairs(struct arena *arena, struct bytes text,
                                       struct text_value **ret_object, struct reason *reason);

#endif
