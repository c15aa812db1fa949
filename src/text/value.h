/* The tree that JSON and HCL text is read into. It lives in the arena of its reader and borrows
 * nothing else; it is never changed after it was read. */
#ifndef HOLDFAST_TEXT_VALUE_H
#define HOLDFAST_TEXT_VALUE_H

#include "base/arena.h"

enum text_kind { TEXT_NULL, TEXT_BOOL, TEXT_NUMBER, TEXT_STRING, TEXT_LIST, TEXT_OBJECT };

struct text_value {
    enum text_kind kind;
    uint32_t line;     /* where it began, from 1 */
    bool truth;        /* TEXT_BOOL */
    bool block;        /* HCL: written as a block, without '=' */
    struct bytes name; /* key of the value, in an object */
    struct bytes text; /* TEXT_STRING: UTF-8, a zero follows; TEXT_NUMBER: as JSON writes it */
    struct text_value *first, *last, *next; /* members in the order written */
    size_t n;                               /* how many members */
};

#define TEXT_FOR(item, parent) \
    for (const struct text_value *item = (parent)->first; item != NULL; item = item->next)

/* The member of that name, the first of several; NULL when absent or `v` is no object (or NULL). */
const struct text_value *text_get(const struct text_value *v, const char *name);

/* Whether a string or name equals `text`. */
static inline bool text_is(struct bytes b, const char *text)
{
    return bytes_eq(b, bytes_str(text));
}

/* 0..15, or 16 when `c` is no hex digit. */
static inline unsigned text_hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - (unsigned)'0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - (unsigned)'a' + 10 : 16;
}

/* A number that is a whole one within the range, exactly. ST_INVALID. */
NODISCARD enum status text_to_int(const struct text_value *v, int64_t *ret_n);
/* The same for digits outside a tree: optional '-', no '+', no other base. */
NODISCARD enum status text_int_parse(struct bytes digits, int64_t *ret_n);

/* A member whose name another one has already, blocks aside; NULL when there is none. Sorts, so
 * that a hostile object does not cost the square of its size. ST_NOMEM. */
NODISCARD enum status text_repeated(struct arena *arena, const struct text_value *object,
                                    const struct text_value **ret_member);

/* "an object", "a string" and so on, for messages. */
const char *text_kind_name(enum text_kind kind);

/* For readers and for handlers that build a tree: a value of the arena, appended to `parent` (may
 * be NULL). NULL when out of memory. `text` and `name` are kept as given. */
struct text_value *text_value_new(struct arena *arena, struct text_value *parent,
                                  enum text_kind kind, struct bytes name);

#endif
