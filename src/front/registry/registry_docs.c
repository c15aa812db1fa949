/* The registry's part of the OpenAPI document. */
#include "front/registry/registry_docs.h"

static void put_data(const struct route *route, const char *shape, struct text_writer *w)
{
    openapi_put_data(route, shape, w);
}

static void put_marks(const struct route *route, struct text_writer *w)
{
    if (route->permission != NULL)
        text_member_str(w, "x-holdfast-permission", route->permission->text);
}

static void put_text_response(struct text_writer *w, const char *name, const char *says)
{
    openapi_open_member(w, name);
    text_member_str(w, "description", says);
    openapi_open_member(w, "content");
    openapi_open_member(w, "text/plain");
    openapi_open_member(w, "schema");
    text_member_str(w, "type", "string");
    for (unsigned i = 0; i < 4; i++)
        text_close(w);
}

static void put_all_components(struct text_writer *w)
{
    openapi_open_member(w, "components");
    openapi_open_member(w, "responses");
    put_text_response(w, "Error", "Refused or failed; the text says why.");
    put_text_response(w, "NotFound", "There is no such object.");
    text_close(w);
    openapi_open_member(w, "securitySchemes");
    openapi_open_member(w, "token");
    text_member_str(w, "type", "apiKey");
    text_member_str(w, "in", "header");
    text_member_str(w, "name", "X-Registry-Token");
    text_member_str(w, "description", "Also taken as ?token= and X-Consul-Token.");
    text_close(w);
    openapi_open_member(w, "bearer");
    text_member_str(w, "type", "http");
    text_member_str(w, "scheme", "bearer");
    text_close(w);
    text_close(w);
    text_close(w);
}

const struct docs_dialect registry_docs = {
    .title = "Registry",
    .description = "Errors are bare text. ?pretty indents a reply.",
    .put_envelope = put_data,
    .put_marks = put_marks,
    .put_components = put_all_components,
};
