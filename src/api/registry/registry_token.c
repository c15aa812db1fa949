/* ACL tokens, below acl/token.
 *
 * A write is checked in this order: ids of the path and the body, namespace, ids of a new token,
 * existence, what may not change, expiry, links. Refusals of the form are 400, all others 500,
 * which tools look for together with the text. A token that has expired does not exist. Source:
 * spec 3, A6. */
#include "api/registry/registry_token.h"
#include "api/registry/registry.h"
#include "auth/policy_list.h"
#include "auth/registry/registry.h"
#include "auth/registry/registry_link.h"
#include "auth/registry/registry_policy.h"
#include "auth/token_tree.h"
#include "front/registry/registry_namespace.h"
#include "front/registry/registry_rights.h"
#include "text/random.h"

#include <stdlib.h>
#include <strings.h>

static const struct field token_in_fields[] = {
    FIELD_NAMED("AccessorID", struct registry_token_in, accessor, STRING, .preset = "",
                .help = "A UUID; absent: a random one. For a change the id of the path."),
    FIELD_NAMED("SecretID", struct registry_token_in, secret, STRING, .preset = "", .hidden = true,
                .help = "A UUID; absent: a random one. It does not change."),
    FIELD_NAMED("Description", struct registry_token_in, description, STRING, .preset = ""),
    FIELD_NAMED("Policies", struct registry_token_in, policies, VALUE,
                .help = "Objects with the ID or the Name of a policy."),
    FIELD_NAMED("Roles", struct registry_token_in, roles, VALUE, .help = "There are no roles."),
    FIELD_NAMED("ServiceIdentities", struct registry_token_in, services, VALUE,
                .help = "Objects with a ServiceName, and Datacenters where it counts."),
    FIELD_NAMED("NodeIdentities", struct registry_token_in, nodes, VALUE,
                .help = "Objects with a NodeName and a Datacenter."),
    FIELD_NAMED("TemplatedPolicies", struct registry_token_in, templates, VALUE,
                .help = "Empty: there are none."),
    FIELD_NAMED("Local", struct registry_token_in, local, BOOL, .help = "It does not change."),
    FIELD_NAMED("AuthMethod", struct registry_token_in, auth_method, STRING, .preset = "",
                .help = "Empty: there are none."),
    FIELD_NAMED("ExpirationTime", struct registry_token_in, expires, STRING,
                .help = "When the token ends, in 1 minute to 24 hours; it does not change."),
    FIELD_NAMED("ExpirationTTL", struct registry_token_in, ttl, VALUE,
                .help = "The same as a duration, \"5m\", or a number of nanoseconds."),
    FIELD_NAMED("Namespace", struct registry_token_in, ns, STRING,
                .help = "Goes before the parameter and the header."),
    FIELD_NAMED("Rules", struct registry_token_in, rules, STRING, .preset = "", .help = "Empty."),
    FIELD_NAMED("Type", struct registry_token_in, type, STRING, .preset = "", .help = "Empty."),
    FIELD_NAMED("CreateTime", struct registry_token_in, created_ms, VALUE, .help = "Ignored."),
    FIELD_NAMED("Hash", struct registry_token_in, hash, VALUE, .help = "Ignored."),
    FIELD_NAMED("CreateIndex", struct registry_token_in, created, VALUE, .help = "Ignored."),
    FIELD_NAMED("ModifyIndex", struct registry_token_in, modified, VALUE, .help = "Ignored."),
    FIELD_NAMED("Legacy", struct registry_token_in, legacy, VALUE, .help = "Ignored."),
};
static const struct schema token_in_schema = {.fields = token_in_fields,
                                              .n = ARRAY_LEN(token_in_fields),
                                              .size = sizeof(struct registry_token_in),
                                              .fold_case = true,
                                              .typed = true};

struct deleted_out {
    bool deleted;
};
static const struct field deleted_fields[] = {FIELD_ITSELF(struct deleted_out, deleted, BOOL)};
static const struct schema deleted_reply = SCHEMA_ITSELF(struct deleted_out, deleted_fields);

/* Finding tokens */

enum status registry_token_missing(struct req *req)
{
    return req_fail(req, ST_DENIED, "token does not exist: ACL not found");
}

enum status registry_token_find(struct req *req, const char *accessor,
                                struct auth_token *ret_stored, struct registry_token *ret_token)
{
    const struct auth_scope scope = req_scope(req);
    char lower[TEXT_UUID_LEN + 1];
    ASSERT(scope.kind == TOKEN_REGISTRY);
    if (text_uuid_parse(bytes_str(accessor), lower) != ST_OK)
        return ST_NOT_FOUND;
    TRY(auth_token_find(&scope, lower, ret_stored));
    return registry_token_of(&scope, ret_stored, ret_token);
}

enum status registry_token_uuid(struct arena *arena, struct env *env, const char **ret_uuid)
{
    char *uuid = arena_alloc(arena, TEXT_UUID_LEN + 1);
    if (uuid == NULL)
        return ST_NOMEM;
    text_uuid(env, uuid);
    *ret_uuid = uuid;
    return ST_OK;
}

/* A token with acl:write may read the secrets of others. */
static enum status secrets_shown(struct req *req, unsigned *ret_flags)
{
    enum status st = registry_allow(req, REGISTRY_ACL, (struct bytes){0}, REGISTRY_WRITE);
    *ret_flags = st == ST_OK ? REGISTRY_SHOW_SECRET : 0;
    return st == ST_DENIED ? ST_OK : st;
}

static bool is_asked(const struct req *req, const char *parameter)
{
    return text_get(req->query, parameter) != NULL;
}

/* Reading */

/* Watch what decides whether the token of an accessor exists, and the token. */
static enum status watch_accessor(struct req *req, const char *accessor)
{
    const struct auth_scope scope = req_scope(req);
    char lower[TEXT_UUID_LEN + 1];
    struct auth_token stored;
    struct bytes key;
    if (text_uuid_parse(bytes_str(accessor), lower) != ST_OK)
        return ST_NOT_FOUND;
    TRY(token_store_accessor_key(req->arena, req->ns, bytes_str(lower), &key));
    TRY(req_watch_key(req, key));
    TRY(auth_token_find(&scope, lower, &stored));
    TRY(registry_token_key(req->arena, req->ns, stored.id, &key));
    return req_watch_key(req, key);
}

static enum status token_read(struct req *req)
{
    const char *accessor = req_param(req, "accessor");
    struct auth_token stored;
    struct registry_token token;
    unsigned flags;
    TRY(secrets_shown(req, &flags));
    enum status st = watch_accessor(req, accessor);
    if (st == ST_OK)
        st = registry_token_find(req, accessor, &stored, &token);
    if (st == ST_NOT_FOUND)
        return registry_token_missing(req);
    TRY(st);
    return registry_token_show(req, &token,
                               flags | (is_asked(req, "expanded") ? REGISTRY_SHOW_EXPANDED : 0));
}

/* A root token of the secrets service as this API takes it. */
static enum status show_root(struct req *req)
{
    static const char *const links[] = {REGISTRY_POLICY_MANAGEMENT};
    const char *bearer = arena_str(req->arena, req->bearer);
    const struct registry_token token = {.accessor = req->token->accessor,
                                         .secret = bearer,
                                         .description = "Root token of the secrets service",
                                         .links = {links, 1, true},
                                         .created_ms = req->token->created_ms,
                                         .expire_ms = req->token->expire_ms,
                                         .created = 1,
                                         .modified = 1};
    ASSERT(req->token->kind == TOKEN_SECRETS);
    return bearer != NULL ? registry_token_show(req, &token, REGISTRY_SHOW_SECRET) : ST_NOMEM;
}

static enum status token_self(struct req *req)
{
    const struct auth_scope scope = req_scope(req);
    struct registry_token token;
    struct bytes key;
    if (req->token == NULL)
        return registry_token_missing(req);
    if (req->token->kind != TOKEN_REGISTRY)
        return show_root(req);
    TRY(registry_token_key(req->arena, req->ns, req->token->id, &key));
    TRY(req_watch_key(req, key));
    TRY(registry_token_of(&scope, req->token, &token));
    unsigned flags =
        REGISTRY_SHOW_SECRET | (is_asked(req, "expanded") ? REGISTRY_SHOW_EXPANDED : 0);
    return registry_token_show(req, &token, flags);
}

/* A choice of tokens for a list; empty: all. */
struct filter {
    struct bytes policy, role, service, auth_method;
};

static enum status read_filter(struct req *req, struct filter *ret_filter)
{
    TRY(req_query(req, "policy", &ret_filter->policy));
    TRY(req_query(req, "role", &ret_filter->role));
    TRY(req_query(req, "servicename", &ret_filter->service));
    return req_query(req, "authmethod", &ret_filter->auth_method);
}

static bool has_link(const struct registry_token *token, enum registry_link_kind kind,
                     struct bytes name)
{
    for (size_t i = 0; i < token->links.n; i++) {
        const struct registry_link link = registry_link_read(bytes_str(token->links.items[i]));
        if (link.kind == kind && link.name.len == name.len &&
            strncasecmp((const char *)link.name.data, (const char *)name.data, name.len) == 0)
            return true;
    }
    return false;
}

static bool is_listed(const struct filter *filter, const struct registry_token *token)
{
    if (filter->role.len != 0 || filter->auth_method.len != 0)
        return false; /* no token has one */
    if (filter->policy.len != 0 && !has_link(token, REGISTRY_LINK_POLICY, filter->policy))
        return false;
    return filter->service.len == 0 || has_link(token, REGISTRY_LINK_SERVICE, filter->service);
}

static int by_accessor(const void *a, const void *b)
{
    const struct registry_token *x = a, *y = b;
    return strcmp(x->accessor, y->accessor);
}

/* Gather the tokens of the walk that the filter lets pass; `tokens` has room for all. */
static enum status gather_tokens(struct req *req, struct state_iter *iter,
                                 const struct filter *filter, struct registry_token *tokens,
                                 size_t *ret_n)
{
    const struct auth_scope scope = req_scope(req);
    *ret_n = 0;
    while (state_iter_next(iter)) {
        struct auth_token stored;
        struct registry_token *token = &tokens[*ret_n];
        const char *id = arena_str(req->arena, bytes_from(iter->key, iter->prefix.len));
        if (id == NULL)
            return ST_NOMEM;
        enum status st = auth_token_load_id(&scope, id, &stored);
        if (st == ST_NOT_FOUND)
            continue; /* the token has expired */
        TRY(st);
        TRY(registry_token_of(&scope, &stored, token));
        *ret_n += is_listed(filter, token);
    }
    return ST_OK;
}

static enum status token_list(struct req *req)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct filter filter = {.role = {0}};
    struct bytes prefix;
    unsigned flags;
    size_t n;
    TRY(secrets_shown(req, &flags));
    TRY(read_filter(req, &filter));
    TRY(token_store_kind_prefix(req->arena, req->ns, TOKEN_REGISTRY, &prefix));
    TRY(req_watch_prefix(req, prefix));
    size_t room = (size_t)state_count(req->txn, prefix);
    struct registry_token *tokens = arena_alloc(req->arena, (room + 1) * sizeof *tokens);
    if (iter == NULL || tokens == NULL)
        return ST_NOMEM;
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
    TRY(gather_tokens(req, iter, &filter, tokens, &n));
    ASSERT(n <= room);
    qsort(tokens, n, sizeof *tokens, by_accessor);
    return registry_token_show_all(req, tokens, n, flags);
}

/* Writing */

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Check the id that the client chose for a new token, or draw one. `what` is the name of its field.
 * Secrets keep their spelling: they are compared as they are. */
static enum status take_id(struct req *req, const char *what, const char *wanted, bool secret,
                           const char **ret_id)
{
    const struct auth_scope scope = req_scope(req);
    char *lower = arena_alloc(req->arena, TEXT_UUID_LEN + 1);
    bool used;
    if (!is_given(wanted))
        return registry_token_uuid(req->arena, req->env, ret_id);
    if (lower == NULL)
        return ST_NOMEM;
    if (text_uuid_parse(bytes_str(wanted), lower) != ST_OK)
        return req_fail(req, ST_REFUSED, "Invalid Token: %s - not a valid UUID", what);
    if (bytes_has_prefix(bytes_str(lower), BYTES(REGISTRY_RESERVED_IDS)))
        return req_fail(req, ST_REFUSED,
                        "Invalid Token: %s - UUIDs with the prefix \"%s\" are reserved", what,
                        REGISTRY_RESERVED_IDS);
    *ret_id = secret ? wanted : lower;
    TRY(auth_token_is_used(&scope, bytes_str(*ret_id), &used));
    if (!used && secret)
        TRY(auth_token_is_used(&scope, bytes_str(lower), &used));
    if (used)
        return req_fail(req, ST_REFUSED, "Invalid Token: %s is already in use", what);
    return ST_OK;
}

/* Refuse properties that no token of this registry has. */
static enum status refuse_absent(struct req *req, const struct registry_token_in *in)
{
    if (is_given(in->rules))
        return req_fail(req, ST_REFUSED, "Rules cannot be specified for this token");
    if (is_given(in->type))
        return req_fail(req, ST_REFUSED, "Type cannot be specified for this token");
    return ST_OK;
}

static enum status add_token(struct req *req, struct registry_token *token)
{
    const struct auth_scope scope = req_scope(req);
    token->created_ms = req->now_ms;
    token->created = token->modified = 0;
    TRY(registry_token_check_expiry(req, token->expire_ms));
    TRY(registry_token_add(&scope, token));
    return registry_token_show(req, token, REGISTRY_SHOW_SECRET);
}

static enum status token_create(struct req *req)
{
    const struct registry_token_in *in = req_body(req);
    struct registry_token token = {.description = in->description, .local = in->local};
    TRY(registry_namespace_use(req, in->ns));
    TRY(take_id(req, "AccessorID", in->accessor, false, &token.accessor));
    TRY(take_id(req, "SecretID", in->secret, true, &token.secret));
    if (strcasecmp(token.accessor, token.secret) == 0)
        return req_fail(req, ST_REFUSED, "Invalid Token: SecretID is already in use");
    if (is_given(in->auth_method))
        return req_fail(req, ST_REFUSED, "AuthMethod field is disallowed outside of login");
    TRY(registry_token_expiry(req, in, &token.expire_ms));
    TRY(registry_token_check_expiry(req, token.expire_ms));
    TRY(registry_token_links(req, in, &token.links));
    TRY(refuse_absent(req, in));
    return add_token(req, &token);
}

/* Check that the body leaves alone the properties that never change. */
static enum status check_change(struct req *req, const struct registry_token_in *in,
                                const struct registry_token *token)
{
    int64_t expire_ms;
    if (is_given(in->secret) && !bytes_eq_secret(bytes_str(in->secret), bytes_str(token->secret)))
        return req_fail(req, ST_REFUSED, "Changing a token's SecretID is not permitted");
    if (in->local != token->local)
        return req_fail(req, ST_REFUSED, "Cannot toggle local mode of %s", token->accessor);
    if (is_given(in->auth_method))
        return req_fail(req, ST_REFUSED, "Cannot change AuthMethod of %s", token->accessor);
    TRY(registry_token_expiry(req, in, &expire_ms));
    bool ttl = in->ttl != NULL && expire_ms != 0 && !is_given(in->expires);
    if (ttl || (expire_ms != 0 && expire_ms != token->expire_ms))
        return req_fail(req, ST_REFUSED, "Cannot change expiration time of %s", token->accessor);
    return ST_OK;
}

static enum status token_update(struct req *req)
{
    const struct registry_token_in *in = req_body(req);
    const struct auth_scope scope = req_scope(req);
    const char *accessor = req_param(req, "accessor");
    struct auth_token stored;
    struct registry_token token;
    char lower[TEXT_UUID_LEN + 1];
    if (is_given(in->accessor) && strcasecmp(in->accessor, accessor) != 0)
        return req_fail(req, ST_INVALID, "Token Accessor ID in URL and payload do not match");
    TRY(registry_namespace_use(req, in->ns));
    if (text_uuid_parse(bytes_str(accessor), lower) != ST_OK)
        return req_fail(req, ST_REFUSED, "AccessorID is not a valid UUID");
    enum status st = registry_token_find(req, accessor, &stored, &token);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_REFUSED, "Cannot find token \"%s\"", lower);
    TRY(st);
    TRY(check_change(req, in, &token));
    TRY(registry_token_links(req, in, &token.links));
    TRY(refuse_absent(req, in));
    token.description = in->description;
    TRY(registry_token_put(&scope, &stored, &token));
    token.modified = 0;
    return registry_token_show(req, &token, REGISTRY_SHOW_SECRET);
}

static enum status token_clone(struct req *req)
{
    const struct registry_token_in *in = req_body(req);
    struct auth_token stored;
    struct registry_token token;
    TRY(registry_namespace_use(req, in->ns));
    enum status st = registry_token_find(req, req_param(req, "accessor"), &stored, &token);
    if (st == ST_NOT_FOUND)
        return registry_token_missing(req);
    TRY(st);
    if (is_given(in->description))
        token.description = in->description;
    TRY(registry_token_uuid(req->arena, req->env, &token.accessor));
    TRY(registry_token_uuid(req->arena, req->env, &token.secret));
    return add_token(req, &token);
}

static enum status token_delete(struct req *req)
{
    const struct auth_scope scope = req_scope(req);
    const char *accessor = req_param(req, "accessor");
    struct auth_token stored;
    struct registry_token token;
    char lower[TEXT_UUID_LEN + 1];
    if (text_uuid_parse(bytes_str(accessor), lower) != ST_OK)
        return req_fail(req, ST_REFUSED, "Accessor ID is missing or an invalid UUID");
    if (strcmp(lower, REGISTRY_ANONYMOUS) == 0)
        return req_fail(req, ST_REFUSED, "Delete operation not permitted on the anonymous token");
    enum status st = registry_token_find(req, accessor, &stored, &token);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_NOT_FOUND, "Cannot find token to delete");
    TRY(st);
    if (req->token != NULL && strcmp(req->token->id, stored.id) == 0)
        return req_fail(req, ST_REFUSED,
                        "Deletion of the request's authorization token is not permitted");
    TRY(token_tree_end(&scope, &stored, TOKEN_END_TREE));
    return req_reply(req, &(struct deleted_out){true});
}

static const struct registry_row may_read = {
    .permission = "acl:read", .resource = REGISTRY_ACL, .level = REGISTRY_READ};
static const struct registry_row may_list = {
    .permission = "acl:read", .resource = REGISTRY_ACL, .level = REGISTRY_READ, .collection = true};
static const struct registry_row may_write = {
    .permission = "acl:write", .resource = REGISTRY_ACL, .level = REGISTRY_WRITE};

#define WRITES                                                                   \
    .method = METHOD_PUT, .of_dialect = &may_write, .feature = REGISTRY_FEATURE, \
    .index = INDEX_VERSION, .noun = "Token", .body = &token_in_schema,           \
    .reply = &registry_token_reply

static const struct route token_routes[] = {
    {WRITES, .path = "token", .handler = token_create, .help = "Create a token."},
    {.method = METHOD_GET,
     .path = "tokens",
     .handler = token_list,
     .of_dialect = &may_list,
     .index = INDEX_BLOCKS,
     .reply = &registry_tokens_reply,
     .help = "All tokens by AccessorID; policy, role, servicename and authmethod choose some."},
    {.method = METHOD_GET,
     .path = "token/self",
     .handler = token_self,
     .index = INDEX_BLOCKS,
     .reply = &registry_token_reply,
     .help = "The token of the request."},
    {.method = METHOD_GET,
     .path = "token/:accessor",
     .handler = token_read,
     .of_dialect = &may_read,
     .index = INDEX_BLOCKS,
     .reply = &registry_token_reply,
     .help = "Read a token; with ?expanded also its policies."},
    {WRITES, .path = "token/:accessor", .handler = token_update, .help = "Replace a token."},
    {WRITES, .path = "token/:accessor/clone", .handler = token_clone,
     .help = "Create a token with the links of another."},
    {.method = METHOD_DELETE,
     .path = "token/:accessor",
     .handler = token_delete,
     .of_dialect = &may_write,
     .feature = REGISTRY_FEATURE,
     .reply = &deleted_reply,
     .help = "Delete a token; it is refused on every node at once."},
};

const struct route_table registry_token_table = {token_routes, ARRAY_LEN(token_routes)};
