/* The tree that the readers of JSON and HCL produce. A tree lies in the arena of its reader, points
 * to nothing outside the arena, and does not change after it was read. */
#ifndef HOLDFAST_TEXT_VALUE_H
#define HOLDFAST_TEXT_VALUE_H

#include "base/arena.h"

enum text_kind { TEXT_NULL, TEXT_BOOL, TEXT_NUMBER, TEXT_STRING, TEXT_LIST, TEXT_OBJECT };

struct text_value {
    enum text_kind kind;
    uint32_t line;     /* the line on which the value begins; the first line is 1 */
    bool truth;        /* TEXT_BOOL */
    bool block;        /* HCL: written as a block, without '=' */
    struct bytes name; /* of a member of an object: its key */
    struct bytes text; /* TEXT_STRING: UTF-8, a zero follows; TEXT_NUMBER: the number in JSON */
    struct text_value *first,
        *last;               /* members of an object, items of a list, in the text's order */
    struct text_value *next; /* the next member of the same object or list */
    size_t n;                /* number of members */
};

#define TEXT_FOR(item, parent) \
    for (const struct text_value *item = (parent)->first; item != NULL; item = item->next)

/* The first member with this name. NULL: no such member, or `v` is no object, or `v` is NULL. */
const struct text_value *text_get(const struct text_value *v, const char *name);

/* Whether a string or name equals `text`. */
static inline bool text_is(struct bytes b, const char *text)
{
    return bytes_eq(b, bytes_str(text));
}

/* The value of a hex digit, 0..15; 16 when `c` is no hex digit. */
static inline unsigned text_hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - (unsigned)'0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - (unsigned)'a' + 10 : 16;
}

/* Read a number that consists of digits and an optional '-'. ST_INVALID: no number, a fraction or
 * an exponent, or out of range. */
NODISCARD enum status text_to_int(const struct text_value *v, int64_t *ret_n);
/* Read decimal digits with an optional '-', no '+'. ST_INVALID. */
NODISCARD enum status text_int_parse(struct bytes digits, int64_t *ret_n);

/* Find a member whose name an earlier member has, other than two blocks; NULL: none. Sorts the
 * members, so that a hostile object of n members does not take n² steps. ST_NOMEM. */
NODISCARD enum status text_repeated(struct arena *arena, const struct text_value *object,
                                    const struct text_value **ret_member);

/* The kind in words, for messages: "an object", "a string". */
const char *text_kind_name(enum text_kind kind);

/* For code that builds a tree: a new value in the arena, appended to `parent` unless that is NULL.
 * `name` is not copied. NULL when out of memory. */
struct text_value *text_value_new(struct arena *arena, struct text_value *parent,
                                  enum text_kind kind, struct bytes name);

#endif
