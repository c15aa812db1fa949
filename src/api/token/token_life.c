/* Renew and end tokens. */
#include "api/token/token.h"
#include "auth/token_ttl.h"
#include "mount/mount_cache.h"

#define INCREMENT                                  \
    FIELD(struct token_named, increment, DURATION, \
          .help = "How long the token is to live from now on.")

static const struct field renew_fields[] = {
    FIELD(struct token_named, token, STRING, .preset = "", .hidden = true, .help = "The token."),
    INCREMENT,
};
static const struct schema token_renew_schema = SCHEMA(struct token_named, renew_fields);

static const struct field renew_self_fields[] = {INCREMENT};
static const struct schema token_renew_self_schema = SCHEMA(struct token_named, renew_self_fields);

static const struct field renew_accessor_fields[] = {
    FIELD(struct token_named, accessor, STRING, .preset = "", .help = "The token's accessor."),
    INCREMENT,
};
static const struct schema token_renew_accessor_schema =
    SCHEMA(struct token_named, renew_accessor_fields);

/* Find the token that a request is about. A token that has ended is not found. */

static enum status by_bearer(struct req *req, const char *bearer, struct auth_token *ret_token)
{
    const struct auth_scope scope = req_scope(req);
    if (bearer[0] == '\0')
        return req_fail(req, ST_INVALID, "missing token ID");
    enum status st = auth_token_load(&scope, bytes_str(bearer), ret_token);
    return st == ST_DENIED ? ST_NOT_FOUND : st;
}

static enum status by_accessor(struct req *req, const char *accessor, struct auth_token *ret_token)
{
    const struct auth_scope scope = req_scope(req);
    if (accessor[0] == '\0')
        return req_fail(req, ST_INVALID, "missing accessor");
    enum status st = auth_token_find(&scope, accessor, ret_token);
    return st == ST_NOT_FOUND ? req_fail(req, ST_INVALID, "invalid accessor") : st;
}

/* The token of the request, after the staged use of this request. */
static enum status itself(struct req *req, struct auth_token *ret_token)
{
    const struct auth_scope scope = req_scope(req);
    if (auth_token_is_batch(req->token)) {
        *ret_token = *req->token;
        return ST_OK;
    }
    ASSERT(req->token->id[0] != '\0');
    return auth_token_load_id(&scope, req->token->id, ret_token);
}

enum status token_limits_load(struct req *req, struct login_limits *ret_limits)
{
    struct mount_ref *ref = NULL;
    enum status st = mount_cache_get(req->mounts, req->txn, req->ns, "auth/token/", &ref);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    *ret_limits = req_limits_of(st == ST_OK ? mount_ref_get(ref) : &(const struct mount){0});
    mount_ref_drop(ref);
    return ST_OK;
}

/* Renewing */

static enum status find_end(struct req *req, const struct auth_token *token, int64_t increment_s,
                            int64_t *ret_end_ms)
{
    struct reason warning = {{0}};
    struct login_limits limits;
    ASSERT(increment_s >= 0);
    TRY(token_limits_load(req, &limits));
    struct token_ttl ttl = {
        .wanted_s = increment_s,
        .own_s = auth_token_granted_s(token),
        .default_s = limits.default_s,
        .max_s = limits.max_s,
        .explicit_max_s = token->explicit_max_ttl_s,
        .period_s = token->period_s,
        .created_ms = token->created_ms,
        .now_ms = req->now_ms,
    };
    if (token->role[0] != '\0') {
        struct token_role role;
        enum status st = token_role_load(req, token->role, &role);
        if (st == ST_NOT_FOUND)
            return req_fail(req, ST_INVALID,
                            "original token role \"%.100s\" could not be found, not renewing",
                            token->role);
        TRY(st);
        ASSERT(role.token_period >= 0 && role.token_explicit_max_ttl >= 0);
        ttl.period_s = role.token_period; /* period of the present role */
        if (role.token_explicit_max_ttl != 0)
            ttl.explicit_max_s = ttl.explicit_max_s == 0
                                     ? role.token_explicit_max_ttl
                                     : MIN(ttl.explicit_max_s, role.token_explicit_max_ttl);
    }
    *ret_end_ms = token_ttl_end_ms(&ttl, &warning);
    ASSERT(*ret_end_ms > 0); /* a token that expires still expires after a renewal */
    if (warning.text[0] != '\0')
        req_warn(req, "%s", warning.text);
    return ST_OK;
}

static enum status renew(struct req *req, const char *bearer, const struct auth_token *token,
                         int64_t increment_s)
{
    const struct auth_scope scope = req_scope(req);
    struct auth_token renewed = *token;
    ASSERT(req->route->form == FORM_TOKEN);

    if (auth_token_is_batch(token))
        return req_fail(req, ST_INVALID, "batch tokens cannot be renewed");
    if (strcmp(token->path, AUTH_ROOT_PATH) == 0 || !token->renewable)
        return req_fail(req, ST_INVALID, "lease is not renewable");
    if (req_is_login_token(token))
        TRY(req_login_renew(req, token, increment_s, &renewed.expire_ms));
    else
        TRY(find_end(req, token, increment_s, &renewed.expire_ms));
    renewed.renewed_ms = req->now_ms;
    TRY(token_store_update(&scope, token, &renewed));
    return req_reply_auth(req, bearer, &renewed);
}

static enum status not_found(struct req *req, enum status st)
{
    return st == ST_NOT_FOUND ? req_fail(req, ST_INVALID, "token not found") : st;
}

static enum status token_renew(struct req *req)
{
    const struct token_named *in = req_body(req);
    struct auth_token token;
    enum status st = by_bearer(req, in->token, &token);
    if (st != ST_OK)
        return not_found(req, st);
    return renew(req, in->token, &token, in->increment);
}

static enum status token_renew_self(struct req *req)
{
    const struct token_named *in = req_body(req);
    struct auth_token token;
    enum status st = itself(req, &token);
    if (st != ST_OK)
        return not_found(req, st);
    const char *bearer = arena_str(req->arena, req->bearer);
    return bearer == NULL ? ST_NOMEM : renew(req, bearer, &token, in->increment);
}

static enum status token_renew_accessor(struct req *req)
{
    const struct token_named *in = req_body(req);
    struct auth_token token;
    TRY(by_accessor(req, in->accessor, &token));
    return renew(req, "", &token, in->increment);
}

/* Ending */

static enum status end(struct req *req, const struct auth_token *token, enum token_end how)
{
    const struct auth_scope scope = req_scope(req);
    if (auth_token_is_batch(token))
        return req_fail(req, ST_INVALID, "batch tokens cannot be revoked");
    return token_tree_end(&scope, token, how);
}

static enum status token_revoke(struct req *req)
{
    const struct token_named *in = req_body(req);
    struct auth_token token;
    enum status st = by_bearer(req, in->token, &token);
    if (st == ST_NOT_FOUND)
        return ST_OK; /* the token was already revoked */
    TRY(st);
    return end(req, &token, TOKEN_END_TREE);
}

static enum status token_revoke_self(struct req *req)
{
    struct auth_token token;
    enum status st = itself(req, &token);
    if (st == ST_NOT_FOUND)
        return ST_OK; /* the last use of the token */
    TRY(st);
    return end(req, &token, TOKEN_END_TREE);
}

static enum status token_revoke_accessor(struct req *req)
{
    const struct token_named *in = req_body(req);
    const struct auth_scope scope = req_scope(req);
    struct auth_token token;
    if (in->accessor[0] == '\0')
        return req_fail(req, ST_INVALID, "missing accessor");
    enum status st = auth_token_find_any(&scope, in->accessor, &token);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "invalid accessor");
    TRY(st);
    ASSERT(strcmp(token.accessor, in->accessor) == 0);
    return end(req, &token, TOKEN_END_TREE);
}

static enum status token_revoke_orphan(struct req *req)
{
    const struct token_named *in = req_body(req);
    struct auth_token token;
    if (!token_has_sudo(req))
        return req_fail(req, ST_INVALID, "root or sudo privileges required to revoke and orphan");
    enum status st = by_bearer(req, in->token, &token);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "token to revoke not found");
    TRY(st);
    return end(req, &token, TOKEN_END_CHILDREN);
}

/* The rest */

static enum status token_tidy(struct req *req)
{
    req->reply.http = 202;
    req_warn(req, "Nothing to do: the active node deletes the remains of expired and revoked "
                  "tokens by itself.");
    return ST_OK;
}

static const struct route life_routes[] = {
    {.method = METHOD_POST,
     .path = "renew",
     .handler = token_renew,
     .form = FORM_TOKEN,
     .body = &token_renew_schema,
     .help = "Renew a token: let it live longer."},
    {.method = METHOD_POST,
     .path = "renew-self",
     .handler = token_renew_self,
     .form = FORM_TOKEN,
     .body = &token_renew_self_schema,
     .help = "Renew the token of the request: let it live longer."},
    {.method = METHOD_POST,
     .path = "renew-accessor",
     .handler = token_renew_accessor,
     .form = FORM_TOKEN,
     .body = &token_renew_accessor_schema,
     .help = "Renew the token of an accessor: let it live longer."},
    {.method = METHOD_POST,
     .path = "revoke",
     .handler = token_revoke,
     .body = &token_bearer_schema,
     .help = "End a token and its descendants."},
    {.method = METHOD_POST,
     .path = "revoke-self",
     .handler = token_revoke_self,
     .help = "End the token of the request and its descendants."},
    {.method = METHOD_POST,
     .path = "revoke-accessor",
     .handler = token_revoke_accessor,
     .body = &token_accessor_schema,
     .help = "End the token of an accessor, of whatever API, and its descendants."},
    {.method = METHOD_POST,
     .path = "revoke-orphan",
     .handler = token_revoke_orphan,
     .body = &token_bearer_schema,
     .help = "End a token; its children become orphans. Needs sudo."},
    {.method = METHOD_POST,
     .path = "tidy",
     .handler = token_tidy,
     .statuses = "202",
     .help = "Does nothing: the active node deletes the remains of tokens by itself."},
};

const struct route_table token_life_table = {life_routes, ARRAY_LEN(life_routes)};
