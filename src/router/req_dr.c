#include "router/req_dr.h"

#include "auth/acl.h"
#include "auth/token_batch.h"
#include "auth/token_cache.h"
#include "cluster/dr/token.h"
#include "router/req_judge.h"
#include "router/table/route.h"

static const struct field authority_fields[] = {
    REQ_DR_TOKEN_FIELD(struct req_dr_authority),
};
const struct schema req_dr_authority_schema = SCHEMA(struct req_dr_authority, authority_fields);

/* The parameters of the request without the token that authorises it: policies that list what is
 * allowed need not list the token. */
static enum status parameters(struct req *req, const struct text_value **ret_data)
{
    ASSERT(req->data != NULL);
    ASSERT(req->data->kind == TEXT_OBJECT);
    struct text_value *data = text_value_new(req->arena, NULL, TEXT_OBJECT, req->data->name);
    if (data == NULL)
        return ST_NOMEM;
    TEXT_FOR (given, req->data) {
        if (text_is(given->name, REQ_DR_TOKEN))
            continue;
        struct text_value *kept = text_value_new(req->arena, data, given->kind, given->name);
        if (kept == NULL)
            return ST_NOMEM;
        *kept = *given;
        kept->next = NULL;
    }
    *ret_data = data;
    return ST_OK;
}

/* A batch token is whole in itself: nothing of it is stored, so a secondary can judge it. */
static enum status judge_batch(struct req *req, struct bytes bearer)
{
    const struct auth_token *token;
    const struct acl *acl = NULL;
    const struct policy_rule *rule;
    const struct text_value *data;

    ASSERT(token_batch_is(bearer));
    token_ref_drop(req->token_ref);
    req->token_ref = NULL;
    enum status st = req_judge_token(req, bearer, &token);
    if (st == ST_DENIED)
        return req_fail(req, ST_INVALID, REQ_DR_TOKEN ": no valid DR operation token");
    TRY(st);
    TRY(req_acl(req, token, &acl));
    if (acl_is_root(acl))
        return req_fail(req, ST_INVALID, REQ_DR_TOKEN ": a root token is no DR operation token");
    TRY(req_judge_path(req, acl, route_caps(req->route, req->method), &rule));
    TRY(parameters(req, &data));
    return req_judge_parameters(req, rule, data);
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
