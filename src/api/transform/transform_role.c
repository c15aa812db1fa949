/* Roles: which transformations a client may use. */
#include "api/transform/transform.h"
#include "api/transform/transform_record.h"

static const struct field role_fields[] = {
    FIELD(struct transform_role, transformations, STRINGS,
          .help = "Names of the transformations that the role may use; they may not exist yet."),
};
const struct schema transform_role_schema = SCHEMA(struct transform_role, role_fields);

static enum status role_exists(struct req *req)
{
    return transform_exists(req, TRANSFORM_ROLE);
}

static enum status role_read(struct req *req)
{
    struct transform_role role;
    TRY(transform_load(req, TRANSFORM_ROLE, req_param(req, "name"), &transform_role_schema, &role));
    role.transformations.given = true;
    return req_reply(req, &role);
}

/* Each name once: a role with one transformation needs no name in its requests. */
static enum status list_once(struct req *req, const struct field_strings *given,
                             struct field_strings *ret)
{
    const char **items = arena_alloc(req->arena, (given->n + 1) * sizeof *items);
    size_t n = 0;
    if (items == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < given->n; i++) {
        size_t at = 0;
        while (at < n && strcmp(items[at], given->items[i]) != 0)
            at++;
        if (at == n)
            items[n++] = given->items[i];
    }
    *ret = (struct field_strings){.items = items, .n = n, .given = true};
    return ST_OK;
}

static enum status transform_role_write(struct req *req)
{
    const struct transform_role *in = req_body(req);
    struct transform_role role = {0};
    const char *name;
    TRY(transform_own_name(req, &name));
    enum status st = transform_load(req, TRANSFORM_ROLE, name, &transform_role_schema, &role);
    if (st != ST_NOT_FOUND)
        TRY(st);
    if (in->transformations.n > TRANSFORM_LIST_MAX)
        return req_fail(req, ST_INVALID, "transformations: %d at most, %zu were given",
                        TRANSFORM_LIST_MAX, in->transformations.n);
    for (size_t i = 0; i < in->transformations.n; i++)
        if (!transform_is_name(bytes_str(in->transformations.items[i])))
            return req_fail(req, ST_INVALID, "transformations: \"%.140s\" is no name",
                            in->transformations.items[i]);
    if (in->transformations.given) {
        struct field_strings once;
        TRY(list_once(req, &in->transformations, &once));
        TRY(transform_use(req, TRANSFORM_TRANSFORMATION, name, &role.transformations, &once));
        role.transformations = once;
    }
    role.transformations.given = true;
    return transform_save(req, TRANSFORM_ROLE, name, &transform_role_schema, &role);
}

static enum status transform_role_delete(struct req *req)
{
    static const struct field_strings none;
    struct transform_role role;
    const char *name;
    TRY(transform_own_name(req, &name));
    enum status st = transform_load(req, TRANSFORM_ROLE, name, &transform_role_schema, &role);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    TRY(transform_use(req, TRANSFORM_TRANSFORMATION, name, &role.transformations, &none));
    return transform_delete(req, TRANSFORM_ROLE, name);
}

static enum status role_list(struct req *req)
{
    return transform_list(req, TRANSFORM_ROLE, NULL, 0);
}

static const struct route role_routes[] = {
    {.method = METHOD_LIST,
     .path = "role",
     .handler = role_list,
     .body = &transform_list_schema,
     .help = "The names of all roles."},
    {.method = METHOD_GET,
     .path = "role/+name",
     .handler = role_read,
     .reply = &transform_role_schema,
     .help = "Read a role."},
    {.method = METHOD_POST,
     .path = "role/+name",
     .handler = transform_role_write,
     .exists = role_exists,
     .body = &transform_role_schema,
     .help = "Create or change a role. A transformation must also allow the role (allowed_roles)."},
    {.method = METHOD_DELETE,
     .path = "role/+name",
     .handler = transform_role_delete,
     .help = "Delete a role. Its transformations stay."},
};
const struct route_table transform_role_table = {role_routes, ARRAY_LEN(role_routes)};
