/* Values of attributes and links (platform_object.h). */
#include "api/platform/platform_object.h"

const char *platform_text(const struct text_value *object, const char *name)
{
    const struct text_value *v = text_get(object, name);
    return v != NULL && v->kind == TEXT_STRING ? (const char *)v->text.data : "";
}

bool platform_flag(const struct text_value *object, const char *name)
{
    const struct text_value *v = text_get(object, name);
    return v != NULL && v->kind == TEXT_BOOL && v->truth;
}

int64_t platform_number(const struct text_value *object, const char *name)
{
    int64_t n = 0;
    const struct text_value *v = text_get(object, name);
    return v != NULL && v->kind == TEXT_NUMBER && text_to_int(v, &n) == ST_OK ? n : 0;
}

bool platform_has(const struct text_value *object, const char *name, const char *text)
{
    const struct text_value *list = text_get(object, name);
    if (list == NULL || list->kind != TEXT_LIST)
        return false;
    TEXT_FOR (v, list)
        if (v->kind == TEXT_STRING && text_is(v->text, text))
            return true;
    return false;
}

enum status platform_set(struct arena *arena, struct text_value *object, const char *name,
                         const struct text_value *value)
{
    struct text_value *at = NULL;
    for (struct text_value *v = object->first; v != NULL && at == NULL; v = v->next)
        if (text_is(v->name, name))
            at = v;
    if (at == NULL)
        at = text_value_new(arena, object, value->kind, bytes_str(name));
    if (at == NULL)
        return ST_NOMEM;
    struct text_value whole = *value;
    whole.name = at->name;
    whole.next = at->next;
    *at = whole;
    return ST_OK;
}

enum status platform_set_text(struct arena *arena, struct text_value *object, const char *name,
                              const char *text)
{
    return platform_set(arena, object, name,
                        &(struct text_value){.kind = TEXT_STRING, .text = bytes_str(text)});
}

enum status platform_set_flag(struct arena *arena, struct text_value *object, const char *name,
                              bool truth)
{
    return platform_set(arena, object, name,
                        &(struct text_value){.kind = TEXT_BOOL, .truth = truth});
}

enum status platform_set_number(struct arena *arena, struct text_value *object, const char *name,
                                int64_t n)
{
    const char *digits = arena_format(arena, "%lld", (long long)n);
    if (digits == NULL)
        return ST_NOMEM;
    return platform_set(arena, object, name,
                        &(struct text_value){.kind = TEXT_NUMBER, .text = bytes_str(digits)});
}

enum status platform_set_null(struct arena *arena, struct text_value *object, const char *name)
{
    return platform_set(arena, object, name, &(struct text_value){.kind = TEXT_NULL});
}

/* A copy of the list `name` without `text`; an absent list is empty. */
static struct text_value *list_without(struct arena *arena, const struct text_value *object,
                                       const char *name, const char *text)
{
    const struct text_value *list = text_get(object, name);
    struct text_value *copy = text_value_new(arena, NULL, TEXT_LIST, (struct bytes){0});
    if (copy == NULL || list == NULL || list->kind != TEXT_LIST)
        return copy;
    TEXT_FOR (v, list) {
        if (v->kind != TEXT_STRING || text_is(v->text, text))
            continue;
        struct text_value *item = text_value_new(arena, copy, TEXT_STRING, (struct bytes){0});
        if (item == NULL)
            return NULL;
        item->text = v->text;
    }
    return copy;
}

enum status platform_list_add(struct arena *arena, struct text_value *object, const char *name,
                              const char *text)
{
    struct text_value *list = list_without(arena, object, name, text);
    struct text_value *item =
        list != NULL ? text_value_new(arena, list, TEXT_STRING, (struct bytes){0}) : NULL;
    if (item == NULL)
        return ST_NOMEM;
    item->text = bytes_str(text);
    return platform_set(arena, object, name, list);
}

enum status platform_list_remove(struct arena *arena, struct text_value *object, const char *name,
                                 const char *text)
{
    struct text_value *list = list_without(arena, object, name, text);
    return list != NULL ? platform_set(arena, object, name, list) : ST_NOMEM;
}
