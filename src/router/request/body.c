#include "router/request/body.h"
#include "router/request/dialect.h"
#include "router/request/path.h"

#include <stdio.h>
#include <strings.h>

/* Parameters with a meaning of their own on every path. */
static bool is_reserved(struct bytes name)
{
    return text_is(name, "list") || text_is(name, "help") || text_is(name, "scan");
}

enum status body_query(struct arena *arena, const struct text_value *query,
                       const struct text_value **ret_data)
{
    if (query->n == 0) {
        *ret_data = query;
        return ST_OK;
    }
    struct text_value *data = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    if (data == NULL)
        return ST_NOMEM;
    TEXT_FOR (v, query) {
        if (is_reserved(v->name))
            continue;
        struct text_value *copy = text_value_new(arena, data, v->kind, v->name);
        if (copy == NULL)
            return ST_NOMEM;
        copy->text = v->text;
        copy->first = v->first;
        copy->last = v->last;
        copy->n = v->n;
    }
    ASSERT(data->n <= query->n);
    *ret_data = data;
    return ST_OK;
}

/* The media type without its parameters. */
static struct bytes media_type(struct bytes header)
{
    const uint8_t *semicolon = header.len != 0 ? memchr(header.data, ';', header.len) : NULL;
    if (semicolon != NULL)
        header.len = (size_t)(semicolon - header.data);
    while (header.len > 0 && header.data[header.len - 1] == ' ')
        header.len--;
    return header;
}

static bool is_type(struct bytes header, const char *type)
{
    struct bytes media = media_type(header);
    return media.len == strlen(type) && strncasecmp((const char *)media.data, type, media.len) == 0;
}

static struct bytes trimmed(struct bytes text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.data[0]) != NULL && text.data[0] != 0)
        text = bytes_from(text, 1);
    return text;
}

enum status body_parse(struct arena *arena, const struct body_raw *raw,
                       const struct text_value **ret_data, struct reason *reason)
{
    bool writes =
        raw->method == METHOD_POST || raw->method == METHOD_PUT || raw->method == METHOD_PATCH;
    struct text_value *object;
    const struct text_value *v;
    struct reason why = {0};

    if (!writes)
        return body_query(arena, raw->query, ret_data);
    struct bytes body = trimmed(raw->text);
    bool json = body.len > 0 && (body.data[0] == '{' || body.data[0] == '[');
    if (body.len == 0 ||
        (!json && is_type(raw->content_type, "application/x-www-form-urlencoded"))) {
        TRY(path_parse_pairs(arena, body, &object, reason));
        *ret_data = object;
        return ST_OK;
    }
    enum status st = text_json_parse(arena, body, &v, &why);
    if (st == ST_INVALID || st == ST_TOO_BIG)
        reason_set(reason, "failed to parse JSON input: %s", why.text);
    TRY(st);
    if (v->kind == TEXT_NULL) { /* clients in Go send null for no data */
        *ret_data = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
        return *ret_data != NULL ? ST_OK : ST_NOMEM;
    }
    if (v->kind != TEXT_OBJECT) {
        reason_set(reason, "failed to parse JSON input: an object is expected, not %s",
                   text_kind_name(v->kind));
        return ST_INVALID;
    }
    *ret_data = v;
    return ST_OK;
}

enum status body_check_patch_type(struct bytes content_type, struct reason *reason)
{
    struct bytes media = media_type(content_type);
    if (media.len == 0 || memchr(media.data, '/', media.len) == NULL) {
        reason_set(reason, "PATCH requests need the Content-Type application/merge-patch+json");
        return ST_INVALID;
    }
    if (is_type(content_type, "application/merge-patch+json"))
        return ST_OK;
    reason_set(reason, "PATCH requests need the Content-Type application/merge-patch+json");
    return ST_MEDIA_TYPE;
}

static const char *captured(const struct req *req, struct bytes name)
{
    for (unsigned i = 0; i < req->params.n; i++)
        if (bytes_eq(name, req->params.items[i].name))
            return req->params.items[i].value;
    return NULL;
}

/* Merge: a parameter of the path replaces a member of the data that has the same name. */
static enum status merge(struct req *req, const struct text_value **ret_object)
{
    ASSERT(req->params.n > 0);
    ASSERT(req->params.n <= ROUTE_PARAMS_MAX);
    struct text_value *merged = text_value_new(req->arena, NULL, TEXT_OBJECT, (struct bytes){0});
    if (merged == NULL)
        return ST_NOMEM;
    TEXT_FOR (v, req->data) {
        if (captured(req, v->name) != NULL) {
            req_note(req, "Endpoint replaced the value of %.*s with the value of the path",
                     (int)MIN(v->name.len, 64), (const char *)v->name.data);
            continue;
        }
        struct text_value *copy = text_value_new(req->arena, merged, v->kind, v->name);
        if (copy == NULL)
            return ST_NOMEM;
        struct text_value links = *copy;
        *copy = *v;
        copy->next = links.next;
    }
    for (unsigned i = 0; i < req->params.n; i++) {
        struct text_value *v =
            text_value_new(req->arena, merged, TEXT_STRING, req->params.items[i].name);
        if (v == NULL)
            return ST_NOMEM;
        v->text = bytes_str(req->params.items[i].value);
    }
    *ret_object = merged;
    return ST_OK;
}

static enum status find_unknown(struct req *req)
{
    const struct text_value *unknown = NULL;
    while ((unknown = schema_unknown(req->route->body, req->data, unknown)) != NULL)
        if (req->dialect->separate_params || captured(req, unknown->name) == NULL)
            TRY(req->dialect->unknown_field(req, unknown->name));
    return ST_OK;
}

enum status body_decode(struct req *req)
{
    const struct schema *schema = req->route->body;
    const struct text_value *object = req->data;
    struct schema_fault fault = {0};

    if (schema == NULL)
        return ST_OK;
    ASSERT(object->kind == TEXT_OBJECT);
    if (req->params.n > 0 && !req->dialect->separate_params)
        TRY(merge(req, &object));
    void *out = arena_zalloc(req->arena, schema->size);
    if (out == NULL)
        return ST_NOMEM;
    enum status st = schema_decode(schema, object, req->arena, out, &fault);
    if (st == ST_INVALID)
        return req->dialect->refuse_field(req, fault.field, fault.why.text);
    TRY(st);
    if (req->route->input != INPUT_FREE)
        TRY(find_unknown(req));
    req->body = out;
    return ST_OK;
}
