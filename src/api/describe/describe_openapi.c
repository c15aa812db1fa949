/* The API as an OpenAPI document. */
#include "api/describe/describe.h"
#include "router/openapi/openapi.h"

struct describe_one {
    bool generic_mount_paths;
    const char *api;
};

static const struct field openapi_fields[] = {
    FIELD(struct describe_one, generic_mount_paths, BOOL, .preset = "false",
          .help = "Show every engine once, with the path of the mount as a parameter."),
    FIELD(struct describe_one, api, STRING, .preset = "secrets",
          .help = "The name of the API that is described."),
};
static const struct schema describe_schema = SCHEMA(struct describe_one, openapi_fields);

static enum status describe_one(struct req *req)
{
    const struct describe_one *in = req_body(req);
    return openapi_reply(req, in->api, in->generic_mount_paths);
}

static const struct route openapi_routes[] = {
    {.method = METHOD_GET,
     .path = "internal/specs/openapi",
     .handler = describe_one,
     .who = WHO_OPTIONAL,
     .form = FORM_BARE,
     .body = &describe_schema,
     .shape = "obj", /* a document with a schema of its own */
     .help = "An API as an OpenAPI document. For secrets with the mounts that the token can use; "
             "without a token, mounts with listing_visibility \"unauth\"."},
};

const struct route_table describe_openapi_table = {openapi_routes, ARRAY_LEN(openapi_routes)};
