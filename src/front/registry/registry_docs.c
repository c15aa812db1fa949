/* The registry's part of the OpenAPI document. */
#include "front/registry/registry_docs.h"
#include "front/registry/registry_rights.h"
#include "text/schema.h"

static void put_data(const struct route *route, const char *shape, struct text_writer *w)
{
    openapi_put_data(route, shape, w);
}

static const char *permission(const struct route *route)
{
    const struct registry_row *row = route->of_dialect;
    return row != NULL ? row->permission : NULL;
}

static void put_marks(const struct route *route, struct text_writer *w)
{
    if (permission(route) != NULL)
        text_member_str(w, "x-holdfast-permission", permission(route));
}

/* Parameters of the query that every route takes (registry.c, registry_read.c). */
struct common {
    const char *dc, *ns, *token, *pretty, *index, *wait, *stale, *consistent, *leader, *max_stale;
};
#define COMMON_FIELDS                                                                              \
    FIELD(struct common, pretty, STRING, .help = "With any value: indent the reply."),             \
        FIELD(struct common, token, STRING, .help = "The token, in place of a header."),           \
        FIELD(struct common, dc, STRING, .help = "The datacenter; there is only the node's own."), \
        FIELD(struct common, ns, STRING, .help = "The namespace, in place of a header.")
static const struct field common_fields[] = {COMMON_FIELDS};
static const struct schema common_schema = SCHEMA(struct common, common_fields);

#define READ_FIELDS                                                                             \
    COMMON_FIELDS,                                                                              \
        FIELD(struct common, consistent, STRING,                                                \
              .help =                                                                           \
                  "With any value: the leader asks a majority before each look at the state."), \
        FIELD(struct common, stale, STRING,                                                     \
              .help = "With any value: the state of the node that is asked, as it is."),        \
        FIELD(struct common, leader, STRING, .help = "With any value: not stale."),             \
        FIELD(struct common, max_stale, STRING,                                                 \
              .help = "A time as 5s: stale, unless the node heard the leader longer ago.")
static const struct field read_fields[] = {READ_FIELDS};
static const struct schema read_schema = SCHEMA(struct common, read_fields);

static const struct field blocking_fields[] = {
    READ_FIELDS,
    FIELD(struct common, index, STRING,
          .help = "Wait until the index of the result is above this number."),
    FIELD(struct common, wait, STRING,
          .help = "How long to wait at most, as 10s; 5m without it, never above 10m."),
};
static const struct schema blocking_schema = SCHEMA(struct common, blocking_fields);

static const struct schema *parameters(const struct route *route)
{
    if (route->method != METHOD_GET || route->place == PLACE_NODE)
        return &common_schema;
    return route->index == INDEX_BLOCKS ? &blocking_schema : &read_schema;
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
    .parameters = parameters,
    .permission = permission,
    .put_marks = put_marks,
    .put_components = put_all_components,
};
