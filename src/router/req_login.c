#include "router/req_login.h"
#include "router/quota_lease.h"
#include "router/request/req_entity.h"
#include "router/router.h"

#define AUTH_PREFIX "auth/"
#define TOKEN_STORE AUTH_PREFIX "token/"

static bool is_below(const char *path, const char *prefix)
{
    return strncmp(path, prefix, strlen(prefix)) == 0;
}

struct login_limits req_limits_of(const struct mount *mount)
{
    return login_limits_of(mount->default_lease_ttl_s, mount->max_lease_ttl_s);
}

enum status req_reply_auth(struct req *req, const char *bearer, const struct auth_token *token)
{
    ASSERT(req->reply.auth.len == 0 && req->reply.issued_ms == 0); /* a reply gives one token */
    ASSERT(token->num_uses >= 0);
    struct login_policies policies = {.all = token->policies};
    TRY(req_entity_policies(req, token, &policies.identity));
    if (policies.identity.n != 0)
        TRY(req_unite_policies(req, &policies.identity, &policies.all));
    struct text_writer w = req_reply_auth_begin(req);
    req->reply.accessor = token->accessor;
    req->reply.issued_ms = token->created_ms;
    /* the audit record is made when the transaction that holds the token has ended */
    req->reply.display_name = arena_str(req->arena, bytes_str(token->display_name));
    if (req->reply.display_name == NULL)
        return ST_NOMEM;
    login_put_auth(&w, bearer, token, &policies, req->now_ms);
    return req_reply_auth_end(req);
}

/* Find or make the entity of the client. */
static enum status find_entity(struct req *req, const struct login *login, const char **ret_id)
{
    const struct identity_login in = {.accessor = req->mount->accessor,
                                      .name = login->alias,
                                      .metadata = login->meta,
                                      .groups = login->groups};
    if (login->alias[0] == '\0' || strlen(login->alias) > IDENTITY_NAME_MAX)
        return req_fail(req, ST_INVALID, "the name of the client is empty or longer than %d bytes",
                        IDENTITY_NAME_MAX);
    ASSERT(req->mount != NULL && req->mount->accessor[0] != '\0');
    TRY(req_need_feature(req, IDENTITY_FEATURE));
    enum status st = identity_log_in(req->txn, req->env, req->ns, &in, req->now_ms, ret_id);
    return st == ST_DENIED ? req_fail(req, st, "the entity of this client is disabled") : st;
}

enum status req_login(struct req *req, const struct login *login)
{
    const struct mount *mount = req->mount;
    const struct auth_scope scope = req_scope(req);
    struct reason why = {{0}};
    struct auth_token token;
    const char *bearer = NULL;

    ASSERT(req->api->login && mount != NULL && is_below(mount->path, AUTH_PREFIX));
    ASSERT(req->token == NULL && req->txn != NULL);
    const struct login_place place = {
        .mount_path = mount->path,
        .path = (const char *)req->path.data,
        .token_type = mount->token_type,
        .peer = req->peer,
        .limits = req_limits_of(mount),
        .now_ms = req->now_ms,
    };
    enum status st = login_token(req->arena, &place, login, &token, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "%s", why.text);
    TRY(st);
    if (why.text[0] != '\0')
        req_warn(req, "%s", why.text);
    if (login->alias != NULL)
        TRY(find_entity(req, login, &token.entity_id));
    if (token.expire_ms != 0)
        TRY(req_lease_quota(req));
    st = auth_token_create(&scope, req->env, &token, &bearer);
    if (st == ST_TOO_BIG)
        return req_fail(req, ST_INVALID,
                        "what a batch token holds must fit into it: it would be "
                        "longer than %d bytes",
                        AUTH_TOKEN_MAX);
    TRY(st);
    return req_reply_auth(req, bearer, &token);
}

bool req_is_login_token(const struct auth_token *token)
{
    return is_below(token->path, AUTH_PREFIX) && !is_below(token->path, TOKEN_STORE);
}

enum status req_login_renew(struct req *req, const struct auth_token *token, int64_t wanted_s,
                            int64_t *ret_end_ms)
{
    const struct module_login *method = NULL;
    struct login_role role = {0};
    struct reason warning = {{0}};
    struct mount mount;

    ASSERT(req_is_login_token(token));
    enum status st = mount_find(req->txn, req->ns, bytes_str(token->path), &mount);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    if (st == ST_OK)
        method = module_find_login(&req->router->options.modules, mount.type);
    if (method == NULL)
        return req_fail(req, ST_INVALID, "the auth method of this token is no longer enabled");
    TRY(method->renew(req, &mount, token, &role));
    *ret_end_ms =
        login_renewed_end_ms(token, &role, req_limits_of(&mount), wanted_s, req->now_ms, &warning);
    if (warning.text[0] != '\0')
        req_warn(req, "%s", warning.text);
    return ST_OK;
}
