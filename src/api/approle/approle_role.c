/* Roles. */
#include "api/approle/approle.h"
#include "router/req_object.h"
#include "text/cidr.h"
#include "text/random.h"

#define ROLE_FIELDS(type, at)                                                              \
    FIELD_NAMED("bind_secret_id", type, at bind_secret_id, BOOL, .preset = "true",         \
                .help = "A login needs a secret id."),                                     \
        FIELD_NAMED("local_secret_ids", type, at local_secret_ids, BOOL,                   \
                    .help = "Kept for clients of clusters; set at creation alone."),       \
        FIELD_NAMED("secret_id_bound_cidrs", type, at secret_id_bound_cidrs, STRINGS,      \
                    .help = "Addresses that may log in; none: all."),                      \
        FIELD_NAMED("secret_id_num_uses", type, at secret_id_num_uses, INT, .exact = true, \
                    .help = "How many logins a new secret id allows; 0: any number."),     \
        FIELD_NAMED("secret_id_ttl", type, at secret_id_ttl, DURATION,                     \
                    .help = "How long a new secret id lives; 0: without an end."),         \
        LOGIN_ROLE_FIELDS(type, at role)
#define ROLE_ID                                               \
    FIELD(struct approle_role, role_id, STRING, .preset = "", \
          .help = "The id that names the role at a login; default: a random one.")
static const struct field role_fields[] = {ROLE_ID, ROLE_FIELDS(struct approle_role, )};
const struct schema approle_role_schema = SCHEMA(struct approle_role, role_fields);
static const struct field shown_fields[] = {ROLE_FIELDS(struct approle_role, )};
static const struct schema shown_schema = SCHEMA(struct approle_role, shown_fields);

const char *const approle_old_names[][2] = {{"policies", "token_policies"},
                                            {"ttl", "token_ttl"},
                                            {"max_ttl", "token_max_ttl"},
                                            {"period", "token_period"},
                                            {"bound_cidr_list", "secret_id_bound_cidrs"},
                                            {"bound_cidrs", "token_bound_cidrs"}};
static_assert(ARRAY_LEN(approle_old_names) == APPROLE_OLD_NAMES, "a pair for each");

enum status approle_name(struct req *req, const char **ret_name)
{
    char *name = arena_str(req->arena, bytes_str(req_param(req, "role")));
    if (name == NULL)
        return ST_NOMEM;
    for (char *c = name; *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
    if (strlen(name) > IDENTITY_NAME_MAX)
        return req_fail(req, ST_INVALID, "role_name: longer than %d bytes", IDENTITY_NAME_MAX);
    *ret_name = name;
    return ST_OK;
}

const char *approle_path(struct req *req, const char *folder, const char *name, const char *last)
{
    if (last == NULL)
        return arena_format(req->arena, "%s/%s", folder, name);
    return arena_format(req->arena, "%s/%s/%s", folder, name, last);
}

enum status approle_load(struct req *req, const struct mount *mount, const char *name,
                         struct approle_role *ret_role)
{
    const char *path = approle_path(req, "role", name, NULL);
    if (path == NULL)
        return ST_NOMEM;
    return req_object_load(req, mount, path, &approle_role_schema, ret_role);
}

enum status approle_check_cidrs(struct req *req, const char *field,
                                const struct field_strings *cidrs)
{
    struct cidr cidr;
    if (cidrs->n > APPROLE_CIDRS_MAX)
        return req_fail(req, ST_INVALID, "%s: %d at most", field, APPROLE_CIDRS_MAX);
    for (size_t i = 0; i < cidrs->n; i++)
        if (cidr_parse(bytes_str(cidrs->items[i]), &cidr) != ST_OK)
            return req_fail(req, ST_INVALID, "%s: \"%.80s\" is not an address or a block of them",
                            field, cidrs->items[i]);
    return ST_OK;
}

bool approle_holds_peer(const struct field_strings *cidrs, const char *peer)
{
    const struct ip ip = peer != NULL ? ip_port_ip(peer) : (struct ip){.len = 0};
    struct cidr cidr;
    for (size_t i = 0; i < cidrs->n; i++)
        if (ip.len != 0 && cidr_parse(bytes_str(cidrs->items[i]), &cidr) == ST_OK &&
            cidr_holds(&cidr, &ip))
            return true;
    return cidrs->n == 0;
}

static enum status approle_role_check(struct req *req, const struct approle_role *role)
{
    if (role->secret_id_num_uses < 0)
        return req_fail(req, ST_INVALID, "secret_id_num_uses: cannot be negative");
    TRY(approle_check_cidrs(req, "secret_id_bound_cidrs", &role->secret_id_bound_cidrs));
    if (role->role.token_bound_cidrs.n > APPROLE_CIDRS_MAX)
        return req_fail(req, ST_INVALID, "token_bound_cidrs: %d at most", APPROLE_CIDRS_MAX);
    if (!role->bind_secret_id && role->secret_id_bound_cidrs.n == 0 &&
        role->role.token_bound_cidrs.n == 0)
        return req_fail(req, ST_INVALID,
                        "at least one constraint should be enabled on the role: bind_secret_id, or "
                        "bound addresses");
    return login_role_check(&role->role, req_reason(req));
}

enum status approle_save(struct req *req, const char *name, const struct approle_role *role)
{
    const char *path = approle_path(req, "role", name, NULL);
    if (path == NULL)
        return ST_NOMEM;
    TRY(approle_role_check(req, role));
    return req_object_save(req, path, &approle_role_schema, role);
}

/* The key that leads from a role id to its role. */
static enum status id_key(struct req *req, const char *id, struct bytes *ret_key)
{
    return req_key(req, approle_path(req, "role-id", id, NULL), ret_key);
}

enum status approle_set_id(struct req *req, const char *name, const char *id,
                           struct approle_role *role)
{
    struct state_value stored;
    struct bytes key;
    if (strlen(id) > IDENTITY_NAME_MAX || id[0] == '\0')
        return req_fail(req, ST_INVALID, "role_id: 1 to %d bytes are expected", IDENTITY_NAME_MAX);
    TRY(id_key(req, id, &key));
    enum status st = state_get(req->txn, key, &stored);
    if (st == ST_OK && !bytes_eq(stored.value, bytes_str(name)))
        return req_fail(req, ST_INVALID, "role_id already in use");
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    if (st == ST_NOT_FOUND)
        TRY(state_put(req->txn, key, bytes_str(name)));
    if (role->role_id[0] != '\0' && strcmp(role->role_id, id) != 0) {
        TRY(id_key(req, role->role_id, &key));
        TRY(state_delete(req->txn, key));
    }
    role->role_id = id;
    return ST_OK;
}

static enum status role_exists(struct req *req)
{
    const char *name;
    TRY(approle_name(req, &name));
    const char *path = approle_path(req, "role", name, NULL);
    return path != NULL ? req_object_exists(req, path) : ST_NOMEM;
}

static enum status role_write(struct req *req)
{
    struct approle_role role, before = {.role_id = ""};
    const char *name;
    char id[TEXT_UUID_LEN + 1];
    bool stored;
    TRY(approle_name(req, &name));
    const struct req_object object = {.path = approle_path(req, "role", name, NULL),
                                      .schema = &approle_role_schema,
                                      .old = {approle_old_names, APPROLE_OLD_NAMES}};
    if (object.path == NULL)
        return ST_NOMEM;
    TRY(req_object_change(req, &object, &role, &stored));
    if (stored)
        TRY(approle_load(req, req->mount, name, &before));
    if (stored && role.local_secret_ids != before.local_secret_ids)
        return req_fail(req, ST_INVALID,
                        "local_secret_ids can only be modified during role creation");
    const char *wanted = role.role_id;
    role.role_id = before.role_id;
    if (wanted[0] == '\0') {
        text_uuid(req->env, id);
        wanted = arena_str(req->arena, bytes_str(id));
        if (wanted == NULL)
            return ST_NOMEM;
    }
    TRY(approle_set_id(req, name, wanted, &role));
    return approle_save(req, name, &role);
}

static enum status role_read(struct req *req)
{
    struct approle_role role;
    const char *name;
    TRY(approle_name(req, &name));
    TRY(approle_load(req, req->mount, name, &role));
    role.secret_id_bound_cidrs.given = role.role.token_policies.given = true;
    role.role.token_bound_cidrs.given = true;
    if (role.role.token_type[0] == '\0')
        role.role.token_type = "default";
    return req_reply(req, &role);
}

/* Delete a role and all its secret ids. */
static enum status role_delete(struct req *req)
{
    static const char *const folders[] = {"secret", "accessor"};
    struct approle_role role;
    struct bytes key;
    const char *name;
    TRY(approle_name(req, &name));
    enum status st = approle_load(req, req->mount, name, &role);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    TRY(id_key(req, role.role_id, &key));
    TRY(state_delete(req->txn, key));
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        const char *path = approle_path(req, folders[i], name, "");
        if (path == NULL)
            return ST_NOMEM;
        TRY(req_key(req, path, &key));
        TRY(state_delete_prefix(req->txn, key));
    }
    TRY(req_key(req, approle_path(req, "role", name, NULL), &key));
    return state_delete(req->txn, key);
}

static enum status role_list(struct req *req)
{
    struct bytes prefix;
    TRY(req_key(req, "role/", &prefix));
    return req_reply_listing(req, prefix);
}

struct id_out {
    const char *role_id;
};
static const struct field id_fields[] = {
    FIELD(struct id_out, role_id, STRING, .preset = "", .help = "The id of the role."),
};
static const struct schema id_schema = SCHEMA(struct id_out, id_fields);

static enum status id_read(struct req *req)
{
    struct approle_role role;
    const char *name;
    TRY(approle_name(req, &name));
    TRY(approle_load(req, req->mount, name, &role));
    return req_reply(req, &(struct id_out){role.role_id});
}

static enum status id_write(struct req *req)
{
    const struct id_out *in = req_body(req);
    struct approle_role role;
    const char *name;
    TRY(approle_name(req, &name));
    TRY(approle_load(req, req->mount, name, &role));
    if (in->role_id[0] == '\0')
        return req_fail(req, ST_INVALID, "missing role_id");
    TRY(approle_set_id(req, name, in->role_id, &role));
    return approle_save(req, name, &role);
}

static const struct route role_routes[] = {
    {.method = METHOD_LIST,
     .path = "role",
     .handler = role_list,
     .help = "The names of all roles."},
    {.method = METHOD_GET,
     .path = "role/:role@",
     .handler = role_read,
     .reply = &shown_schema,
     .help = "Read a role."},
    {.method = METHOD_POST,
     .path = "role/:role@",
     .handler = role_write,
     .exists = role_exists,
     .body = &approle_role_schema,
     .input = INPUT_FREE,
     .help = "Create or change a role. Fields that the request does not give keep their values."},
    {.method = METHOD_DELETE,
     .path = "role/:role@",
     .handler = role_delete,
     .help = "Delete a role and its secret ids. Its tokens can no longer be renewed."},
    {.method = METHOD_GET,
     .path = "role/:role@/role-id",
     .handler = id_read,
     .reply = &id_schema,
     .help = "The id that names the role at a login."},
    {.method = METHOD_POST,
     .path = "role/:role@/role-id",
     .handler = id_write,
     .body = &id_schema,
     .help = "Give the role another id."},
};
const struct route_table approle_role_table = {role_routes, ARRAY_LEN(role_routes)};
