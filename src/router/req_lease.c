#include "router/req_lease.h"
#include "router/quota_lease.h"
#include "router/req_login.h"
#include "router/router.h"

enum status req_lease_scope(struct req *req, struct lease_scope *ret_scope)
{
    struct lease_kinds *kinds = arena_zalloc(req->arena, sizeof *kinds);
    ASSERT(req->txn != NULL);
    if (kinds == NULL)
        return ST_NOMEM;
    module_lease_kinds(&req->router->options.modules, kinds);
    *ret_scope =
        (struct lease_scope){.txn = req->txn, .ns = req->ns, .kinds = kinds, .now_ms = req->now_ms};
    return ST_OK;
}

struct lease_limits req_lease_limits(const struct mount *mount)
{
    const struct login_limits both = req_limits_of(mount);
    return (struct lease_limits){
        .default_s = both.default_s, .max_s = both.max_s, .of_mount = mount->max_lease_ttl_s != 0};
}

void req_lease_warn(struct req *req, const struct lease_cut *cut)
{
    struct reason why;
    if (cut->by == LEASE_LIMIT_NONE)
        return;
    lease_cut_say(cut, &why);
    req_warn(req, "%s", why.text);
}

int64_t req_lease_end_ms(struct req *req, int64_t wanted_s, int64_t own_s, int64_t own_max_s)
{
    const struct lease_ttl ttl = {.wanted_s = wanted_s,
                                  .own_s = own_s,
                                  .own_max_s = own_max_s,
                                  .limits = req_lease_limits(req->mount),
                                  .issued_ms = req->now_ms,
                                  .now_ms = req->now_ms};
    struct lease_cut cut;
    ASSERT(req->mount != NULL);
    int64_t end_ms = lease_ttl_end_ms(&ttl, &cut);
    ASSERT(end_ms > req->now_ms);
    req_lease_warn(req, &cut);
    return end_ms;
}

/* A batch token is not stored: its parent has the lease, which ends with the batch token, too. */
static void set_token(struct req *req, struct lease *lease)
{
    const struct auth_token *token = req->token;
    ASSERT(lease->token == NULL && lease->limit_ms == 0);
    if (token == NULL)
        return;
    lease->token = auth_token_is_batch(token) ? token->parent : token->id;
    if (!auth_token_is_batch(token) || token->expire_ms == 0)
        return;
    lease->limit_ms = token->expire_ms;
    if (lease->expire_ms != 0 && lease->expire_ms <= lease->limit_ms)
        return;
    lease->expire_ms = lease->limit_ms;
    ASSERT(lease->expire_ms > req->now_ms); /* the token is valid */
    req_warn(req, "The lease ends with its batch token, in %lld s.",
             (long long)(lease->expire_ms - req->now_ms) / 1000);
}

enum status req_lease_create(struct req *req, struct lease *lease)
{
    struct lease_scope scope;
    const struct auth_token *token = req->token;
    ASSERT(req_in_txn(req) && req->path.len != 0);
    TRY(req_need_feature(req, LEASE_FEATURE));
    if (token != NULL && token->limited && token->num_uses == 0)
        return req_fail(req, ST_INVALID,
                        "a lease cannot be given for the last use of a token: "
                        "the token has ended, and the lease would end with it");
    TRY(req_lease_quota(req));
    TRY(req_lease_scope(req, &scope));
    set_token(req, lease);
    enum status st = lease_create(&scope, req->env, (const char *)req->path.data, lease);
    if (st == ST_TOO_BIG)
        return req_fail(req, st, "what the lease keeps is longer than %d bytes", LEASE_DATA_MAX);
    return st;
}

void req_reply_lease(struct req *req, const struct lease *lease)
{
    ASSERT(req->route->form != FORM_BARE && req->reply.lease_id == NULL);
    ASSERT(lease->expire_ms == 0 || lease->expire_ms > req->now_ms);
    req->reply.kind = REPLY_DATA;
    req->reply.lease_id = lease->id;
    req->reply.renewable = lease->renewable;
    req->reply.lease_duration_s =
        lease->expire_ms != 0 ? (lease->expire_ms - req->now_ms) / 1000 : 0;
}
