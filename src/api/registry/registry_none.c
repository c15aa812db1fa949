/* Lists of objects that this registry does not have: roles, auth methods, binding rules. */
#include "api/registry/registry.h"
#include "front/registry/registry_rights.h"
#include "router/request/req.h"

struct none {
    struct field_list items;
};
static const struct field none_fields[] = {FIELD_ITSELF(struct none, items, LIST)};
static const struct schema none_reply = SCHEMA_ITSELF(struct none, none_fields);

static enum status list_none(struct req *req)
{
    return req_reply(req, &(struct none){0});
}

static const struct registry_row may_list = {
    .permission = "acl:read", .resource = REGISTRY_ACL, .level = REGISTRY_READ, .collection = true};

#define NONE_ROUTE(path_)                                                                     \
    {                                                                                         \
        .method = METHOD_GET, .path = (path_), .handler = list_none, .of_dialect = &may_list, \
        .reply = &none_reply, .help = "An empty list, for clients."                           \
    }

static const struct route none_routes[] = {NONE_ROUTE("roles"), NONE_ROUTE("auth-methods"),
                                           NONE_ROUTE("binding-rules")};

const struct route_table registry_none_table = {none_routes, ARRAY_LEN(none_routes)};
