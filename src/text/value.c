#include "text/value.h"

#include <stdlib.h>

enum { FEW_MEMBERS = 16 }; /* up to this number, comparing all pairs is faster than sorting */

const struct text_value *text_get(const struct text_value *v, const char *name)
{
    if (v == NULL || v->kind != TEXT_OBJECT)
        return NULL;
    TEXT_FOR (member, v)
        if (text_is(member->name, name))
            return member;
    return NULL;
}

enum status text_int_parse(struct bytes digits, int64_t *ret_n)
{
    bool negative = digits.len > 0 && digits.data[0] == '-';
    size_t at = negative ? 1 : 0;
    int64_t n = 0;

    if (at == digits.len)
        return ST_INVALID;
    for (; at < digits.len; at++) {
        int digit = digits.data[at] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_sub_overflow(n, digit, &n)) /* negative: -INT64_MIN does not fit */
            return ST_INVALID;
    }
    if (!negative && n == INT64_MIN)
        return ST_INVALID;
    *ret_n = negative ? n : -n;
    return ST_OK;
}

enum status text_to_int(const struct text_value *v, int64_t *ret_n)
{
    return v->kind == TEXT_NUMBER ? text_int_parse(v->text, ret_n) : ST_INVALID;
}

const char *text_kind_name(enum text_kind kind)
{
    static const char *const names[] = {
        [TEXT_NULL] = "null",       [TEXT_BOOL] = "a boolean", [TEXT_NUMBER] = "a number",
        [TEXT_STRING] = "a string", [TEXT_LIST] = "a list",    [TEXT_OBJECT] = "an object",
    };
    ASSERT((size_t)kind < ARRAY_LEN(names));
    return names[kind];
}

struct text_value *text_value_new(struct arena *arena, struct text_value *parent,
                                  enum text_kind kind, struct bytes name)
{
    ASSERT(parent == NULL || parent->kind == TEXT_LIST || parent->kind == TEXT_OBJECT);
    struct text_value *v = arena_zalloc(arena, sizeof *v);
    if (v == NULL)
        return NULL;
    v->kind = kind;
    v->name = name;
    if (parent == NULL)
        return v;
    if (parent->last == NULL)
        parent->first = v;
    else
        parent->last->next = v;
    parent->last = v;
    parent->n++;
    return v;
}

static bool clash(const struct text_value *a, const struct text_value *b)
{
    return bytes_eq(a->name, b->name) && !(a->block && b->block);
}

static int member_cmp(const void *a, const void *b)
{
    const struct text_value *const *x = a, *const *y = b;
    int order = bytes_cmp((*x)->name, (*y)->name);
    return order != 0 ? order : ((*x)->line > (*y)->line) - ((*x)->line < (*y)->line);
}

enum status text_repeated(struct arena *arena, const struct text_value *object,
                          const struct text_value **ret_member)
{
    ASSERT(object->kind == TEXT_OBJECT);
    *ret_member = NULL;
    if (object->n <= FEW_MEMBERS) {
        TEXT_FOR (a, object)
            for (const struct text_value *b = a->next; b != NULL; b = b->next)
                if (clash(a, b))
                    *ret_member = b;
        return ST_OK;
    }
    const struct text_value **sorted = arena_alloc(arena, object->n * sizeof *sorted);
    if (sorted == NULL)
        return ST_NOMEM;
    size_t n = 0;
    TEXT_FOR (member, object)
        sorted[n++] = member;
    ASSERT(n == object->n);
    qsort(sorted, n, sizeof *sorted, member_cmp);
    for (size_t i = 1; i < n; i++)
        if (clash(sorted[i - 1], sorted[i]))
            *ret_member = sorted[i];
    return ST_OK;
}
