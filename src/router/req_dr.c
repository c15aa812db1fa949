#include "router/req_dr.h"

#include "auth/acl.h"
#include "auth/token.h"
#include "auth/token_batch.h"
#include "cluster/dr/token.h"
#include "router/table/route.h"

/* A batch token is whole in itself: nothing of it is stored, so a secondary can judge it. */
static enum status judge_batch(struct req *req, struct bytes bearer)
{
    const struct auth_scope scope = req_scope(req);
    const struct auth_token *token;
    const struct acl *acl = NULL;
    const struct policy_rule *rule;

    enum status st = auth_token_hold(&scope, bearer, &token, &req->token_ref);
    if (st == ST_DENIED)
        return req_fail(req, ST_INVALID, REQ_DR_TOKEN ": no valid DR operation token");
    TRY(st);
    TRY(req_acl(req, token, &acl));
    if (acl_is_root(acl))
        return req_fail(req, ST_INVALID, REQ_DR_TOKEN ": a root token is no DR operation token");
    const struct acl_question question = {.path = req->path,
                                          .caps = route_caps(req->route, req->method)};
    return acl_check(acl, &question, &rule);
}

/* A client that does not know of DR operation tokens is told what the other paths tell it, unless
 * the path is one of disaster recovery itself. */
static enum status refuse_missing(struct req *req)
{
    bool own = strncmp(req->route->path, "replication/", sizeof "replication/" - 1) == 0;
    return req_fail(req, ST_INVALID, "%s", own ? REQ_DR_TOKEN ": missing" : REQ_DR_DISABLED);
}

enum status req_dr_authorise_by(struct req *req, struct bytes token)
{
    ASSERT(req_in_txn(req));
    if (token.len == 0)
        return refuse_missing(req);
    if (token_batch_is(token))
        return judge_batch(req, token);
    enum status st = dr_token_check(req->txn, token);
    if (st == ST_DENIED)
        return req_fail(req, ST_INVALID, REQ_DR_TOKEN ": no valid DR operation token");
    return st;
}

enum status req_dr_authorise(struct req *req, struct bytes bearer)
{
    if (req->method == METHOD_GET) {
        ASSERT(req_in_txn(req));
        enum status st = bearer.len != 0 ? dr_token_check(req->txn, bearer) : ST_DENIED;
        return st == ST_DENIED ? refuse_missing(req) : st;
    }
    const struct text_value *given = text_get(req->data, REQ_DR_TOKEN);
    bool text = given != NULL && given->kind == TEXT_STRING;
    return req_dr_authorise_by(req, text ? given->text : (struct bytes){0});
}
