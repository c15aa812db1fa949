/* The scheduler's part of the OpenAPI document. */
#include "front/scheduler/scheduler_docs.h"
#include "front/scheduler/scheduler_rights.h"
#include "text/schema.h"

static void put_data(const struct route *route, const char *shape, struct text_writer *w)
{
    openapi_put_data(route, shape, w);
}

static const char *permission(const struct route *route)
{
    const struct scheduler_row *row = route->of_dialect;
    return row != NULL ? row->permission : NULL;
}

static void put_marks(const struct route *route, struct text_writer *w)
{
    if (permission(route) != NULL)
        text_member_str(w, "x-holdfast-permission", permission(route));
}

/* Parameters of the query that every route takes (scheduler.c). */
struct common {
    const char *pretty, *ns, *region, *index, *wait, *stale;
};
#define COMMON_FIELDS                                                                        \
    FIELD(struct common, pretty, STRING, .help = "With any value but 0: indent the reply."), \
        FIELD_NAMED("namespace", struct common, ns, STRING, .help = "The namespace."),       \
        FIELD(struct common, region, STRING, .help = "The region; there is only global.")
static const struct field common_fields[] = {COMMON_FIELDS};
static const struct schema common_schema = SCHEMA(struct common, common_fields);

#define READ_FIELDS                                    \
    COMMON_FIELDS, FIELD(struct common, stale, STRING, \
                         .help = "True: the state of the node that is asked, as it is.")
static const struct field read_fields[] = {READ_FIELDS};
static const struct schema read_schema = SCHEMA(struct common, read_fields);

static const struct field blocking_fields[] = {
    READ_FIELDS,
    FIELD(struct common, index, STRING,
          .help = "Wait until the index of the result is above this number."),
    FIELD(struct common, wait, STRING,
          .help = "How long to wait at most, as 10s; 5m without it, never above 5m."),
};
static const struct schema blocking_schema = SCHEMA(struct common, blocking_fields);

static const struct schema *parameters(const struct route *route)
{
    if (route->method != METHOD_GET || route->place == PLACE_NODE)
        return &common_schema;
    return route->index == INDEX_BLOCKS ? &blocking_schema : &read_schema;
}

static void scheduler_docs_put_text_response(struct text_writer *w, const char *name,
                                             const char *says)
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

static void scheduler_docs_put_all_components(struct text_writer *w)
{
    openapi_open_member(w, "components");
    openapi_open_member(w, "responses");
    scheduler_docs_put_text_response(w, "Error", "Refused or failed; the text says why.");
    scheduler_docs_put_text_response(w, "NotFound", "There is no such object.");
    text_close(w);
    openapi_open_member(w, "securitySchemes");
    openapi_open_member(w, "token");
    text_member_str(w, "type", "apiKey");
    text_member_str(w, "in", "header");
    text_member_str(w, "name", "X-Scheduler-Token");
    text_member_str(w, "description", "Also taken as X-Nomad-Token.");
    text_close(w);
    openapi_open_member(w, "bearer");
    text_member_str(w, "type", "http");
    text_member_str(w, "scheme", "bearer");
    text_close(w);
    text_close(w);
    text_close(w);
}

const struct docs_dialect scheduler_docs = {
    .title = "Scheduler",
    .bodiless = true,
    .description = "Errors are bare text. ?pretty indents a reply.",
    .put_envelope = put_data,
    .parameters = parameters,
    .permission = permission,
    .put_marks = put_marks,
    .put_components = scheduler_docs_put_all_components,
};
