/* The platform's part of the OpenAPI document: documents of JSON:API, written from the kinds. */
#include "front/platform/platform_docs.h"

#include "text/schema.h"

static void put_attr_shape(const struct platform_attr *attr, struct text_writer *w)
{
    static const char *const types[] = {
        [PLATFORM_TEXT] = "string",
        [PLATFORM_FLAG] = "boolean",
        [PLATFORM_NUMBER] = "integer",
        [PLATFORM_TEXTS] = "array",
    };
    bool nullable = attr->preset == NULL || (attr->traits & (PLATFORM_NULL | PLATFORM_SECRET)) != 0;
    text_open_object(w);
    if (attr->value != PLATFORM_ANY) {
        text_member_str(w, "type", types[attr->value]);
        if (nullable)
            text_member_bool(w, "nullable", true);
    }
    if (attr->value == PLATFORM_TEXTS) {
        text_key(w, "items");
        openapi_put_type(w, "string");
    }
    if (attr->help != NULL)
        text_member_str(w, "description", attr->help);
    text_close(w);
}

static void put_docs_attributes(const struct platform_kind *kind, bool replied,
                                struct text_writer *w)
{
    openapi_open_member(w, "attributes");
    text_member_str(w, "type", "object");
    openapi_open_member(w, "properties");
    for (size_t i = 0; i < kind->n; i++) {
        unsigned traits = kind->attrs[i].traits;
        if ((replied && (traits & PLATFORM_UNSAVED) != 0) ||
            (!replied && (traits & PLATFORM_SHOWN) != 0))
            continue;
        text_key(w, kind->attrs[i].name);
        put_attr_shape(&kind->attrs[i], w);
    }
    text_close(w);
    text_close(w);
}

static void put_resource_shape(const struct platform_kind *kind, bool replied,
                               struct text_writer *w)
{
    text_open_object(w);
    text_member_str(w, "type", "object");
    if (replied) {
        text_key(w, "required");
        text_open_list(w);
        text_put_str(w, "id");
        text_put_str(w, "type");
        text_close(w);
    }
    openapi_open_member(w, "properties");
    text_key(w, "id");
    openapi_put_type(w, "string");
    text_key(w, "type");
    openapi_put_type(w, "string");
    put_docs_attributes(kind, replied, w);
    text_key(w, "relationships");
    openapi_put_type(w, "object");
    text_close(w);
    text_close(w);
}

static void put_document_schema(const struct platform_row *row, bool replied, struct text_writer *w)
{
    text_open_object(w);
    text_member_str(w, "type", "object");
    openapi_open_member(w, "properties");
    text_key(w, "data");
    if (replied && row->reply == PLATFORM_LIST) {
        text_open_object(w);
        text_member_str(w, "type", "array");
        text_key(w, "items");
        put_resource_shape(row->kind, replied, w);
        text_close(w);
    } else {
        put_resource_shape(row->kind, replied, w);
    }
    text_close(w);
    text_close(w);
}

static void put_envelope(const struct route *route, const char *shape, struct text_writer *w)
{
    const struct platform_row *row = route->of_dialect;
    if (row != NULL && row->kind != NULL && row->reply != PLATFORM_NOTHING)
        put_document_schema(row, true, w);
    else
        openapi_put_data(route, shape, w);
}

static bool put_body_schema(const struct route *route, struct text_writer *w)
{
    const struct platform_row *row = route->of_dialect;
    if (row == NULL || row->kind == NULL || !row->takes)
        return false;
    put_document_schema(row, false, w);
    return true;
}

struct page {
    const char *number, *size, *include;
};
static const struct field page_fields[] = {
    FIELD_NAMED("page[number]", struct page, number, STRING, .help = "Number of the page, from 1."),
    FIELD_NAMED("page[size]", struct page, size, STRING,
                .help = "Resources on a page: 20 without it, 100 at most."),
    FIELD(struct page, include, STRING, .help = "Relationships to include, with commas."),
};
static const struct schema page_schema = SCHEMA(struct page, page_fields);

static const struct schema *parameters(const struct route *route)
{
    const struct platform_row *row = route->of_dialect;
    return row != NULL && row->reply == PLATFORM_LIST ? &page_schema : NULL;
}

static const char *permission(const struct route *route)
{
    const struct platform_row *row = route->of_dialect;
    return row != NULL ? row->permission : NULL;
}

static void put_marks(const struct route *route, struct text_writer *w)
{
    if (permission(route) != NULL)
        text_member_str(w, "x-holdfast-permission", permission(route));
}

static void put_document_response(struct text_writer *w, const char *name, const char *says)
{
    openapi_open_member(w, name);
    text_member_str(w, "description", says);
    openapi_open_member(w, "content");
    openapi_open_member(w, platform_docs.media_type);
    openapi_open_member(w, "schema");
    text_member_str(w, "type", "object");
    for (unsigned i = 0; i < 4; i++)
        text_close(w);
}

static void put_platform_components(struct text_writer *w)
{
    openapi_open_member(w, "components");
    openapi_open_member(w, "responses");
    put_document_response(w, "Error", "Refused or failed; errors[].detail says why.");
    put_document_response(w, "NotFound",
                          "There is no such object, or the token has no right to see it.");
    text_close(w);
    openapi_open_member(w, "securitySchemes");
    for (unsigned i = 0; i < 2; i++) {
        openapi_open_member(w, i == 0 ? "token" : "bearer");
        text_member_str(w, "type", "http");
        text_member_str(w, "scheme", "bearer");
        text_close(w);
    }
    text_close(w);
    text_close(w);
}

struct document {
    const struct text_value *data;
};
static const struct field document_fields[] = {FIELD(struct document, data, TREE)};
const struct schema platform_document = SCHEMA(struct document, document_fields);

const struct docs_dialect platform_docs = {
    .title = "Platform",
    .description = "Documents of JSON:API. What a token has no right to see is missing (404).",
    .put_envelope = put_envelope,
    .put_body = put_body_schema,
    .media_type = "application/vnd.api+json",
    .parameters = parameters,
    .permission = permission,
    .put_marks = put_marks,
    .put_components = put_platform_components,
};
