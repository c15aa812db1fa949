#include "router/req_judge.h"

#include "auth/acl.h"
#include "router/request/req_entity.h"

static bool lists(const struct req *req)
{
    return req->method == METHOD_LIST || req->method == METHOD_SCAN;
}

enum status req_judge_token(struct req *req, struct bytes bearer,
                            const struct auth_token **ret_token)
{
    const struct auth_token *token;
    const struct auth_scope scope = req_scope(req);
    ASSERT(req_in_txn(req));
    ASSERT(req->token_ref == NULL);
    TRY(auth_token_hold(&scope, bearer, &token, &req->token_ref));
    TRY(auth_token_from(token, req->peer));
    if (req->now_ms <= 0 && token->expire_ms != 0)
        return req_fail(req, ST_BUSY,
                        "this node does not know the time of the cluster yet, by which the token "
                        "expires");
    if (token->entity_id[0] != '\0')
        TRY(req_entity(req, token, &req->identity));
    *ret_token = token;
    return ST_OK;
}

enum status req_judge_path(const struct req *req, const struct acl *acl, unsigned caps,
                           const struct policy_rule **ret_rule)
{
    const struct acl_question question = {
        .path = req->path,
        .rule_path = req->rule_path,
        .caps = caps,
        .list = lists(req),
        .wrap_s = req->wrap_ttl_s,
    };
    ASSERT(acl != NULL && caps != 0);
    ASSERT(req_in_txn(req));
    return acl_check(acl, &question, ret_rule);
}

enum status req_judge_parameters(const struct req *req, const struct policy_rule *rule,
                                 const struct text_value *data)
{
    ASSERT(data != NULL && data->kind == TEXT_OBJECT);
    if (rule == NULL || req->method == METHOD_DELETE || lists(req))
        return ST_OK;
    return acl_param_allow(rule, data) ? ST_OK : ST_DENIED;
}
