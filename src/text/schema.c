#include "text/schema.h"
#include "base/mem.h"
#include "text/duration.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

struct decoder {
    struct arena *arena;
    struct reason *why;
};

/* The reason does not quote a string: errors stand readable in audit records, and a client may have
 * put a secret into the wrong field. */
static enum status refuse(struct decoder *d, const struct text_value *v, const char *wanted)
{
    if (v->kind == TEXT_NUMBER)
        reason_set(d->why, "%s is expected, not %.*s", wanted, (int)MIN(v->text.len, 64),
                   (const char *)v->text.data);
    else if (v->kind == TEXT_STRING)
        reason_set(d->why, "%s is expected, not this string", wanted);
    else
        reason_set(d->why, "%s is expected, not %s", wanted, text_kind_name(v->kind));
    return ST_INVALID;
}

enum status text_bool_parse(struct bytes text, bool *ret_truth)
{
    static const char *const words[] = {"1", "t", "T", "true",  "TRUE",  "True",
                                        "0", "f", "F", "false", "FALSE", "False"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (text.len != 0 && text.data[0] == (uint8_t)words[i][0] && text_is(text, words[i])) {
            *ret_truth = i < ARRAY_LEN(words) / 2;
            return ST_OK;
        }
    return ST_INVALID;
}

enum status text_to_bool(const struct text_value *v, bool *ret_truth)
{
    int64_t n;
    switch (v->kind) {
    case TEXT_BOOL: *ret_truth = v->truth; return ST_OK;
    case TEXT_NUMBER:
        TRY(text_to_int(v, &n));
        *ret_truth = n != 0;
        return ST_OK;
    case TEXT_STRING:
        if (v->text.len == 0) {
            *ret_truth = false;
            return ST_OK;
        }
        return text_bool_parse(v->text, ret_truth);
    default: return ST_INVALID;
    }
}

/* Convert a scalar to a string. The string of a string or number points into the tree. */
static enum status to_string(struct decoder *d, const struct text_value *v, const char **ret_text)
{
    if (v->kind == TEXT_BOOL) {
        *ret_text = v->truth ? "1" : "0";
        return ST_OK;
    }
    if (v->kind != TEXT_STRING && v->kind != TEXT_NUMBER)
        return refuse(d, v, "a string");
    if (v->text.len != 0 && memchr(v->text.data, 0, v->text.len) != NULL) {
        reason_set(d->why, "a string without zero characters is expected");
        return ST_INVALID;
    }
    ASSERT(v->text.data[v->text.len] == 0);
    *ret_text = (const char *)v->text.data;
    return ST_OK;
}

static enum status to_int(struct decoder *d, const struct text_value *v, int64_t *ret_n)
{
    bool text = v->kind == TEXT_STRING || v->kind == TEXT_NUMBER;
    if (v->kind == TEXT_BOOL) {
        *ret_n = v->truth;
        return ST_OK;
    }
    return text && text_int_parse(v->text, ret_n) == ST_OK ? ST_OK : refuse(d, v, "a whole number");
}

static enum status to_duration(struct decoder *d, const struct text_value *v, int64_t *ret_s)
{
    bool text = v->kind == TEXT_STRING || v->kind == TEXT_NUMBER;
    return text && text_seconds_parse(v->text, ret_s) == ST_OK
               ? ST_OK
               : refuse(d, v, "a duration in whole seconds such as 90 or \"1h30m\"");
}

static enum status to_size(struct decoder *d, const struct text_value *v, uint64_t *ret_bytes)
{
    bool text = v->kind == TEXT_STRING || v->kind == TEXT_NUMBER;
    return text && text_size_parse(v->text, ret_bytes) == ST_OK
               ? ST_OK
               : refuse(d, v, "a size such as 4096 or \"64MiB\"");
}

/* Split "a, b,c" at the commas. Parts lose the spaces around them; empty parts are left out. A
 * string of nothing but commas and spaces is refused: the list that it would give, an empty one,
 * often means no limit. */
static enum status split_strings(struct decoder *d, const char *text, struct field_strings *ret)
{
    size_t room = 1;
    for (const char *p = text; *p != '\0'; p++)
        room += *p == ',';
    const char **items = arena_alloc(d->arena, room * sizeof *items);
    if (items == NULL)
        return ST_NOMEM;
    *ret = (struct field_strings){.items = items, .given = true};
    for (const char *p = text;; p++) {
        p += strspn(p, " ");
        size_t len = strcspn(p, ","), used = len;
        while (used > 0 && p[used - 1] == ' ')
            used--;
        if (used > 0) {
            ASSERT(ret->n < room);
            items[ret->n] = arena_str(d->arena, bytes_of(p, used));
            if (items[ret->n++] == NULL)
                return ST_NOMEM;
        }
        p += len;
        if (*p == '\0')
            break;
    }
    if (ret->n == 0 && text[0] != '\0') {
        reason_set(d->why, "a list of strings is expected, not commas and spaces alone");
        return ST_INVALID;
    }
    return ST_OK;
}

static enum status to_strings(struct decoder *d, const struct text_value *v,
                              struct field_strings *ret)
{
    const char *text;
    if (v->kind != TEXT_LIST) {
        if (v->kind == TEXT_OBJECT)
            return refuse(d, v, "a list of strings");
        TRY(to_string(d, v, &text));
        return split_strings(d, text, ret);
    }
    const char **items = arena_alloc(d->arena, v->n * sizeof *items);
    if (items == NULL)
        return ST_NOMEM;
    size_t n = 0;
    TEXT_FOR (item, v)
        TRY(to_string(d, item, &items[n++]));
    ASSERT(n == v->n);
    *ret = (struct field_strings){.items = items, .n = n, .given = true};
    return ST_OK;
}

/* Convert one item to a pair: a member of an object (named), or a text "k=v". */
static enum status to_pair(struct decoder *d, const struct text_value *v, bool named,
                           const char **ret_pair)
{
    const char *text;
    TRY(to_string(d, v, &text));
    const char *equals = strchr(text, '=');
    if (named) {
        if (v->name.len != 0 && memchr(v->name.data, 0, v->name.len) != NULL)
            return refuse(d, v, "a name without zero characters");
        ret_pair[0] = arena_str(d->arena, v->name);
        ret_pair[1] = text;
    } else {
        if (equals == NULL)
            return refuse(d, v, "\"key=value\"");
        ret_pair[0] = arena_str(d->arena, bytes_of(text, (size_t)(equals - text)));
        ret_pair[1] = equals + 1;
    }
    return ret_pair[0] != NULL ? ST_OK : ST_NOMEM;
}

static int pair_order(const void *a, const void *b)
{
    const char *const *const *x = a, *const *const *y = b;
    int order = strcmp((*x)[0], (*y)[0]);
    return order != 0 ? order : (*x > *y) - (*x < *y);
}

/* Keep the last pair of each name, as upstream does: a map that is stored as an object must not
 * repeat a name. Sorts, so that a hostile list of n pairs does not take n² steps. */
static enum status drop_repeated(struct decoder *d, const char **pairs, size_t *n)
{
    size_t kept = 0;
    const char ***order = arena_alloc(d->arena, *n * sizeof *order);
    if (order == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < *n; i++)
        order[i] = pairs + 2 * i;
    qsort(order, *n, sizeof *order, pair_order);
    for (size_t i = 1; i < *n; i++)
        if (strcmp(order[i - 1][0], order[i][0]) == 0)
            order[i - 1][1] = NULL;
    for (size_t i = 0; i < *n; i++)
        if (pairs[2 * i + 1] != NULL) {
            pairs[2 * kept] = pairs[2 * i];
            pairs[2 * kept++ + 1] = pairs[2 * i + 1];
        }
    ASSERT((kept != 0) == (*n != 0));
    *n = kept;
    return ST_OK;
}

static enum status to_map(struct decoder *d, const struct text_value *v, struct field_map *ret)
{
    bool many = v->kind == TEXT_OBJECT || v->kind == TEXT_LIST;
    if (!many && v->kind != TEXT_STRING)
        return refuse(d, v, "an object of strings");
    size_t room = many ? v->n : 1, n = 0;
    const char **pairs = arena_alloc(d->arena, 2 * room * sizeof *pairs);
    if (pairs == NULL)
        return ST_NOMEM;
    if (!many)
        TRY(to_pair(d, v, false, pairs + 2 * n++));
    else
        TEXT_FOR (item, v)
            TRY(to_pair(d, item, v->kind == TEXT_OBJECT, pairs + 2 * n++));
    ASSERT(n == room);
    if (v->kind == TEXT_LIST && n > 1) /* the names of an object differ: its reader saw to that */
        TRY(drop_repeated(d, pairs, &n));
    *ret = (struct field_map){.pairs = pairs, .n = n, .given = true};
    return ST_OK;
}

static enum status decode_field(struct decoder *d, const struct field *f,
                                const struct text_value *v, char *out)
{
    void *at = out + f->offset;
    if (f->exact && (v->kind == TEXT_BOOL || (v->text.len == 0 && f->kind != FIELD_STRING)))
        return refuse(d, v, f->kind == FIELD_INT ? "a whole number" : "a duration or a number");
    switch (f->kind) {
    case FIELD_STRING: return to_string(d, v, at);
    case FIELD_BOOL: return text_to_bool(v, at) == ST_OK ? ST_OK : refuse(d, v, "true or false");
    case FIELD_INT: return to_int(d, v, at);
    case FIELD_DURATION: return to_duration(d, v, at);
    case FIELD_SIZE: return to_size(d, v, at);
    case FIELD_STRINGS: return to_strings(d, v, at);
    case FIELD_MAP: return to_map(d, v, at);
    case FIELD_VALUE: *(const struct text_value **)at = v; return ST_OK;
    default: break;
    }
    ASSERT(f->kind < FIELD_OBJECT); /* later kinds are for replies only */
    return ST_INTERNAL;
}

/* For a schema that is `typed`: check the JSON type of a value, and of the items of a list. */
static enum status check_json_type(struct decoder *d, const struct field *f, const struct text_value *v)
{
    ASSERT(v->kind != TEXT_NULL || f->kind == FIELD_VALUE);
    switch (f->kind) {
    case FIELD_STRING: return v->kind == TEXT_STRING ? ST_OK : refuse(d, v, "a string");
    case FIELD_BOOL: return v->kind == TEXT_BOOL ? ST_OK : refuse(d, v, "true or false");
    case FIELD_INT: return v->kind == TEXT_NUMBER ? ST_OK : refuse(d, v, "a whole number");
    case FIELD_STRINGS:
    case FIELD_MAP: break;
    default: return ST_OK; /* durations and sizes have two forms; a tree any */
    }
    bool map = f->kind == FIELD_MAP;
    if (v->kind != (map ? TEXT_OBJECT : TEXT_LIST))
        return refuse(d, v, map ? "an object of strings" : "a list of strings");
    TEXT_FOR (item, v)
        if (item->kind != TEXT_STRING)
            return refuse(d, item, "a string");
    return ST_OK;
}

static bool is_named(const struct schema *schema, const struct field *f, struct bytes name)
{
    if (!schema->fold_case)
        return text_is(name, f->name);
    return name.len == strlen(f->name) &&
           strncasecmp((const char *)name.data, f->name, name.len) == 0;
}

/* Find the member of a field; *ret_found NULL: absent. False: two members have names that differ in
 * case only. */
static bool find_field(const struct schema *schema, const struct field *f,
                       const struct text_value *object, const struct text_value **ret_found)
{
    *ret_found = NULL;
    if (object == NULL)
        return true;
    TEXT_FOR (member, object) {
        if (!is_named(schema, f, member->name))
            continue;
        if (*ret_found != NULL)
            return false;
        *ret_found = member;
        if (!schema->fold_case)
            break;
    }
    return true;
}

/* Whether the value says no more than that the field is not given. */
static bool is_blank(const struct schema *schema, const struct field *f, const struct text_value *v)
{
    if (v->kind == TEXT_NULL)
        return f->kind != FIELD_VALUE;
    if (schema->typed)
        return false;
    bool scalar = f->kind == FIELD_BOOL || f->kind == FIELD_INT || f->kind == FIELD_DURATION ||
                  f->kind == FIELD_SIZE;
    return scalar && !f->exact && v->kind == TEXT_STRING && v->text.len == 0;
}

static enum status decode_one(struct decoder *d, const struct schema *schema, const struct field *f,
                              const struct text_value *object, char *out, uint32_t *ret_line)
{
    const struct text_value *v = NULL;
    struct text_value preset = {.kind = TEXT_STRING};

    ASSERT(f->offset < schema->size);
    ASSERT(f->has < schema->size);
    *ret_line = object != NULL ? object->line : 0;
    if (!find_field(schema, f, object, &v)) {
        reason_set(d->why, "is given twice, with capital letters and without");
        return ST_INVALID;
    }
    *ret_line = v != NULL ? v->line : *ret_line;
    if (v != NULL && is_blank(schema, f, v))
        v = NULL;
    if (v != NULL && schema->typed)
        TRY(check_json_type(d, f, v));
    if (f->has != 0)
        *(bool *)(void *)(out + f->has) = v != NULL;
    if (v == NULL && f->required) {
        reason_set(d->why, "is required");
        return ST_INVALID;
    }
    if (v == NULL && f->preset != NULL) {
        preset.text = bytes_str(f->preset);
        v = &preset;
    }
    return v == NULL ? ST_OK : decode_field(d, f, v, out);
}

/* Whether the decoded presets may be reused for other requests. Lists and maps may not: they lie in
 * the arena. */
static bool keeps_presets(const struct schema *schema)
{
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        if (f->preset != NULL && (f->kind == FIELD_STRINGS || f->kind == FIELD_MAP))
            return false;
    }
    return schema->blank != NULL;
}

/* Cache the decoded form of an empty object. Tables are static, so the copy is never freed. */
static void keep_blank(const struct schema *schema, const void *decoded)
{
    const void *none = NULL;
    void *copy = keeps_presets(schema) ? mem_alloc(schema->size) : NULL;
    if (copy == NULL)
        return;
    memcpy(copy, decoded, schema->size);
    if (!__atomic_compare_exchange_n(schema->blank, &none, copy, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        mem_free(copy); /* another thread was first */
}

enum status schema_decode(const struct schema *schema, const struct text_value *object,
                          struct arena *arena, void *ret_struct, struct schema_fault *ret_fault)
{
    struct decoder d = {.arena = arena, .why = &ret_fault->why};

    ASSERT(object == NULL || object->kind == TEXT_OBJECT);
    bool empty = object == NULL || object->n == 0;
    const void *blank =
        empty && schema->blank != NULL ? __atomic_load_n(schema->blank, __ATOMIC_ACQUIRE) : NULL;
    if (blank != NULL) {
        memcpy(ret_struct, blank, schema->size);
        return ST_OK;
    }
    memset(ret_struct, 0, schema->size);
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        uint32_t line;
        enum status st = decode_one(&d, schema, f, object, ret_struct, &line);
        if (st == ST_INVALID) {
            (void)snprintf(ret_fault->field, sizeof ret_fault->field, "%s",
                           f->name); /* a long name is cut off */
            ret_fault->line = line;
        }
        TRY(st);
    }
    if (empty)
        keep_blank(schema, ret_struct);
    return ST_OK;
}

const struct field *schema_field(const struct schema *schema, struct bytes name)
{
    for (size_t i = 0; i < schema->n; i++)
        if (is_named(schema, &schema->fields[i], name))
            return &schema->fields[i];
    return NULL;
}

const struct text_value *schema_unknown(const struct schema *schema,
                                        const struct text_value *object,
                                        const struct text_value *after)
{
    const struct text_value *member = after != NULL ? after->next : object->first;
    while (member != NULL && schema_field(schema, member->name) != NULL)
        member = member->next;
    return member;
}

static bool field_is_empty(const struct field *f, const void *at)
{
    switch (f->kind) {
    case FIELD_STRING:
    case FIELD_DIGITS: return *(const char *const *)at == NULL || **(const char *const *)at == 0;
    case FIELD_BOOL: return !*(const bool *)at;
    case FIELD_INT:
    case FIELD_DURATION:
    case FIELD_SIZE:
    case FIELD_UINT:
    case FIELD_TIME: return *(const uint64_t *)at == 0;
    case FIELD_STRINGS: return ((const struct field_strings *)at)->n == 0;
    case FIELD_MAP: return ((const struct field_map *)at)->n == 0;
    case FIELD_VALUE:
    case FIELD_TREE: return *(const struct text_value *const *)at == NULL;
    case FIELD_OBJECT: return *(const void *const *)at == NULL;
    case FIELD_BYTES:
    case FIELD_JSON: return ((const struct bytes *)at)->len == 0;
    case FIELD_LIST:
    case FIELD_TABLE:
    case FIELD_OTHERS: return ((const struct field_list *)at)->n == 0;
    }
    return false;
}

static bool is_omitted(const struct field *f, const char *from)
{
    return f->has != 0 ? !*(const bool *)(from + f->has) : field_is_empty(f, from + f->offset);
}

/* Whether a field with `null` is written as null. An empty string or list is not null. */
static bool is_null(const struct field *f, const void *at)
{
    if (f->kind == FIELD_STRING)
        return *(const char *const *)at == NULL;
    return f->kind == FIELD_STRINGS ? !((const struct field_strings *)at)->given
                                    : field_is_empty(f, at);
}

static void encode_strings(const struct field_strings *s, struct text_writer *w)
{
    text_open_list(w);
    for (size_t i = 0; i < s->n; i++)
        text_put_str(w, s->items[i]);
    text_close(w);
}

static void encode_map(const struct field_map *map, struct text_writer *w)
{
    text_open_object(w);
    for (size_t i = 0; i < map->n; i++)
        text_member_str(w, map->pairs[2 * i], map->pairs[2 * i + 1]);
    text_close(w);
}

static void encode_list(const struct field *f, const struct field_list *list, struct text_writer *w)
{
    const char *item = list->items;
    ASSERT(list->n == 0 || (f->sub != NULL && item != NULL));
    text_open_list(w);
    for (size_t i = 0; i < list->n; i++, item += f->sub->size)
        schema_encode(f->sub, item, w);
    text_close(w);
}

/* Write one member for each struct into the open object. */
static void encode_members(const struct field *f, const struct field_list *list,
                           struct text_writer *w)
{
    const char *item = list->items;
    ASSERT(f->sub != NULL && f->sub->named);
    for (size_t i = 0; i < list->n; i++, item += f->sub->size) {
        text_key(w, *(const char *const *)(const void *)(item + f->sub->name));
        schema_encode(f->sub, item, w);
    }
}

static void encode_time(const struct field *f, int64_t ms, struct text_writer *w)
{
    if (f->blank && ms == 0)
        text_put_str(w, "");
    else
        text_put_time(w, ms);
}

static void encode_field(const struct field *f, const void *at, struct text_writer *w)
{
    switch (f->kind) {
    case FIELD_STRING: text_put_str(w, *(const char *const *)at); break;
    case FIELD_BOOL: text_put_bool(w, *(const bool *)at); break;
    case FIELD_INT:
    case FIELD_DURATION: text_put_int(w, *(const int64_t *)at); break;
    case FIELD_SIZE:
    case FIELD_UINT: text_put_uint(w, *(const uint64_t *)at); break;
    case FIELD_STRINGS: encode_strings(at, w); break;
    case FIELD_MAP: encode_map(at, w); break;
    case FIELD_VALUE:
    case FIELD_TREE: text_put_value(w, *(const struct text_value *const *)at); break;
    case FIELD_OBJECT:
        if (*(const void *const *)at == NULL)
            text_put_null(w);
        else
            schema_encode(f->sub, *(const void *const *)at, w);
        break;
    case FIELD_BYTES: text_put_bytes(w, *(const struct bytes *)at); break;
    case FIELD_TIME: encode_time(f, *(const int64_t *)at, w); break;
    case FIELD_JSON: text_put_raw(w, *(const struct bytes *)at); break;
    case FIELD_DIGITS: text_put_raw(w, bytes_str(*(const char *const *)at)); break;
    case FIELD_LIST: encode_list(f, at, w); break;
    case FIELD_TABLE:
        text_open_object(w);
        encode_members(f, at, w);
        text_close(w);
        break;
    case FIELD_OTHERS: encode_members(f, at, w); break;
    }
}

bool schema_is_value(const struct schema *schema)
{
    return schema->n == 1 && schema->fields[0].kind != FIELD_OTHERS &&
           schema->fields[0].name[0] == '\0';
}

void schema_encode(const struct schema *schema, const void *from, struct text_writer *w)
{
    if (schema_is_value(schema)) {
        encode_field(&schema->fields[0], (const char *)from + schema->fields[0].offset, w);
        return;
    }
    text_open_object(w);
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        const char *at = (const char *)from + f->offset;
        if (f->omit && is_omitted(f, from))
            continue;
        if (f->kind != FIELD_OTHERS)
            text_key_raw(w, f->key);
        if (f->null && is_null(f, at))
            text_put_null(w);
        else
            encode_field(f, at, w);
    }
    text_close(w);
}

const char *field_kind_json(enum field_kind kind)
{
    static const char *const names[] = {
        [FIELD_STRING] = "string",    [FIELD_BOOL] = "boolean", [FIELD_INT] = "integer",
        [FIELD_DURATION] = "integer", [FIELD_SIZE] = "integer", [FIELD_STRINGS] = "array",
        [FIELD_MAP] = "object",       [FIELD_VALUE] = "object", [FIELD_OBJECT] = "object",
        [FIELD_UINT] = "integer",     [FIELD_BYTES] = "string", [FIELD_TIME] = "string",
        [FIELD_DIGITS] = "number",    [FIELD_LIST] = "array",   [FIELD_TABLE] = "object",
        [FIELD_OTHERS] = "object",    [FIELD_JSON] = "object",  [FIELD_TREE] = "object",
    };
    ASSERT((size_t)kind < ARRAY_LEN(names));
    return names[kind];
}

static bool is_same_text(const char *one, const char *other)
{
    return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

static bool is_same_list(struct field_strings one, struct field_strings other)
{
    if (one.n != other.n)
        return false;
    for (size_t i = 0; i < one.n; i++)
        if (strcmp(one.items[i], other.items[i]) != 0)
            return false;
    return true;
}

static bool is_same_map(const struct field_map *one, const struct field_map *other)
{
    return is_same_list((struct field_strings){.items = one->pairs, .n = 2 * one->n},
                        (struct field_strings){.items = other->pairs, .n = 2 * other->n});
}

bool field_same(const struct field *f, const void *one, const void *other)
{
    const char *first = one, *second = other;
    const void *a = first + f->offset, *b = second + f->offset;

    ASSERT(!f->hidden); /* a secret is compared in constant time */
    if (f->has != 0 && !*(const bool *)(first + f->has) && !*(const bool *)(second + f->has))
        return true;
    switch (f->kind) {
    case FIELD_STRING: return is_same_text(*(const char *const *)a, *(const char *const *)b);
    case FIELD_BOOL: return *(const bool *)a == *(const bool *)b;
    case FIELD_INT:
    case FIELD_DURATION: return *(const int64_t *)a == *(const int64_t *)b;
    case FIELD_SIZE: return *(const uint64_t *)a == *(const uint64_t *)b;
    case FIELD_STRINGS:
        return is_same_list(*(const struct field_strings *)a, *(const struct field_strings *)b);
    case FIELD_MAP: return is_same_map(a, b);
    default: break;
    }
    ASSERT(f->kind < FIELD_VALUE);
    return false;
}
