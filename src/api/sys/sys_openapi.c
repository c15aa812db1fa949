#include "api/sys/sys.h"
#include "router/openapi.h"

static const struct field openapi_fields[] = {
    FIELD(struct sys_openapi, generic_mount_paths, BOOL, .preset = "false",
          .help = "Every engine once, with the path of its mount as a parameter."),
};
const struct schema sys_openapi_schema = SCHEMA(struct sys_openapi, openapi_fields);

enum status sys_openapi(struct req *req)
{
    const struct sys_openapi *in = req_body(req);
    return openapi_reply(req, in->generic_mount_paths);
}
