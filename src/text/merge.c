#include "text/merge.h"

#include <stdlib.h>

/* The members of an object, sorted by name. */
struct index {
    const struct text_value **items;
    size_t n;
};

static int by_name(const void *a, const void *b)
{
    const struct text_value *const *x = a, *const *y = b;
    return bytes_cmp((*x)->name, (*y)->name);
}

static enum status index_of(struct arena *arena, const struct text_value *object, struct index *ret)
{
    size_t n = 0;
    ret->n = object != NULL ? object->n : 0;
    ret->items = arena_alloc(arena, (ret->n + 1) * sizeof *ret->items);
    if (ret->items == NULL)
        return ST_NOMEM;
    if (ret->n == 0)
        return ST_OK;
    TEXT_FOR (v, object)
        ret->items[n++] = v;
    ASSERT(n == ret->n);
    qsort(ret->items, n, sizeof *ret->items, by_name);
    return ST_OK;
}

static const struct text_value *find(const struct index *index, struct bytes name)
{
    const struct text_value wanted = {.name = name}, *key = &wanted;
    if (index->n == 0)
        return NULL;
    const struct text_value **found =
        bsearch(&key, index->items, index->n, sizeof *index->items, by_name);
    return found != NULL ? *found : NULL;
}

/* Append a copy of `v` with the given name to `parent`. The copy shares the members of `v`. */
static enum status add(struct arena *arena, struct text_value *parent, struct bytes name,
                       const struct text_value *v)
{
    struct text_value *copy = text_value_new(arena, parent, v->kind, name);
    if (copy == NULL)
        return ST_NOMEM;
    copy->truth = v->truth;
    copy->text = v->text;
    copy->first = v->first;
    copy->last = v->last;
    copy->n = v->n;
    return ST_OK;
}

/* Merge one member; `patch` is not null. The recursion is as deep as the patch. */
static enum status add_merged(struct arena *arena, struct text_value *parent,
                              const struct text_value *target, const struct text_value *patch)
{
    const struct text_value *merged;
    ASSERT(patch->kind != TEXT_NULL);
    TRY(text_merge_patch(arena, target, patch, &merged));
    return add(arena, parent, patch->name, merged);
}

enum status text_merge_patch(struct arena *arena, const struct text_value *target,
                             const struct text_value *patch, const struct text_value **ret_value)
{
    struct index old, changes;
    if (patch->kind != TEXT_OBJECT) {
        *ret_value = patch;
        return ST_OK;
    }
    if (target != NULL && target->kind != TEXT_OBJECT)
        target = NULL;
    struct text_value *result = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    if (result == NULL)
        return ST_NOMEM;
    TRY(index_of(arena, target, &old));
    TRY(index_of(arena, patch, &changes));
    if (target != NULL) {
        TEXT_FOR (v, target) {
            const struct text_value *change = find(&changes, v->name);
            if (change == NULL)
                TRY(add(arena, result, v->name, v));
            else if (change->kind != TEXT_NULL)
                TRY(add_merged(arena, result, v, change));
        }
    }
    TEXT_FOR (v, patch)
        if (v->kind != TEXT_NULL && find(&old, v->name) == NULL)
            TRY(add_merged(arena, result, NULL, v));
    ASSERT(result->n <= old.n + changes.n);
    *ret_value = result;
    return ST_OK;
}
