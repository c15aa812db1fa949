#include "router/openapi/shape.h"
#include "text/duration.h"

enum { SHAPE_DEPTH_MAX = 16 };

static bool opens(char c)
{
    return c == '{' || c == '[' || c == '(';
}

static bool closes(char c)
{
    return c == '}' || c == ']' || c == ')';
}

/* The kind that begins at `at` ends at a "|" outside of brackets, or with the text. */
static size_t kind_length(const char *at)
{
    unsigned depth = 0;
    size_t n = 0;
    for (; at[n] != '\0' && (depth > 0 || at[n] != '|'); n++) {
        depth += opens(at[n]);
        depth -= closes(at[n]);
    }
    return n;
}

static bool is_word(struct bytes kind)
{
    return text_is(kind, "text") || text_is(kind, "openmetrics") || text_is(kind, "gzip") ||
           text_is(kind, "bytes") || text_is(kind, "json");
}

/* Move `at` from one kind to the next; false after the last kind. */
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

struct shaper {
    const struct schema *reply; /* schema that "@" stands for */
    struct text_writer *w;
};

static const char *write_type(const struct shaper *s, const char *at, unsigned depth);
static void write_field(const struct field *f, bool replied, struct text_writer *w);

static struct bytes name_at(const char *at)
{
    return bytes_of(at, strcspn(at, "?:"));
}

/* Skip the type of a member. Returns the text at the next member or at the "}". */
static const char *skip_type(const char *at)
{
    unsigned depth = 0;
    for (; depth > 0 || (*at != ' ' && *at != '}'); at++) {
        ASSERT(*at != '\0');
        depth += opens(*at);
        depth -= closes(*at);
    }
    return at + (*at == ' ');
}

/* The text behind the "@" at `at`; NULL where there is no "@". */
static const char *after_table(const struct shaper *s, const char *at)
{
    if (*at != '@')
        return NULL;
    ASSERT(s->reply != NULL);
    return at + 1 + (at[1] == ' ');
}

static const char *after_name(const char *at, bool *ret_optional)
{
    at += name_at(at).len;
    *ret_optional = *at == '?';
    at += *ret_optional;
    ASSERT(*at == ':');
    return at + 1;
}

static void require(struct bytes name, bool *any, struct text_writer *w)
{
    if (!*any) {
        text_key(w, "required");
        text_open_list(w);
    }
    *any = true;
    text_put_bytes(w, name);
}

static void write_required(const struct shaper *s, const char *at)
{
    bool any = false, optional;
    while (*at != '}') {
        const char *next = after_table(s, at);
        for (size_t i = 0; next != NULL && i < s->reply->n; i++)
            if (!s->reply->fields[i].omit)
                require(bytes_str(s->reply->fields[i].name), &any, s->w);
        if (next == NULL) {
            struct bytes name = name_at(at);
            next = skip_type(after_name(at, &optional));
            if (!optional && !text_is(name, "*"))
                require(name, &any, s->w);
        }
        at = next;
    }
    if (any)
        text_close(s->w);
}

/* Write members. `at` stands behind the "{"; the result points behind the "}". */
static const char *write_members(const struct shaper *s, const char *at, unsigned depth)
{
    const char *others = NULL;
    ASSERT(depth < SHAPE_DEPTH_MAX);
    text_member_str(s->w, "type", "object");
    write_required(s, at);
    text_key(s->w, "properties");
    text_open_object(s->w);
    for (bool optional; *at != '}';) {
        const char *next = after_table(s, at);
        for (size_t i = 0; next != NULL && i < s->reply->n; i++) {
            text_key(s->w, s->reply->fields[i].name);
            write_field(&s->reply->fields[i], true, s->w);
        }
        if (next == NULL) {
            struct bytes name = name_at(at);
            const char *type = after_name(at, &optional);
            next = skip_type(type);
            if (text_is(name, "*")) {
                others = type;
            } else {
                text_key_bytes(s->w, name);
                (void)write_type(s, type, depth + 1); /* write_type ends where skip_type ends */
            }
        }
        at = next;
    }
    text_close(s->w);
    text_key(s->w, "additionalProperties");
    if (others != NULL)
        (void)write_type(s, others, depth + 1); /* write_type ends where skip_type ends */
    else
        text_put_bool(s->w, false);
    return at + 1;
}

/* Write a choice. `at` stands behind the "("; the result points behind the ")". */
static const char *write_choice(const struct shaper *s, const char *at, unsigned depth)
{
    text_key(s->w, "oneOf");
    text_open_list(s->w);
    for (;; at++) {
        at = write_type(s, at, depth + 1);
        if (*at != '|')
            break;
    }
    text_close(s->w);
    ASSERT(*at == ')');
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
    static const char *const names[][2] = {{"str", "string"},
                                           {"int", "integer"},
                                           {"num", "number"},
                                           {"bool", "boolean"},
                                           {"obj", "object"}};
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
    ASSERT(*at == '\0' && *at != '\0'); /* always fails: the shape names an unknown type */
    return at;
}

/* Write the inside of a type's schema. Returns the text behind the type. */
static const char *write_inside(const struct shaper *s, const char *at, unsigned depth)
{
    ASSERT(depth < SHAPE_DEPTH_MAX);
    if (*at == '{') {
        at = write_members(s, at + 1, depth);
    } else if (*at == '(') {
        at = write_choice(s, at + 1, depth);
    } else if (*at == '[') {
        text_member_str(s->w, "type", "array");
        text_key(s->w, "items");
        at = write_type(s, at + 1, depth + 1);
        ASSERT(*at == ']');
        at++;
    } else {
        at = write_plain(at, s->w);
    }
    if (*at == '~') {
        text_member_bool(s->w, "nullable", true);
        at++;
    }
    return at;
}

static const char *write_type(const struct shaper *s, const char *at, unsigned depth)
{
    text_open_object(s->w);
    at = write_inside(s, at, depth);
    text_close(s->w);
    return at;
}

void shape_write(const char *type, const struct schema *reply, struct text_writer *w)
{
    const struct shaper s = {.reply = reply, .w = w};
    (void)write_type(&s, type, 0); /* write_type ends where the kind ends */
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
    default: break;
    }
}

void shape_write_schema(const struct schema *sub, struct text_writer *w)
{
    if (sub == NULL) {
        text_open_object(w);
        text_member_str(w, "type", "object");
        text_close(w);
    } else if (schema_is_value(sub)) {
        write_field(&sub->fields[0], true, w);
    } else {
        shape_write_fields(sub, true, NULL, NULL, w);
    }
}

static void write_table(const struct schema *sub, struct text_writer *w)
{
    ASSERT(sub->named);
    text_member_str(w, "type", "object");
    text_key(w, "properties");
    text_open_object(w);
    text_close(w);
    text_key(w, "additionalProperties");
    shape_write_schema(sub, w);
}

static void write_kind(const struct field *f, bool replied, struct text_writer *w)
{
    if (f->kind == FIELD_OBJECT || f->kind == FIELD_VALUE)
        return; /* an object is written by its own table; a value may be anything */
    if (f->kind == FIELD_MAP) {
        write_map(w);
        return;
    }
    if (f->kind == FIELD_TABLE) {
        write_table(f->sub, w);
        return;
    }
    text_member_str(w, "type", field_kind_json(f->kind));
    if (f->kind == FIELD_LIST) {
        text_key(w, "items");
        shape_write_schema(f->sub, w);
    }
    if (f->kind == FIELD_STRINGS) {
        text_key(w, "items");
        text_open_object(w);
        text_member_str(w, "type", "string");
        text_close(w);
    }
    if (f->kind == FIELD_DURATION && !replied)
        text_member_str(w, "format", "seconds");
}

static void write_field(const struct field *f, bool replied, struct text_writer *w)
{
    if (f->kind == FIELD_OBJECT && f->sub != NULL) {
        shape_write_fields(f->sub, replied, NULL, NULL, w);
        return;
    }
    text_open_object(w);
    write_kind(f, replied, w);
    if (replied && f->null)
        text_member_bool(w, "nullable", true);
    if (f->help != NULL)
        text_member_str(w, "description", f->help);
    if (!replied && f->preset != NULL && f->preset[0] != '\0' && !f->required)
        write_default(f, w);
    if (f->hidden && f->kind == FIELD_STRING)
        text_member_str(w, "format", "password");
    text_close(w);
}

void shape_write_field(const struct field *field, struct text_writer *w)
{
    write_field(field, false, w);
}

struct field_choice {
    const struct schema *schema;
    bool replied;
    bool (*skip)(void *ctx, const char *name);
    void *ctx;
};

static bool is_chosen(const struct field_choice *choice, const struct field *f)
{
    return f->kind != FIELD_OTHERS && (choice->skip == NULL || !choice->skip(choice->ctx, f->name));
}

static void write_required_fields(const struct field_choice *choice, struct text_writer *w)
{
    bool any = false;
    for (size_t i = 0; i < choice->schema->n; i++) {
        const struct field *f = &choice->schema->fields[i];
        if (is_chosen(choice, f) && (choice->replied ? !f->omit : f->required))
            require(bytes_str(f->name), &any, w);
    }
    if (any)
        text_close(w);
}

static void write_other_members(const struct schema *schema, struct text_writer *w)
{
    const struct schema *others = NULL;
    for (size_t i = 0; i < schema->n; i++)
        if (schema->fields[i].kind == FIELD_OTHERS)
            others = schema->fields[i].sub;
    text_key(w, "additionalProperties");
    if (others != NULL)
        shape_write_schema(others, w);
    else
        text_put_bool(w, false);
}

void shape_write_fields(const struct schema *schema, bool replied,
                        bool (*skip)(void *ctx, const char *name), void *ctx, struct text_writer *w)
{
    const struct field_choice choice = {schema, replied, skip, ctx};
    text_open_object(w);
    text_member_str(w, "type", "object");
    write_required_fields(&choice, w);
    text_key(w, "properties");
    text_open_object(w);
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        if (!is_chosen(&choice, f))
            continue;
        text_key(w, f->name);
        write_field(f, replied, w);
    }
    text_close(w);
    if (replied)
        write_other_members(schema, w);
    text_close(w);
}
