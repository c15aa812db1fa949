/* Roles, by which tokens are created: s/ns/NS/tokenrole/NAME, an object of the fields below. */
#include "api/token/token.h"
#include "auth/policy.h"
#include "state/ns_key.h"
#include "text/cidr.h"

#define ROLE_KIND "tokenrole"

enum { CIDRS_MAX = 64, ALIASES_MAX = 1000 };

/* Fields of a role that is the member `at` of a struct, or the struct itself. */
#define ROLE_FIELDS(type, at)                                                                      \
    FIELD_NAMED("allowed_policies", type, at allowed_policies, STRINGS,                            \
                .help = "Policies that a token may ask for; none: the policies of its parent."),   \
        FIELD_NAMED("disallowed_policies", type, at disallowed_policies, STRINGS,                  \
                    .help = "Policies that a token may not have."),                                \
        FIELD_NAMED("allowed_policies_glob", type, at allowed_policies_glob, STRINGS,              \
                    .help = "As allowed_policies; '*' stands for anything."),                      \
        FIELD_NAMED("disallowed_policies_glob", type, at disallowed_policies_glob, STRINGS,        \
                    .help = "As disallowed_policies; '*' stands for anything."),                   \
        FIELD_NAMED("orphan", type, at orphan, BOOL, .help = "Tokens have no parent."),            \
        FIELD_NAMED("renewable", type, at renewable, BOOL, .preset = "true",                       \
                    .help = "Tokens may be renewed."),                                             \
        FIELD_NAMED("path_suffix", type, at path_suffix, STRING, .preset = "",                     \
                    .help = "Added to the path that tokens are shown with."),                      \
        FIELD_NAMED("allowed_entity_aliases", type, at allowed_entity_aliases, STRINGS,            \
                    .help = "Aliases that a token may name for its entity; '*' at the end stands " \
                            "for anything."),                                                      \
        FIELD_NAMED("token_bound_cidrs", type, at token_bound_cidrs, STRINGS,                      \
                    .help =                                                                        \
                        "Addresses and blocks of them from which tokens may be used; none: all."), \
        FIELD_NAMED("token_period", type, at token_period, DURATION,                               \
                    .help = "Tokens live this long after each renewal, without an end."),          \
        FIELD_NAMED("token_explicit_max_ttl", type, at token_explicit_max_ttl, DURATION,           \
                    .help = "Tokens end this long after their creation, even if renewed."),        \
        FIELD_NAMED("token_no_default_policy", type, at token_no_default_policy, BOOL,             \
                    .help = "The policy \"default\" is not added."),                               \
        FIELD_NAMED("token_num_uses", type, at token_num_uses, INT, .exact = true,                 \
                    .help = "How often tokens may be used; 0: any number."),                       \
        FIELD_NAMED("token_type", type, at token_type, STRING, .preset = "default-service",        \
                    .help = "service, batch, default-service or default-batch.")
static const struct field role_fields[] = {ROLE_FIELDS(struct token_role, )};
static const struct schema token_role_schema = SCHEMA(struct token_role, role_fields);

struct role_out {
    const char *name;
    struct token_role role;
};
static const struct field role_out_fields[] = {
    FIELD(struct role_out, name, STRING),
    ROLE_FIELDS(struct role_out, role.),
    FIELD_NAMED("period", struct role_out, role.token_period, INT),
    FIELD_NAMED("explicit_max_ttl", struct role_out, role.token_explicit_max_ttl, INT),
};
static const struct schema token_role_reply = SCHEMA(struct role_out, role_out_fields);

/* Names that older clients use. */
static const char *const old_names[][2] = {
    {"period", "token_period"},
    {"explicit_max_ttl", "token_explicit_max_ttl"},
    {"bound_cidrs", "token_bound_cidrs"},
};

static enum status role_key(struct req *req, const char *name, struct bytes *ret_key)
{
    return state_ns_key(req->arena, req->ns, ROLE_KIND, bytes_str(name), NULL, ret_key);
}

/* The stored record as a tree. ST_NOT_FOUND. */
static enum status load_tree(struct req *req, const char *name, const struct text_value **ret_tree)
{
    struct bytes key;
    struct state_value stored;
    TRY(role_key(req, name, &key));
    TRY(state_get(req->txn, key, &stored));
    enum status st = text_json_parse(req->arena, stored.value, ret_tree, NULL);
    if (st == ST_OK && (*ret_tree)->kind != TEXT_OBJECT)
        st = ST_CORRUPT;
    return st == ST_OK || st == ST_NOMEM ? st : ST_CORRUPT;
}

static enum status decode(struct req *req, const struct text_value *tree,
                          struct token_role *ret_role)
{
    struct schema_fault fault;
    enum status st = schema_decode(&token_role_schema, tree, req->arena, ret_role, &fault);
    return st == ST_INVALID ? ST_CORRUPT : st;
}

enum status token_role_load(struct req *req, const char *name, struct token_role *ret_role)
{
    const struct text_value *tree;
    TRY(load_tree(req, name, &tree));
    return decode(req, tree, ret_role);
}

static enum status token_role_exists(struct req *req)
{
    struct bytes key;
    TRY(role_key(req, req_param(req, "role"), &key));
    return state_exists(req->txn, key);
}

static enum status token_role_read(struct req *req)
{
    struct role_out out = {.name = req_param(req, "role")};
    TRY(token_role_load(req, out.name, &out.role));
    return req_reply(req, &out);
}

static struct bytes current_name(struct bytes name)
{
    for (size_t i = 0; i < ARRAY_LEN(old_names); i++)
        if (text_is(name, old_names[i][0]))
            return bytes_str(old_names[i][1]);
    return name;
}

/* Whether a member says no more than that its field is not given, see schema.h: the stored value
 * stays. Only the fields that are lists or texts can be emptied by an empty text. */
static bool is_blank(const struct text_value *member, struct bytes name)
{
    if (member->kind != TEXT_STRING || member->text.len != 0)
        return member->kind == TEXT_NULL;
    for (size_t i = 0; i < ARRAY_LEN(role_fields); i++)
        if (text_is(name, role_fields[i].name))
            return role_fields[i].kind == FIELD_BOOL || role_fields[i].kind == FIELD_DURATION;
    return false;
}

/* Whether a member has a name of before, and stands beside its present name, which then counts. */
static bool is_superseded(const struct text_value *from, const struct text_value *member,
                          struct bytes present)
{
    const struct text_value *other = text_get(from, (const char *)present.data);
    return !bytes_eq(member->name, present) && other != NULL && !is_blank(other, present);
}

/* Copy the members of `from` that `to` does not have yet. */
static enum status add_members(struct req *req, struct text_value *to,
                               const struct text_value *from)
{
    ASSERT(to->kind == TEXT_OBJECT && from->kind == TEXT_OBJECT);
    TEXT_FOR (member, from) {
        struct bytes name = current_name(member->name);
        const char *text = arena_str(req->arena, name);
        if (text == NULL)
            return ST_NOMEM;
        if (is_blank(member, name))
            continue;
        if (is_superseded(from, member, bytes_str(text))) {
            req_warn(
                req,
                "Both '%s' and deprecated '%.*s' value supplied, ignoring the deprecated value",
                text, (int)member->name.len, (const char *)member->name.data);
            continue;
        }
        if (text_get(to, text) != NULL)
            continue;
        struct text_value *copy = text_value_new(req->arena, to, member->kind, name);
        if (copy == NULL)
            return ST_NOMEM;
        copy->text = member->text;
        copy->truth = member->truth;
        copy->line = member->line;
        copy->first = member->first;
        copy->last = member->last;
        copy->n = member->n;
    }
    return ST_OK;
}

static enum status check_cidrs(struct req *req, const struct field_strings *list)
{
    struct cidr cidr;
    if (list->n > CIDRS_MAX)
        return req_fail(req, ST_INVALID, "token_bound_cidrs: more than %d", CIDRS_MAX);
    for (size_t i = 0; i < list->n; i++)
        if (cidr_parse(bytes_str(list->items[i]), &cidr) != ST_OK)
            return req_fail(
                req, ST_INVALID,
                "token_bound_cidrs: \"%.80s\" is neither an address nor a block of addresses",
                list->items[i]);
    return ST_OK;
}

/* Refuse settings that batch tokens cannot have: such a role could never make a token. */
static enum status check_batch(struct req *req, const struct token_role *role)
{
    const struct {
        bool given;
        const char *what;
    } no[] = {
        {!role->orphan, "non-orphan tokens"},
        {role->token_period != 0, "periodic tokens"},
        {role->renewable, "renewable tokens"},
        {role->token_explicit_max_ttl != 0, "tokens with an explicit max TTL"},
        {role->token_num_uses != 0, "tokens with a number of uses"},
    };
    for (size_t i = 0; i < ARRAY_LEN(no) && strcmp(role->token_type, AUTH_TYPE_BATCH) == 0; i++)
        if (no[i].given)
            return req_fail(req, ST_INVALID,
                            "'token_type' cannot be 'batch' when role is set to generate %s",
                            no[i].what);
    return ST_OK;
}

static enum status validate(struct req *req, const struct token_role *role)
{
    static const char *const types[] = {"service", "batch", "default-service", "default-batch"};
    size_t i = 0;
    ASSERT(role->token_period >= 0 && role->token_explicit_max_ttl >= 0);
    while (i < ARRAY_LEN(types) && strcmp(types[i], role->token_type) != 0)
        i++;
    if (i == ARRAY_LEN(types))
        return req_fail(req, ST_INVALID, "invalid 'token_type' value");
    if (role->token_num_uses < 0)
        return req_fail(req, ST_INVALID, "'token_num_uses' cannot be negative");
    TRY(check_cidrs(req, &role->token_bound_cidrs));
    if (role->allowed_entity_aliases.n > ALIASES_MAX)
        return req_fail(req, ST_INVALID, "allowed_entity_aliases: %d at most", ALIASES_MAX);
    TRY(check_batch(req, role));
    if (strpbrk(role->path_suffix, "\n\t /") != NULL || strlen(role->path_suffix) > 200)
        return req_fail(req, ST_INVALID, "path_suffix: one segment of a path is expected");
    return ST_OK;
}

/* Fields that the request does not give keep their values. */
static enum status token_role_write(struct req *req)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record, .plain = true};
    const char *name = req_param(req, "role");
    const struct text_value *stored;
    struct text_value *merged = text_value_new(req->arena, NULL, TEXT_OBJECT, BYTES(""));
    struct schema_fault fault;
    struct token_role role;
    struct bytes key;

    ASSERT(route_is_name(bytes_str(name)));
    if (merged == NULL)
        return ST_NOMEM;
    TRY(add_members(req, merged, req->data));
    enum status st = load_tree(req, name, &stored);
    if (st == ST_OK)
        st = add_members(req, merged, stored);
    if (st != ST_NOT_FOUND)
        TRY(st);
    st = schema_decode(&token_role_schema, merged, req->arena, &role, &fault);
    if (st == ST_INVALID)
        return req_fail(req, st, "Field validation failed: %s: %s", fault.field, fault.why.text);
    TRY(st);
    TRY(validate(req, &role));
    schema_encode(&token_role_schema, &role, &w);
    TRY(buf_status(&record));
    ASSERT(record.data[0] == '{' && record.data[record.len - 1] == '}');
    TRY(role_key(req, name, &key));
    return state_put(req->txn, key, buf_bytes(&record));
}

static enum status token_role_delete(struct req *req)
{
    struct bytes key;
    TRY(role_key(req, req_param(req, "role"), &key));
    return state_delete(req->txn, key);
}

static enum status token_role_list(struct req *req)
{
    struct bytes prefix;
    TRY(role_key(req, "", &prefix));
    return req_reply_listing(req, prefix);
}

static const struct route role_routes[] = {
    {.method = METHOD_LIST,
     .path = "roles",
     .handler = token_role_list,
     .help = "The names of all roles."},
    {.method = METHOD_GET,
     .path = "roles/:role",
     .handler = token_role_read,
     .reply = &token_role_reply,
     .help = "Read a role."},
    {.method = METHOD_POST,
     .path = "roles/:role",
     .handler = token_role_write,
     .exists = token_role_exists,
     .body = &token_role_schema,
     .input = INPUT_FREE,
     .help = "Create or change a role. Fields that the request does not give keep their values."},
    {.method = METHOD_DELETE,
     .path = "roles/:role",
     .handler = token_role_delete,
     .help = "Delete a role. Its tokens can no longer be renewed."},
};

const struct route_table token_role_table = {role_routes, ARRAY_LEN(role_routes)};
