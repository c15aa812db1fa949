/* ACL policies and tokens of the scheduler, below scheduler/acl/: what the capabilities of the
 * other routes need. A root token of the secrets service makes the first ones (B6). */
#include "api/scheduler/scheduler.h"
#include "auth/scheduler/scheduler_token.h"
#include "front/scheduler/scheduler.h"
#include "front/scheduler/scheduler_rights.h"

struct policy_io {
    const char *name, *description, *rules;
    uint64_t created, modified;
};
static const struct field policy_in_fields[] = {
    FIELD_NAMED("Name", struct policy_io, name, STRING, .preset = ""),
    FIELD_NAMED("Description", struct policy_io, description, STRING, .preset = ""),
    FIELD_NAMED("Rules", struct policy_io, rules, STRING, .preset = "", .help = "HCL or JSON."),
};
static const struct schema policy_in_schema = {.fields = policy_in_fields,
                                               .n = ARRAY_LEN(policy_in_fields),
                                               .size = sizeof(struct policy_io),
                                               .fold_case = true,
                                               .typed = true};
static const struct field policy_out_fields[] = {
    FIELD_NAMED("Name", struct policy_io, name, STRING),
    FIELD_NAMED("Description", struct policy_io, description, STRING),
    FIELD_NAMED("Rules", struct policy_io, rules, STRING),
    FIELD_NAMED("CreateIndex", struct policy_io, created, UINT),
    FIELD_NAMED("ModifyIndex", struct policy_io, modified, UINT),
};
static const struct schema policy_reply = SCHEMA(struct policy_io, policy_out_fields);

static enum status write_policy(struct req *req)
{
    const struct policy_io *in = req_body(req);
    const char *name = req_param(req, "name");
    struct scheduler_policy policy = {name, in->description, in->rules, 0, 0};
    struct reason why = {{0}};
    if (in->name[0] != '\0' && strcmp(in->name, name) != 0)
        return req_fail(req, ST_INVALID, "ACL policy name does not match request path");
    if (!scheduler_policy_is_name(name))
        return req_fail(req, ST_INVALID, "invalid name '%.128s'", name);
    enum status st = scheduler_rules_check(req->arena, bytes_str(in->rules), &why);
    if (st == ST_INVALID)
        return req_fail(req, st,
                        "policy 0 invalid: 1 error occurred:\n\t* failed to parse rules: %s\n\n",
                        why.text);
    TRY(st);
    return scheduler_policy_put(req->txn, &policy);
}

static enum status load_policy(struct req *req, struct scheduler_policy *ret_policy)
{
    enum status st = scheduler_policy_load(req->txn, req_param(req, "name"), ret_policy);
    return st == ST_NOT_FOUND ? req_fail(req, st, "ACL policy not found") : st;
}

static enum status read_policy(struct req *req)
{
    struct scheduler_policy policy;
    TRY(load_policy(req, &policy));
    return req_reply(req, &(struct policy_io){policy.name, policy.description, policy.rules,
                                              policy.created, policy.modified});
}

static enum status delete_policy(struct req *req)
{
    struct scheduler_policy policy;
    struct bytes key;
    TRY(load_policy(req, &policy));
    TRY(scheduler_policy_key(req->arena, policy.name, &key));
    return state_delete(req->txn, key);
}

struct token_io {
    const char *accessor, *secret, *name, *type;
    struct field_strings policies;
    int64_t ttl_s;
};
static const struct field token_in_fields[] = {
    FIELD_NAMED("Name", struct token_io, name, STRING, .preset = ""),
    FIELD_NAMED("Type", struct token_io, type, STRING, .preset = "client",
                .help = "client or management."),
    FIELD_NAMED("Policies", struct token_io, policies, STRINGS),
    FIELD_NAMED("ExpirationTTL", struct token_io, ttl_s, DURATION, .preset = "0",
                .help = "0: never."),
};
static const struct schema token_in_schema = {.fields = token_in_fields,
                                              .n = ARRAY_LEN(token_in_fields),
                                              .size = sizeof(struct token_io),
                                              .fold_case = true,
                                              .typed = true};
static const struct field token_out_fields[] = {
    FIELD_NAMED("AccessorID", struct token_io, accessor, STRING),
    FIELD_NAMED("SecretID", struct token_io, secret, STRING, .hidden = true),
    FIELD_NAMED("Name", struct token_io, name, STRING),
    FIELD_NAMED("Type", struct token_io, type, STRING),
    FIELD_NAMED("Policies", struct token_io, policies, STRINGS),
};
static const struct schema token_reply = SCHEMA(struct token_io, token_out_fields);

static enum status show(struct req *req, const struct scheduler_token *token)
{
    static const char *const types[] = {"management", "client", "join", "node"};
    return req_reply(req, &(struct token_io){.accessor = token->accessor,
                                             .secret = token->secret,
                                             .name = token->name,
                                             .type = types[token->type],
                                             .policies = token->policies});
}

static enum status create_token(struct req *req)
{
    const struct token_io *in = req_body(req);
    const struct auth_scope scope = req_scope(req);
    bool management = strcmp(in->type, "management") == 0;
    struct scheduler_token token = {.name = in->name,
                                    .subject = "",
                                    .policies = in->policies,
                                    .type = management ? SCHEDULER_MANAGEMENT : SCHEDULER_CLIENT,
                                    .expire_ms =
                                        in->ttl_s != 0 ? req->now_ms + in->ttl_s * 1000 : 0};
    if (!management && strcmp(in->type, "client") != 0)
        return req_fail(req, ST_INVALID, "token type must be client or management");
    if (management && in->policies.n != 0)
        return req_fail(req, ST_INVALID,
                        "management token cannot be associated with policies or roles");
    if (!management && in->policies.n == 0)
        return req_fail(req, ST_INVALID, "client token missing policies or roles");
    for (size_t i = 0; i < in->policies.n; i++)
        if (!scheduler_policy_is_name(in->policies.items[i]))
            return req_fail(req, ST_INVALID, "invalid policy name '%.128s'", in->policies.items[i]);
    TRY(scheduler_token_add(&scope, req->env, &token));
    return show(req, &token);
}

static enum status read_self(struct req *req)
{
    struct scheduler_token token;
    if (req->token == NULL)
        return req_fail(req, ST_NOT_FOUND, "ACL token not found");
    TRY(scheduler_token_of(req->token, &token));
    return show(req, &token);
}

static const struct scheduler_row operator_row = {
    .permission = "operator:write", .caps = SCHEDULER_OPERATOR, .any_namespace = true};
static const struct scheduler_row any_row = {.any_namespace = true};

static const struct route acl_routes[] = {
    {.method = METHOD_POST,
     .path = "acl/policy/:name",
     .handler = write_policy,
     .of_dialect = &operator_row,
     .feature = SCHEDULER_FEATURE,
     .body = &policy_in_schema,
     .noun = "Policy",
     .help = "Create or replace an ACL policy."},
    {.method = METHOD_GET,
     .path = "acl/policy/:name",
     .handler = read_policy,
     .of_dialect = &operator_row,
     .feature = SCHEDULER_FEATURE,
     .reply = &policy_reply,
     .help = "Read an ACL policy."},
    {.method = METHOD_DELETE,
     .path = "acl/policy/:name",
     .handler = delete_policy,
     .of_dialect = &operator_row,
     .feature = SCHEDULER_FEATURE,
     .help = "Delete an ACL policy."},
    {.method = METHOD_POST,
     .path = "acl/token",
     .handler = create_token,
     .of_dialect = &operator_row,
     .feature = SCHEDULER_FEATURE,
     .body = &token_in_schema,
     .noun = "Token",
     .reply = &token_reply,
     .help = "Make a token."},
    {.method = METHOD_GET,
     .path = "acl/token/self",
     .handler = read_self,
     .of_dialect = &any_row,
     .feature = SCHEDULER_FEATURE,
     .reply = &token_reply,
     .help = "The token of the request."},
};
const struct route_table sched_acl_table = {acl_routes, ARRAY_LEN(acl_routes)};
