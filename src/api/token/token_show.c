/* Show what a token is. */
#include "api/token/token.h"
#include "auth/token_cache.h"
#include "router/request/req_entity.h"

static const struct field bearer_fields[] = {
    FIELD(struct token_named, token, STRING, .preset = "", .hidden = true, .help = "The token."),
};
const struct schema token_bearer_schema = SCHEMA(struct token_named, bearer_fields);

static const struct field accessor_fields[] = {
    FIELD(struct token_named, accessor, STRING, .preset = "", .help = "The token's accessor."),
};
const struct schema token_accessor_schema = SCHEMA(struct token_named, accessor_fields);

/* Seconds until the token ends; 0: never. */
static int64_t remaining_s(const struct auth_token *token, int64_t now_ms)
{
    return token->expire_ms == 0 ? 0 : MAX(token->expire_ms - now_ms, INT64_C(0)) / 1000;
}

struct lookup_out {
    struct bytes id;
    const char *accessor, *path, *display_name, *role, *entity_id, *type;
    struct field_strings policies, bound_cidrs, identity_policies;
    struct field_map meta, external_namespace_policies; /* the last: there are no namespaces */
    int64_t num_uses, creation_time, creation_ttl, expire_time, issue_time, ttl, explicit_max_ttl;
    int64_t period, last_renewal, last_renewal_time;
    bool orphan, renewable, expires, renewed, has_entity;
};
static const struct field lookup_fields[] = {
    FIELD(struct lookup_out, id, BYTES),
    FIELD(struct lookup_out, accessor, STRING),
    FIELD(struct lookup_out, policies, STRINGS),
    FIELD(struct lookup_out, path, STRING),
    FIELD(struct lookup_out, meta, MAP, .null = true),
    FIELD(struct lookup_out, display_name, STRING),
    FIELD(struct lookup_out, num_uses, INT),
    FIELD(struct lookup_out, orphan, BOOL),
    FIELD(struct lookup_out, renewable, BOOL),
    FIELD(struct lookup_out, creation_time, INT),
    FIELD(struct lookup_out, creation_ttl, INT),
    FIELD(struct lookup_out, expire_time, TIME, .null = true),
    FIELD(struct lookup_out, issue_time, TIME, .omit = true,
          .has = offsetof(struct lookup_out, expires)),
    FIELD(struct lookup_out, ttl, INT),
    FIELD(struct lookup_out, explicit_max_ttl, INT),
    FIELD(struct lookup_out, period, INT, .omit = true),
    FIELD(struct lookup_out, last_renewal, TIME, .omit = true),
    FIELD(struct lookup_out, last_renewal_time, INT, .omit = true,
          .has = offsetof(struct lookup_out, renewed)),
    FIELD(struct lookup_out, role, STRING, .omit = true),
    FIELD(struct lookup_out, entity_id, STRING),
    FIELD(struct lookup_out, type, STRING),
    FIELD(struct lookup_out, bound_cidrs, STRINGS, .omit = true),
    FIELD(struct lookup_out, identity_policies, STRINGS, .omit = true),
    FIELD(struct lookup_out, external_namespace_policies, MAP, .omit = true,
          .has = offsetof(struct lookup_out, has_entity)),
};
static const struct schema token_lookup_reply = SCHEMA(struct lookup_out, lookup_fields);

/* `bearer` is "" where the request names only the accessor. */
static enum status reply_lookup(struct req *req, struct bytes bearer,
                                const struct auth_token *token)
{
    struct field_strings identity_policies = {0};
    if (token->entity_id[0] != '\0')
        TRY(req_entity_policies(req, token, &identity_policies));
    const struct lookup_out out = {
        .id = bearer,
        .accessor = token->accessor,
        .policies = token->policies,
        .path = token->path,
        .meta = token->meta,
        .display_name = token->display_name,
        .num_uses = token->num_uses,
        .orphan = token->orphan,
        .renewable = token->renewable,
        .creation_time = token->created_ms / 1000,
        .creation_ttl = token->creation_ttl_s,
        .expires = token->expire_ms != 0,
        .expire_time = token->expire_ms,
        .issue_time = token->created_ms,
        .ttl = remaining_s(token, req->now_ms),
        .explicit_max_ttl = token->explicit_max_ttl_s,
        .period = token->period_s,
        .renewed = token->renewed_ms != 0,
        .last_renewal = token->renewed_ms,
        .last_renewal_time = token->renewed_ms / 1000,
        .role = token->role,
        .entity_id = token->entity_id,
        .type = token->type,
        .bound_cidrs = token->bound_cidrs,
        .identity_policies = identity_policies,
        .has_entity = token->entity_id[0] != '\0',
    };
    ASSERT(out.ttl >= 0 && out.expires == (out.expire_time != 0));
    return req_reply(req, &out);
}

static enum status token_lookup_self(struct req *req)
{
    return reply_lookup(req, req->bearer, req->token);
}

static enum status token_lookup(struct req *req)
{
    const struct token_named *in = req_body(req);
    const struct auth_scope scope = req_scope(req);
    const struct auth_token *token;
    struct token_ref *ref;
    ASSERT(req->token != NULL);
    if (in->token[0] == '\0')
        return token_lookup_self(req);
    /* a service may look up the tokens of its clients again and again: keep them in the cache */
    enum status st = auth_token_hold(&scope, bytes_str(in->token), &token, &ref);
    if (st == ST_DENIED)
        return req_fail(req, ST_DENIED, "bad token");
    TRY(st);
    st = reply_lookup(req, bytes_str(in->token), token);
    token_ref_drop(ref);
    return st;
}

static enum status token_lookup_accessor(struct req *req)
{
    const struct token_named *in = req_body(req);
    const struct auth_scope scope = req_scope(req);
    struct auth_token token;
    enum status st = auth_token_find_any(&scope, in->accessor, &token);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "invalid accessor");
    TRY(st);
    return reply_lookup(req, BYTES(""), &token);
}

static const struct route show_routes[] = {
    {.method = METHOD_GET,
     .path = "lookup-self",
     .handler = token_lookup_self,
     .reply = &token_lookup_reply,
     .help = "Look up the token of the request."},
    {.method = METHOD_POST,
     .path = "lookup-self",
     .handler = token_lookup_self,
     .flags = ROUTE_READS,
     .reply = &token_lookup_reply,
     .help = "Look up the token of the request."},
    {.method = METHOD_GET,
     .path = "lookup",
     .handler = token_lookup,
     .body = &token_bearer_schema,
     .reply = &token_lookup_reply,
     .help = "Look up the token that the query names, else the token of the request."},
    {.method = METHOD_POST,
     .path = "lookup",
     .handler = token_lookup,
     .flags = ROUTE_READS,
     .body = &token_bearer_schema,
     .reply = &token_lookup_reply,
     .help = "Look up a token."},
    {.method = METHOD_POST,
     .path = "lookup-accessor",
     .handler = token_lookup_accessor,
     .flags = ROUTE_READS,
     .body = &token_accessor_schema,
     .reply = &token_lookup_reply,
     .help =
         "Look up the token of an accessor, of whatever API. The reply does not show the token."},
};

const struct route_table token_show_table = {show_routes, ARRAY_LEN(show_routes)};
