/* Single fields of a role, each at a path of its own. */
#include "api/approle/approle.h"
#include "router/req_object.h"

/* A path, the name of the field in the role, and its name in the reply and body. */
static const struct place {
    const char *path, *field, *shown;
} places[] = {
    {"policies", "token_policies", "token_policies"},
    {"bind-secret-id", "bind_secret_id", "bind_secret_id"},
    {"local-secret-ids", "local_secret_ids", "local_secret_ids"},
    {"secret-id-bound-cidrs", "secret_id_bound_cidrs", "secret_id_bound_cidrs"},
    {"bound-cidr-list", "secret_id_bound_cidrs", "bound_cidr_list"},
    {"secret-id-num-uses", "secret_id_num_uses", "secret_id_num_uses"},
    {"secret-id-ttl", "secret_id_ttl", "secret_id_ttl"},
    {"token-ttl", "token_ttl", "token_ttl"},
    {"token-max-ttl", "token_max_ttl", "token_max_ttl"},
    {"token-explicit-max-ttl", "token_explicit_max_ttl", "token_explicit_max_ttl"},
    {"token-num-uses", "token_num_uses", "token_num_uses"},
    {"token-bound-cidrs", "token_bound_cidrs", "token_bound_cidrs"},
    {"token-no-default-policy", "token_no_default_policy", "token_no_default_policy"},
    {"token-type", "token_type", "token_type"},
    {"period", "token_period", "token_period"},
    {"token-period", "token_period", "token_period"},
};

#define ROLE_PATH "role/:role@/"

/* The place that the path of the request names. */
static const struct place *place_of_row(const struct req *req)
{
    const char *pattern = req->route->path + strlen(ROLE_PATH);
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (strcmp(places[i].path, pattern) == 0)
            return &places[i];
    ASSERT(pattern[0] == '\0'); /* every row has its place */
    return NULL;
}

static const struct field *field_of(const struct place *place)
{
    const struct schema *schema = &approle_role_schema;
    for (size_t i = 0; i < schema->n; i++)
        if (strcmp(schema->fields[i].name, place->field) == 0)
            return &schema->fields[i];
    ASSERT(place->field == NULL); /* every place names a field */
    return NULL;
}

/* A reply with one field. */
struct field_out {
    struct approle_role role;
    bool shows[ARRAY_LEN(places)];
};
#define SHOW(i, text, member, kind)                                      \
    FIELD_NAMED(text, struct field_out, role.member, kind, .omit = true, \
                .has = offsetof(struct field_out, shows[i]))
static const struct field out_fields[] = {
    SHOW(0, "policies", role.token_policies, STRINGS),
    SHOW(0, "token_policies", role.token_policies, STRINGS),
    SHOW(1, "bind_secret_id", bind_secret_id, BOOL),
    SHOW(2, "local_secret_ids", local_secret_ids, BOOL),
    SHOW(3, "secret_id_bound_cidrs", secret_id_bound_cidrs, STRINGS),
    SHOW(4, "bound_cidr_list", secret_id_bound_cidrs, STRINGS),
    SHOW(5, "secret_id_num_uses", secret_id_num_uses, INT),
    SHOW(6, "secret_id_ttl", secret_id_ttl, INT),
    SHOW(7, "token_ttl", role.token_ttl, INT),
    SHOW(8, "token_max_ttl", role.token_max_ttl, INT),
    SHOW(9, "token_explicit_max_ttl", role.token_explicit_max_ttl, INT),
    SHOW(10, "token_num_uses", role.token_num_uses, INT),
    SHOW(11, "token_bound_cidrs", role.token_bound_cidrs, STRINGS),
    SHOW(12, "token_no_default_policy", role.token_no_default_policy, BOOL),
    SHOW(13, "token_type", role.token_type, STRING),
    SHOW(14, "token_period", role.token_period, INT),
};
static const struct schema out_schema = SCHEMA(struct field_out, out_fields);
enum { PERIOD_PLACE = 14 }; /* two paths lead to this field */

static enum status load(struct req *req, const struct place **ret_place, const char **ret_name,
                        struct approle_role *ret_role)
{
    *ret_place = place_of_row(req);
    TRY(approle_name(req, ret_name));
    return approle_load(req, req->mount, *ret_name, ret_role);
}

static enum status role_field_read(struct req *req)
{
    struct field_out out = {.shows = {false}};
    const struct place *place;
    const char *name;
    TRY(load(req, &place, &name, &out.role));
    size_t i = (size_t)(place - places);
    ASSERT(i < ARRAY_LEN(places));
    out.shows[MIN(i, (size_t)PERIOD_PLACE)] = true;
    return req_reply(req, &out);
}

/* Whether the body names the field, by any of its names. */
static bool is_given(const struct req *req, const struct place *place)
{
    if (text_get(req->data, place->field) != NULL || text_get(req->data, place->shown) != NULL)
        return true;
    for (size_t i = 0; i < APPROLE_OLD_NAMES; i++)
        if (strcmp(approle_old_names[i][1], place->field) == 0 &&
            text_get(req->data, approle_old_names[i][0]) != NULL)
            return true;
    return false;
}

/* Keep of the body the members of this field alone. */
static enum status only(struct req *req, const struct place *place)
{
    struct text_value *kept = text_value_new(req->arena, NULL, TEXT_OBJECT, BYTES(""));
    if (kept == NULL)
        return ST_NOMEM;
    TEXT_FOR (member, req->data) {
        bool wanted = text_is(member->name, place->field) || text_is(member->name, place->shown);
        for (size_t i = 0; i < APPROLE_OLD_NAMES; i++)
            wanted = wanted || (strcmp(approle_old_names[i][1], place->field) == 0 &&
                                text_is(member->name, approle_old_names[i][0]));
        if (!wanted)
            continue;
        struct text_value *copy = text_value_new(req->arena, kept, member->kind, member->name);
        if (copy == NULL)
            return ST_NOMEM;
        struct text_value *next = copy->next;
        *copy = *member;
        copy->next = next;
    }
    req->data = kept;
    return ST_OK;
}

static enum status field_write(struct req *req)
{
    const struct text_value *data = req->data;
    struct approle_role role;
    const struct place *place;
    const char *name;
    bool stored;
    TRY(load(req, &place, &name, &role));
    if (!is_given(req, place))
        return req_fail(req, ST_INVALID, "missing %s", place->field);
    const struct req_object object = {.path = approle_path(req, "role", name, NULL),
                                      .schema = &approle_role_schema,
                                      .old = {approle_old_names, APPROLE_OLD_NAMES}};
    if (object.path == NULL)
        return ST_NOMEM;
    TRY(only(req, place));
    enum status st = req_object_change(req, &object, &role, &stored);
    req->data = data;
    TRY(st);
    return approle_save(req, name, &role);
}

/* Give a field the value that a new role has. */
static enum status field_delete(struct req *req)
{
    struct approle_role role, fresh;
    struct schema_fault fault;
    const struct place *place;
    const char *name;
    enum status st = load(req, &place, &name, &role);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    TRY(schema_decode(&approle_role_schema, NULL, req->arena, &fresh, &fault));
    const struct field *field = field_of(place);
    size_t size = field->kind == FIELD_BOOL      ? sizeof(bool)
                  : field->kind == FIELD_STRING  ? sizeof(const char *)
                  : field->kind == FIELD_STRINGS ? sizeof(struct field_strings)
                                                 : sizeof(int64_t);
    memcpy((char *)&role + field->offset, (const char *)&fresh + field->offset, size);
    return approle_save(req, name, &role);
}

#define READS(last)                                                               \
    {                                                                             \
        .method = METHOD_GET, .path = ROLE_PATH last, .handler = role_field_read, \
        .reply = &out_schema, .help = "Read " last " of a role."                  \
    }
#define ROWS(last)                                                                 \
    READS(last),                                                                   \
        {.method = METHOD_POST,                                                    \
         .path = ROLE_PATH last,                                                   \
         .handler = field_write,                                                   \
         .body = &approle_role_schema,                                             \
         .input = INPUT_FREE,                                                      \
         .help = "Set " last " of a role; other fields of the body are ignored."}, \
    {                                                                              \
        .method = METHOD_DELETE, .path = ROLE_PATH last, .handler = field_delete,  \
        .help = "Give " last " of a role the value that a new role has."           \
    }

static const struct route field_routes[] = {
    ROWS("policies"),
    ROWS("bind-secret-id"),
    READS("local-secret-ids"),
    ROWS("secret-id-bound-cidrs"),
    ROWS("bound-cidr-list"),
    ROWS("secret-id-num-uses"),
    ROWS("secret-id-ttl"),
    ROWS("token-ttl"),
    ROWS("token-max-ttl"),
    ROWS("token-explicit-max-ttl"),
    ROWS("token-num-uses"),
    ROWS("token-bound-cidrs"),
    ROWS("token-no-default-policy"),
    ROWS("token-type"),
    ROWS("period"),
    ROWS("token-period"),
};
const struct route_table approle_field_table = {field_routes, ARRAY_LEN(field_routes)};
