/* Documents that clients send (platform_doc.h). */
#include "api/platform/platform_doc.h"

#include <stdarg.h>
#include <stdio.h>

static const struct text_value nothing = {.kind = TEXT_OBJECT};

enum status platform_refuse(struct req *req, const char *attribute, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* a long text is cut */
    va_end(args);
    return req_fail(req, ST_REFUSED, "/data/attributes/%s: %s", attribute, text);
}

static enum status read_part(struct req *req, const struct text_value *data, const char *name,
                             const struct text_value **ret_member)
{
    const struct text_value *v = text_get(data, name);
    *ret_member = &nothing;
    if (v == NULL || v->kind == TEXT_NULL)
        return ST_OK;
    if (v->kind != TEXT_OBJECT)
        return req_fail(req, ST_REFUSED, "/data/%s: is %s, an object is expected", name,
                        text_kind_name(v->kind));
    *ret_member = v;
    return ST_OK;
}

static bool is_type(const struct platform_kind *kind, struct bytes type)
{
    return type.len == 0 || text_is(type, kind->type) ||
           (kind->other_type != NULL && text_is(type, kind->other_type));
}

enum status platform_input_read(struct req *req, const struct platform_kind *kind, bool optional,
                                struct platform_input *ret_input)
{
    const struct text_value *data = text_get(req->data, "data");
    *ret_input = (struct platform_input){&nothing, &nothing};
    if (data == NULL || data->kind == TEXT_NULL)
        return optional ? ST_OK : req_fail(req, ST_REFUSED, "/data: is required");
    if (data->kind != TEXT_OBJECT)
        return req_fail(req, ST_REFUSED, "/data: is %s, an object is expected",
                        text_kind_name(data->kind));
    const struct text_value *type = text_get(data, "type");
    if (type != NULL && type->kind != TEXT_NULL &&
        (type->kind != TEXT_STRING || !is_type(kind, type->text)))
        return req_fail(req, ST_REFUSED, "/data/type: must be %s", kind->type);
    TRY(read_part(req, data, "attributes", &ret_input->attributes));
    return read_part(req, data, "relationships", &ret_input->relationships);
}

static enum status check_attr_text(struct req *req, const struct platform_attr *attr,
                                   struct bytes text)
{
    if (text.len != 0 && memchr(text.data, 0, text.len) != NULL)
        return platform_refuse(req, attr->name, "has a zero character");
    if (attr->max != 0 && text.len > (size_t)attr->max)
        return platform_refuse(req, attr->name, "is too long (maximum is %lld bytes)",
                               (long long)attr->max);
    if (attr->values != NULL) {
        const char *const *value = attr->values;
        while (*value != NULL && !text_is(text, *value))
            value++;
        if (*value == NULL)
            return platform_refuse(req, attr->name, "\"%.*s\" is not an allowed value",
                                   (int)MIN(text.len, (size_t)64), (const char *)text.data);
    }
    const char *fault = attr->check != NULL ? attr->check(text) : NULL;
    return fault == NULL ? ST_OK : platform_refuse(req, attr->name, "%s", fault);
}

static enum status check_texts(struct req *req, const struct platform_attr *attr,
                               const struct text_value *list)
{
    if (attr->max != 0 && list->n > (size_t)attr->max)
        return platform_refuse(req, attr->name, "has too many items (maximum is %lld)",
                               (long long)attr->max);
    TEXT_FOR (v, list) {
        struct platform_attr item = *attr;
        item.max = PLATFORM_NAME_MAX;
        if (v->kind != TEXT_STRING)
            return platform_refuse(req, attr->name, "has %s among its items: texts are expected",
                                   text_kind_name(v->kind));
        TRY(check_attr_text(req, &item, v->text));
    }
    return ST_OK;
}

static enum status wrong_kind(struct req *req, const struct platform_attr *attr,
                              const struct text_value *v, const char *expected)
{
    return platform_refuse(req, attr->name, "is %s, %s is expected", text_kind_name(v->kind),
                           expected);
}

/* Check a value; *v is the one to store. */
static enum status check_attr(struct req *req, const struct platform_attr *attr,
                              struct text_value *v)
{
    int64_t n;
    switch (attr->value) {
    case PLATFORM_TEXT:
        return v->kind == TEXT_STRING ? check_attr_text(req, attr, v->text)
                                      : wrong_kind(req, attr, v, "a text");
    case PLATFORM_FLAG:
        if (v->kind == TEXT_STRING && (text_is(v->text, "true") || text_is(v->text, "false"))) {
            v->truth = text_is(v->text, "true");
            v->kind = TEXT_BOOL;
        }
        return v->kind == TEXT_BOOL ? ST_OK : wrong_kind(req, attr, v, "a boolean");
    case PLATFORM_NUMBER:
        if (v->kind != TEXT_NUMBER || text_to_int(v, &n) != ST_OK)
            return wrong_kind(req, attr, v, "a whole number");
        if (n < attr->min || (attr->max != 0 && n > attr->max))
            return platform_refuse(req, attr->name, "must be at least %lld, at most %lld",
                                   (long long)attr->min,
                                   attr->max != 0 ? (long long)attr->max : INT64_MAX);
        return ST_OK;
    case PLATFORM_TEXTS:
        return v->kind == TEXT_LIST ? check_texts(req, attr, v)
                                    : wrong_kind(req, attr, v, "a list");
    case PLATFORM_ANY: return ST_OK;
    }
    return ST_INTERNAL;
}

static bool is_empty(const struct text_value *v)
{
    return v == NULL || v->kind == TEXT_NULL || (v->kind == TEXT_STRING && v->text.len == 0);
}

static enum status set_preset(struct req *req, const struct platform_attr *attr,
                              struct text_value *attrs)
{
    const struct text_value *preset;
    if ((attr->traits & PLATFORM_UNSAVED) != 0)
        return ST_OK;
    if (attr->preset == NULL)
        return platform_set_null(req->arena, attrs, attr->name);
    TRY(text_json_parse(req->arena, bytes_str(attr->preset), &preset, NULL));
    return platform_set(req->arena, attrs, attr->name, preset);
}

static bool same_text(const struct text_value *a, const struct text_value *b)
{
    return a != NULL && a->kind == b->kind && bytes_eq(a->text, b->text) && a->truth == b->truth;
}

static enum status apply_attr(struct req *req, const struct platform_attr *attr,
                              const struct text_value *given, bool creates,
                              struct text_value *attrs)
{
    bool absent = given == NULL || given->kind == TEXT_NULL;
    if (creates && (attr->traits & PLATFORM_REQUIRED) != 0 && is_empty(given))
        return platform_refuse(req, attr->name, "is required");
    if (absent && creates)
        return set_preset(req, attr, attrs);
    if (absent)
        return given != NULL && (attr->traits & PLATFORM_CLEARS) != 0
                   ? platform_set_null(req->arena, attrs, attr->name)
                   : ST_OK;
    struct text_value value = *given;
    TRY(check_attr(req, attr, &value));
    if ((attr->traits & PLATFORM_REQUIRED) != 0 && is_empty(&value))
        return platform_refuse(req, attr->name, "is required");
    if (!creates && (attr->traits & PLATFORM_FIXED) != 0 &&
        !same_text(text_get(attrs, attr->name), &value))
        return platform_refuse(req, attr->name, "cannot be changed");
    if ((attr->traits & PLATFORM_UNSAVED) != 0)
        return ST_OK;
    return platform_set(req->arena, attrs, attr->name, &value);
}

enum status platform_input_apply(struct req *req, const struct platform_kind *kind,
                                 const struct platform_input *input, bool creates,
                                 struct text_value *attrs)
{
    for (size_t i = 0; i < kind->n; i++) {
        const struct platform_attr *attr = &kind->attrs[i];
        if ((attr->traits & PLATFORM_SHOWN) != 0) {
            if (creates && attr->preset != NULL)
                TRY(set_preset(req, attr, attrs));
            continue;
        }
        const struct text_value *given = text_get(input->attributes, attr->name);
        if (given == NULL && attr->alias != NULL)
            given = text_get(input->attributes, attr->alias);
        TRY(apply_attr(req, attr, given, creates, attrs));
    }
    return ST_OK;
}

const struct text_value *platform_input_related(const struct platform_input *input,
                                                const char *name)
{
    const struct text_value *v = text_get(input->relationships, name);
    if (v != NULL && v->kind == TEXT_OBJECT)
        v = text_get(v, "data");
    return v != NULL && (v->kind == TEXT_OBJECT || v->kind == TEXT_LIST) ? v : NULL;
}

const char *platform_item_id(const struct text_value *item)
{
    const char *id = platform_text(item, "id");
    return platform_is_id(bytes_str(id)) ? id : "";
}

const char *platform_input_related_id(const struct platform_input *input, const char *name)
{
    const struct text_value *v = platform_input_related(input, name);
    return v != NULL && v->kind == TEXT_OBJECT ? platform_item_id(v) : "";
}

const char *platform_parameter(const struct req *req, const char *name)
{
    const struct text_value *v = text_get(req->query, name);
    if (v != NULL && v->kind == TEXT_LIST)
        v = v->first;
    return v != NULL && v->kind == TEXT_STRING ? (const char *)v->text.data : "";
}
