/* ACL policies, below acl/policy.
 *
 * A write is checked in this order: ids of the path and the body, name, existence, another policy
 * of the name, changes of a builtin policy, rules. Refusals of the ids are 400, and from the name
 * on 500, which tools look for together with the text. Source: spec 3, A3 and A4. */
#include "auth/registry/registry_policy.h"
#include "api/registry/registry.h"
#include "auth/namespace.h"
#include "auth/registry/registry.h"
#include "auth/registry/registry_rules.h"
#include "auth/registry/registry_settings.h"
#include "front/registry/registry_namespace.h"
#include "front/registry/registry_rights.h"
#include "router/request/path.h"
#include "router/request/reply.h"
#include "text/encode.h"
#include "text/random.h"

#include <strings.h>

struct policy_in {
    const char *id, *name, *description, *rules, *ns;
    struct field_strings datacenters;
    /* clients send back what they have read */
    const struct text_value *hash, *created, *modified;
};
static const struct field policy_in_fields[] = {
    FIELD_NAMED("ID", struct policy_in, id, STRING,
                .help = "The id of the path, or absent; absent for a new policy."),
    FIELD_NAMED("Name", struct policy_in, name, STRING,
                .help = "1 to 128 letters, digits, - and _; no two names differ in case alone."),
    FIELD_NAMED("Description", struct policy_in, description, STRING, .preset = ""),
    FIELD_NAMED("Rules", struct policy_in, rules, STRING, .preset = "",
                .help = "What the policy allows, in HCL or JSON."),
    FIELD_NAMED("Datacenters", struct policy_in, datacenters, STRINGS,
                .help = "Where the policy is valid; none listed: everywhere."),
    FIELD_NAMED("Namespace", struct policy_in, ns, STRING,
                .help = "Goes before the parameter and the header."),
    FIELD_NAMED("Hash", struct policy_in, hash, VALUE, .help = "Ignored."),
    FIELD_NAMED("CreateIndex", struct policy_in, created, VALUE, .help = "Ignored."),
    FIELD_NAMED("ModifyIndex", struct policy_in, modified, VALUE, .help = "Ignored."),
};
static const struct schema policy_in_schema = {.fields = policy_in_fields,
                                               .n = ARRAY_LEN(policy_in_fields),
                                               .size = sizeof(struct policy_in),
                                               .fold_case = true,
                                               .typed = true};

struct policy_out {
    const char *id, *name, *description, *rules, *hash, *created, *modified, *ns;
    struct field_strings datacenters;
};

#define POLICY_HEAD                                           \
    FIELD_NAMED("ID", struct policy_out, id, STRING),         \
        FIELD_NAMED("Name", struct policy_out, name, STRING), \
        FIELD_NAMED("Description", struct policy_out, description, STRING)
#define POLICY_TAIL                                                                             \
    FIELD_NAMED("Hash", struct policy_out, hash, STRING,                                        \
                .help = "BLAKE2b-256 of name, description, rules and datacenters, in base64."), \
        FIELD_NAMED("CreateIndex", struct policy_out, created, DIGITS),                         \
        FIELD_NAMED("ModifyIndex", struct policy_out, modified, DIGITS),                        \
        FIELD_NAMED("Namespace", struct policy_out, ns, STRING, .omit = true,                   \
                    .help = "Absent: the default namespace.")

static const struct field policy_out_fields[] = {
    POLICY_HEAD,
    FIELD_NAMED("Rules", struct policy_out, rules, STRING),
    FIELD_NAMED("Datacenters", struct policy_out, datacenters, STRINGS, .omit = true),
    POLICY_TAIL,
};
static const struct schema policy_reply = SCHEMA(struct policy_out, policy_out_fields);

static const struct field policy_item_fields[] = {
    POLICY_HEAD,
    FIELD_NAMED("Datacenters", struct policy_out, datacenters, STRINGS, .null = true),
    POLICY_TAIL,
};
static const struct schema policy_item = SCHEMA(struct policy_out, policy_item_fields);

struct policies_out {
    struct field_list policies;
};
static const struct field policies_fields[] = {
    FIELD_ITSELF(struct policies_out, policies, LIST, .sub = &policy_item)};
static const struct schema policies_reply = SCHEMA_ITSELF(struct policies_out, policies_fields);

struct deleted_out {
    bool deleted;
};
static const struct field deleted_fields[] = {FIELD_ITSELF(struct deleted_out, deleted, BOOL)};
static const struct schema deleted_reply = SCHEMA_ITSELF(struct deleted_out, deleted_fields);

/* Replies */

/* A version, or the place of the commit's version for what this transaction stages. */
static const char *version_text(struct arena *arena, uint64_t version)
{
    return version != 0 ? arena_number(arena, version) : REPLY_VERSION;
}

static enum status show(struct arena *arena, const char *ns, const struct registry_policy *policy,
                        struct policy_out *ret_out)
{
    char *hash = arena_alloc(arena, TEXT_BASE64_LEN(sizeof policy->hash) + 1);
    struct policy_out out = {
        .id = policy->id,
        .name = policy->name,
        .description = policy->description,
        .rules = policy->rules,
        .hash = hash,
        .created = version_text(arena, policy->created),
        .modified = version_text(arena, policy->modified),
        .ns = auth_namespace_name(ns),
        .datacenters = policy->datacenters,
    };
    if (hash == NULL || out.created == NULL || out.modified == NULL)
        return ST_NOMEM;
    (void)text_base64_put(bytes_of(policy->hash, sizeof policy->hash), TEXT_BASE64, hash);
    *ret_out = out;
    return ST_OK;
}

static enum status reply_policy(struct req *req, const struct registry_policy *policy)
{
    struct policy_out out;
    TRY(show(req->arena, req->ns, policy, &out));
    return req_reply(req, &out);
}

static enum status reply_deleted(struct req *req, bool deleted)
{
    return req_reply(req, &(struct deleted_out){deleted});
}

/* Ids and names of the path */

/* The id of the path in lower case, in the arena. */
static enum status id_of_path(struct req *req, const char **ret_id)
{
    const char *given = req_param(req, "id");
    char *id = arena_alloc(req->arena, TEXT_UUID_LEN + 1);
    if (given[0] == '\0')
        return req_fail(req, ST_INVALID, "Missing policy ID");
    if (id == NULL)
        return ST_NOMEM;
    if (text_uuid_parse(bytes_str(given), id) != ST_OK)
        return req_fail(req, ST_REFUSED, "Policy ID invalid UUID");
    *ret_id = id;
    return ST_OK;
}

/* The name of the path, which clients escape twice. */
static enum status name_of_path(struct req *req, struct bytes *ret_name)
{
    struct bytes given = bytes_str(req_param(req, "name"));
    if (given.len == 0)
        return req_fail(req, ST_INVALID, "Missing policy Name");
    enum status st = path_unescape(req->arena, given, ret_name);
    return st != ST_INVALID ? st
                            : req_fail(req, st, "the policy Name is not percent-encoded UTF-8");
}

/* Checks of a write */

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* `id` may be that of a builtin policy, whose name may have another form; NULL: a new policy. */
static enum status check_policy_name(struct req *req, const char *name, const char *id)
{
    if (!is_given(name))
        return req_fail(req, ST_REFUSED, "Invalid Policy: no Name is set");
    bool builtin = id != NULL && registry_policy_builtin(id) != NULL;
    if (registry_policy_is_name(name) || (builtin && registry_policy_is_builtin_name(name)))
        return ST_OK;
    return req_fail(req, ST_REFUSED,
                    "Invalid Policy: invalid Name. Only alphanumeric characters, '-' and '_' are "
                    "allowed");
}

/* Check that no policy but that of `id` has the name; NULL: none has it. */
static enum status check_taken(struct req *req, const char *name, const char *id)
{
    const char *holder;
    enum status st = registry_policy_find(req->txn, req->ns, bytes_str(name), &holder);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    if (id == NULL)
        return req_fail(req, ST_REFUSED, "Invalid Policy: A Policy with Name \"%s\" already exists",
                        name);
    if (strcmp(holder, id) == 0)
        return ST_OK;
    return req_fail(req, ST_REFUSED, "Invalid Policy: A policy with name \"%s\" already exists",
                    name);
}

static enum status check_builtin(struct req *req, const struct policy_in *in,
                                 const struct registry_policy *before)
{
    const struct registry_builtin *builtin = registry_policy_builtin(before->id);
    if (builtin == NULL)
        return ST_OK;
    if (strcmp(in->rules, before->rules) != 0)
        return req_fail(req, ST_REFUSED,
                        "Changing the Rules for the builtin %s policy is not permitted",
                        builtin->name);
    if (in->datacenters.n != 0)
        return req_fail(req, ST_REFUSED,
                        "Changing the Datacenters of the builtin %s policy is not permitted",
                        builtin->name);
    return ST_OK;
}

static enum status check_rules(struct req *req, const char *text)
{
    struct registry_rules *rules;
    struct reason why = {{0}};
    enum status st = registry_rules_compile(bytes_str(text), &rules, &why);
    if (st == ST_INVALID || st == ST_TOO_BIG)
        return req_fail(req, st == ST_INVALID ? ST_REFUSED : st, "%s", why.text);
    TRY(st);
    const char *unknown = registry_rules_unknown(rules);
    if (unknown != NULL && registry_settings()->strict_rules)
        st = req_fail(req, ST_REFUSED, "Failed to parse ACL rules: unknown block or field \"%s\"",
                      unknown);
    else if (unknown != NULL)
        req_warn(req, "the rules have \"%s\", which grants nothing", unknown);
    registry_rules_free(rules);
    return st;
}

/* Check rules and sizes, store the policy and reply with it. `before` is the stored policy; NULL: a
 * new one. */
static enum status put_policy(struct req *req, const char *id, const char *name,
                              const struct registry_policy *before)
{
    const struct policy_in *in = req_body(req);
    struct registry_policy policy = {
        .id = id,
        .name = name,
        .description = in->description,
        .rules = in->rules,
        .datacenters = in->datacenters,
        .created = before != NULL ? before->created : 0,
    };
    ASSERT(id != NULL && name[0] != '\0');
    policy.datacenters.given = in->datacenters.n != 0;
    if (in->datacenters.n > REGISTRY_POLICY_DATACENTERS_MAX)
        return req_fail(req, ST_REFUSED, "Invalid Policy: more than %d Datacenters",
                        REGISTRY_POLICY_DATACENTERS_MAX);
    TRY(check_rules(req, in->rules));
    enum status st = registry_policy_put(req->txn, req->ns, &policy, before);
    if (st == ST_TOO_BIG)
        return req_fail(req, st, "Invalid Policy: it is longer than %d bytes in all",
                        STATE_VALUE_MAX);
    TRY(st);
    return reply_policy(req, &policy);
}

static enum status put_new(struct req *req, const char *name)
{
    char *id = arena_alloc(req->arena, TEXT_UUID_LEN + 1);
    if (id == NULL)
        return ST_NOMEM;
    text_uuid(req->env, id);
    return put_policy(req, id, name, NULL);
}

/* Handlers */

static enum status create_policy(struct req *req)
{
    const struct policy_in *in = req_body(req);
    if (is_given(in->id))
        return req_fail(req, ST_INVALID, "Cannot specify the ID when creating a new policy");
    TRY(registry_namespace_use(req, in->ns));
    TRY(check_policy_name(req, in->name, NULL));
    TRY(check_taken(req, in->name, NULL));
    return put_new(req, in->name);
}

static enum status update_policy(struct req *req)
{
    const struct policy_in *in = req_body(req);
    const char *given = req_param(req, "id"), *id;
    char lower[TEXT_UUID_LEN + 1];
    struct registry_policy before;
    if (is_given(in->id) && strcasecmp(in->id, given) != 0)
        return req_fail(req, ST_INVALID, "Policy ID in URL and payload do not match");
    TRY(registry_namespace_use(req, in->ns));
    bool valid = text_uuid_parse(bytes_str(given), lower) == ST_OK;
    TRY(check_policy_name(req, in->name, valid ? lower : NULL));
    TRY(id_of_path(req, &id));
    enum status st = registry_policy_load(req->txn, req->ns, id, &before);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_REFUSED, "cannot find policy %s", id);
    TRY(st);
    TRY(check_taken(req, in->name, id));
    TRY(check_builtin(req, in, &before));
    return put_policy(req, id, in->name, &before);
}

/* Create the policy of a name, or replace it. */
static enum status set_policy(struct req *req)
{
    const struct policy_in *in = req_body(req);
    struct registry_policy before;
    struct bytes given;
    const char *id = NULL;
    TRY(name_of_path(req, &given));
    const char *name = is_given(in->name) ? in->name : (const char *)given.data;
    if (strlen(name) != given.len || strncasecmp(name, (const char *)given.data, given.len) != 0)
        return req_fail(req, ST_INVALID, "Policy Name in URL and payload do not match");
    TRY(registry_namespace_use(req, in->ns));
    enum status st = registry_policy_find(req->txn, req->ns, given, &id);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    if (is_given(in->id) && (id == NULL || strcasecmp(in->id, id) != 0))
        return req_fail(req, ST_INVALID, "Policy ID in payload is not that of the Name in URL");
    TRY(check_policy_name(req, name, id));
    if (id == NULL)
        return put_new(req, name);
    TRY(registry_policy_load(req->txn, req->ns, id, &before));
    TRY(check_builtin(req, in, &before));
    return put_policy(req, id, name, &before);
}

/* Watch a policy and reply with it. */
static enum status read_policy(struct req *req, const char *id)
{
    struct registry_policy policy;
    struct state_value value;
    struct bytes key;
    TRY(registry_policy_key(req->arena, req->ns, bytes_str(id), &key));
    enum status st = req_watch_get(req, key, &value);
    if (st == ST_NOT_FOUND)
        return req_fail(req, st, "Requested policy does not exist: ACL not found");
    TRY(st);
    TRY(registry_policy_of(&value, req->arena, id, &policy));
    return reply_policy(req, &policy);
}

static enum status read_by_id(struct req *req)
{
    const char *id;
    TRY(id_of_path(req, &id));
    return read_policy(req, id);
}

/* Watch the key that leads from a name to an id. No policy can have a name that is too long for
 * one: watch all names, so that a client waits as it does for every other name that is not there.
 */
static enum status watch_name(struct req *req, struct bytes name)
{
    struct bytes key;
    bool possible = name.len <= REGISTRY_POLICY_NAME_MAX && memchr(name.data, 0, name.len) == NULL;
    TRY(registry_policy_name_key(req->arena, req->ns, possible ? name : (struct bytes){0}, &key));
    return possible ? req_watch_key(req, key) : req_watch_prefix(req, key);
}

static enum status read_by_name(struct req *req)
{
    struct bytes name;
    const char *id;
    TRY(name_of_path(req, &name));
    TRY(watch_name(req, name));
    enum status st = registry_policy_find(req->txn, req->ns, name, &id);
    if (st == ST_NOT_FOUND)
        return req_fail(req, st, "Requested policy does not exist: ACL not found");
    TRY(st);
    return read_policy(req, id);
}

static enum status delete_policy(struct req *req)
{
    struct registry_policy policy;
    const char *id;
    TRY(id_of_path(req, &id));
    enum status st = registry_policy_load(req->txn, req->ns, id, &policy);
    if (st == ST_NOT_FOUND)
        return reply_deleted(req, false);
    TRY(st);
    const struct registry_builtin *builtin = registry_policy_builtin(id);
    if (builtin != NULL)
        return req_fail(req, ST_REFUSED, "Delete operation not permitted on the builtin %s policy",
                        builtin->name);
    TRY(registry_policy_delete(req->txn, req->ns, &policy));
    return reply_deleted(req, true);
}

/* Write the policy of the walk's current key. Its rules, which may be long, lie in `arena`. */
static enum status put_listed(struct req *req, struct state_iter *iter, struct arena *arena,
                              struct text_writer *w)
{
    struct registry_policy policy;
    struct policy_out out;
    struct bytes record;
    TRY(state_iter_value_into(iter, arena, &record));
    TRY(registry_policy_read(record, arena, &policy));
    policy.id = arena_str(arena, bytes_from(iter->key, iter->prefix.len));
    policy.created = iter->created;
    policy.modified = iter->modified;
    if (policy.id == NULL)
        return ST_NOMEM;
    TRY(show(arena, req->ns, &policy, &out));
    schema_encode(&policy_item, &out, w);
    return ST_OK;
}

static enum status list_policies(struct req *req)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes prefix;
    if (iter == NULL)
        return ST_NOMEM;
    TRY(registry_policy_key(req->arena, req->ns, (struct bytes){0}, &prefix));
    TRY(req_watch_prefix(req, prefix));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
    struct text_writer w = req_reply_begin(req);
    text_open_list(&w);
    while (state_iter_next(iter)) {
        TRY(put_listed(req, iter, &arena, &w));
        arena_clear(&arena);
    }
    text_close(&w);
    return req_reply_end(req);
}

static const struct registry_row may_read = {
    .permission = "acl:read", .resource = REGISTRY_ACL, .level = REGISTRY_READ};
static const struct registry_row may_list = {
    .permission = "acl:read", .resource = REGISTRY_ACL, .level = REGISTRY_READ, .collection = true};
static const struct registry_row may_write = {
    .permission = "acl:write", .resource = REGISTRY_ACL, .level = REGISTRY_WRITE};

#define READS .method = METHOD_GET, .of_dialect = &may_read
#define WRITES                                                                   \
    .method = METHOD_PUT, .of_dialect = &may_write, .feature = REGISTRY_FEATURE, \
    .index = INDEX_VERSION, .noun = "Policy", .body = &policy_in_schema, .reply = &policy_reply

static const struct route policy_routes[] = {
    {WRITES, .path = "policy", .handler = create_policy, .help = "Create a policy."},
    {.method = METHOD_GET,
     .path = "policies",
     .handler = list_policies,
     .of_dialect = &may_list,
     .index = INDEX_BLOCKS,
     .reply = &policies_reply,
     .help = "All policies by id, without their rules."},
    {READS, .path = "policy/name/*name", .handler = read_by_name, .index = INDEX_BLOCKS,
     .reply = &policy_reply, .help = "Read the policy of a name."},
    {WRITES, .path = "policy/name/*name", .handler = set_policy,
     .help = "Create the policy of a name, or replace it."},
    {READS, .path = "policy/*id", .handler = read_by_id, .index = INDEX_BLOCKS,
     .reply = &policy_reply, .help = "Read a policy."},
    {WRITES, .path = "policy/*id", .handler = update_policy, .help = "Replace a policy."},
    {.method = METHOD_DELETE,
     .path = "policy/*id",
     .handler = delete_policy,
     .of_dialect = &may_write,
     .feature = REGISTRY_FEATURE,
     .reply = &deleted_reply,
     .help = "Delete a policy; false: there was none. Tokens lose what it allowed at once."},
};

const struct route_table registry_policy_table = {policy_routes, ARRAY_LEN(policy_routes)};
