#include "router/shape.h"
#include "text/duration.h"

enum { SHAPE_DEPTH_MAX = 16 };

/* The kind that begins at `at` ends at a "|" outside of brackets, or with the text. */
static size_t kind_length(const char *at)
{
    unsigned depth = 0;
    size_t n = 0;
    for (; at[n] != '\0' && (depth > 0 || at[n] != '|'); n++) {
        if (at[n] == '{' || at[n] == '[')
            depth++;
        if (at[n] == '}' || at[n] == ']')
            depth--;
    }
    return n;
}

static bool is_word(struct bytes kind)
{
    return text_is(kind, "none") || text_is(kind, "auth") || text_is(kind, "text") ||
           text_is(kind, "gzip") || text_is(kind, "json");
}

/* *at goes from one kind to the next; false behind the last. */
static bool next_kind(const char **at, struct bytes *ret_kind)
{
    if (*at == NULL || **at == '\0')
        return false;
    size_t n = kind_length(*at);
    *ret_kind = bytes_of(*at, n);
    *at += n + ((*at)[n] == '|');
    return true;
}

bool shape_has(const char *shape, const char *kind)
{
    struct bytes have;
    while (next_kind(&shape, &have))
        if (text_is(have, kind))
            return true;
    return false;
}

const char *shape_type(const char *shape)
{
    struct bytes have;
    while (next_kind(&shape, &have))
        if (!is_word(have))
            return (const char *)have.data;
    return NULL;
}

static const char *write_type(const char *at, unsigned depth, struct text_writer *w);

static struct bytes name_at(const char *at)
{
    return bytes_of(at, strcspn(at, "?:"));
}

/* Behind a member's type: at the next member, or at the "}". */
static const char *skip_type(const char *at)
{
    unsigned depth = 0;
    for (; depth > 0 || (*at != ' ' && *at != '}'); at++) {
        ASSERT(*at != '\0');
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
    }
    return at + (*at == ' ');
}

static const char *after_name(const char *at, bool *ret_optional)
{
    at += name_at(at).len;
    *ret_optional = *at == '?';
    at += *ret_optional;
    ASSERT(*at == ':');
    return at + 1;
}

static void write_required(const char *at, struct text_writer *w)
{
    bool any = false;
    for (bool optional; *at != '}';) {
        struct bytes name = name_at(at);
        const char *type = after_name(at, &optional);
        at = skip_type(type);
        if (optional || text_is(name, "*"))
            continue;
        if (!any) {
            text_key(w, "required");
            text_open_list(w);
        }
        any = true;
        text_put_bytes(w, name);
    }
    if (any)
        text_close(w);
}

/* `at` stands behind the "{"; what is returned, behind the "}". */
static const char *write_members(const char *at, unsigned depth, struct text_writer *w)
{
    const char *others = NULL;
    text_member_str(w, "type", "object");
    write_required(at, w);
    text_key(w, "properties");
    text_open_object(w);
    for (bool optional; *at != '}';) {
        struct bytes name = name_at(at);
        const char *type = after_name(at, &optional);
        at = skip_type(type);
        if (text_is(name, "*")) {
            others = type;
            continue;
        }
        text_key_bytes(w, name);
        (void)write_type(type, depth + 1, w); /* ends where skip_type says */
    }
    text_close(w);
    text_key(w, "additionalProperties");
    if (others != NULL)
        (void)write_type(others, depth + 1, w); /* as above */
    else
        text_put_bool(w, false);
    return at + 1;
}

static void write_map(struct text_writer *w)
{
    text_member_str(w, "type", "object");
    text_key(w, "additionalProperties");
    text_open_object(w);
    text_member_str(w, "type", "string");
    text_close(w);
}

static const char *write_plain(const char *at, struct text_writer *w)
{
    static const char *const names[][2] = {
        {"str", "string"}, {"int", "integer"}, {"bool", "boolean"}, {"obj", "object"}};
    if (strncmp(at, "any", 3) == 0)
        return at + 3;
    if (strncmp(at, "map", 3) == 0) {
        write_map(w);
        return at + 3;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strncmp(at, names[i][0], strlen(names[i][0])) == 0) {
            text_member_str(w, "type", names[i][1]);
            return at + strlen(names[i][0]);
        }
    ASSERT(*at == '\0' && *at != '\0'); /* no such type */
    return at;
}

/* What is returned stands behind the type. */
static const char *write_type(const char *at, unsigned depth, struct text_writer *w)
{
    ASSERT(depth < SHAPE_DEPTH_MAX);
    text_open_object(w);
    if (*at == '{') {
        at = write_members(at + 1, depth, w);
    } else if (*at == '[') {
        text_member_str(w, "type", "array");
        text_key(w, "items");
        at = write_type(at + 1, depth + 1, w);
        ASSERT(*at == ']');
        at++;
    } else {
        at = write_plain(at, w);
    }
    if (*at == '~') {
        text_member_bool(w, "nullable", true);
        at++;
    }
    text_close(w);
    return at;
}

void shape_write(const char *type, struct text_writer *w)
{
    (void)write_type(type, 0, w); /* ends with the kind */
}

/* Tables of fields */

static void write_default(const struct field *f, struct text_writer *w)
{
    int64_t n;
    bool truth;
    switch (f->kind) {
    case FIELD_STRING: text_member_str(w, "default", f->preset); break;
    case FIELD_BOOL:
        if (text_bool_parse(bytes_str(f->preset), &truth) == ST_OK)
            text_member_bool(w, "default", truth);
        break;
    case FIELD_INT:
        if (text_int_parse(bytes_str(f->preset), &n) == ST_OK)
            text_member_int(w, "default", n);
        break;
    case FIELD_DURATION:
        if (text_duration_parse(bytes_str(f->preset), &n) == ST_OK)
            text_member_int(w, "default", n / 1000000000);
        break;
    case FIELD_SIZE:
    case FIELD_STRINGS:
    case FIELD_MAP:
    case FIELD_VALUE:
    case FIELD_OBJECT: break;
    }
}

static void write_kind(const struct field *f, bool answered, struct text_writer *w)
{
    if (f->kind == FIELD_OBJECT || f->kind == FIELD_VALUE)
        return; /* an object is written by its own table, a value is anything */
    if (f->kind == FIELD_MAP) {
        write_map(w);
        return;
    }
    text_member_str(w, "type", field_kind_json(f->kind));
    if (f->kind == FIELD_STRINGS) {
        text_key(w, "items");
        text_open_object(w);
        text_member_str(w, "type", "string");
        text_close(w);
    }
    if (f->kind == FIELD_DURATION && !answered)
        text_member_str(w, "format", "seconds");
}

static void write_field(const struct field *f, bool answered, struct text_writer *w)
{
    if (f->kind == FIELD_OBJECT && f->sub != NULL) {
        shape_write_fields(f->sub, answered, NULL, NULL, w);
        return;
    }
    text_open_object(w);
    write_kind(f, answered, w);
    if (f->help != NULL)
        text_member_str(w, "description", f->help);
    if (!answered && f->preset != NULL && f->preset[0] != '\0' && !f->required)
        write_default(f, w);
    if (f->hidden && f->kind == FIELD_STRING)
        text_member_str(w, "format", "password");
    text_close(w);
}

void shape_write_field(const struct field *field, struct text_writer *w)
{
    write_field(field, false, w);
}

void shape_write_fields(const struct schema *schema, bool answered,
                        bool (*skip)(void *ctx, const char *name), void *ctx, struct text_writer *w)
{
    bool any = false;
    text_open_object(w);
    text_member_str(w, "type", "object");
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        if ((answered ? f->omit : !f->required) || (skip != NULL && skip(ctx, f->name)))
            continue;
        if (!any) {
            text_key(w, "required");
            text_open_list(w);
        }
        any = true;
        text_put_str(w, f->name);
    }
    if (any)
        text_close(w);
    text_key(w, "properties");
    text_open_object(w);
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        if (skip != NULL && skip(ctx, f->name))
            continue;
        text_key(w, f->name);
        write_field(f, answered, w);
    }
    text_close(w);
    if (answered)
        text_member_bool(w, "additionalProperties", false);
    text_close(w);
}
