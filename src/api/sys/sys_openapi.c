/* The API as an OpenAPI document. */
#include "api/sys/sys.h"
#include "router/openapi/openapi.h"

struct sys_openapi {
    bool generic_mount_paths;
    const char *api;
};

static const struct field openapi_fields[] = {
    FIELD(struct sys_openapi, generic_mount_paths, BOOL, .preset = "false",
          .help = "Show every engine once, with the path of the mount as a parameter."),
    FIELD(struct sys_openapi, api, STRING, .preset = "secrets",
          .help = "The name of the API that is described."),
};
static const struct schema sys_openapi_schema = SCHEMA(struct sys_openapi, openapi_fields);

static enum status sys_openapi(struct req *req)
{
    const struct sys_openapi *in = req_body(req);
    return openapi_reply(req, in->api, in->generic_mount_paths);
}

static const struct route openapi_routes[] = {
    {.method = METHOD_GET,
     .path = "internal/specs/openapi",
     .handler = sys_openapi,
     .flags = ROUTE_BARE | ROUTE_ANY_TOKEN | ROUTE_TOKEN_OPTIONAL,
     .body = &sys_openapi_schema,
     .shape = "obj", /* a document with a schema of its own */
     .help = "An API as an OpenAPI document. For secrets with the mounts that the token can use; "
             "without a token, mounts with listing_visibility \"unauth\"."},
};

const struct route_table sys_openapi_table = {openapi_routes, ARRAY_LEN(openapi_routes)};
