#include "front/scheduler/scheduler_rights.h"

#include "auth/scheduler/scheduler_token.h"

static enum status caps_of_anonymous(struct req *req, unsigned *ret_caps)
{
    static const char *const names[] = {"anonymous"};
    const struct field_strings policies = {names, 1, true};
    ASSERT(req->token == NULL);
    return scheduler_policy_caps(req->txn, &policies, BYTES("default"), ret_caps);
}

enum status scheduler_caps(struct req *req, unsigned *ret_caps)
{
    struct scheduler_token token;
    ASSERT(req_in_txn(req) && req->token_kind == TOKEN_SCHEDULER);
    if (req->token == NULL)
        return caps_of_anonymous(req, ret_caps);
    TRY(scheduler_token_of(req->token, &token));
    switch (token.type) {
    case SCHEDULER_MANAGEMENT: *ret_caps = SCHEDULER_EVERY_CAP; return ST_OK;
    case SCHEDULER_JOIN: *ret_caps = SCHEDULER_OF_JOIN; return ST_OK;
    case SCHEDULER_NODE: *ret_caps = SCHEDULER_OF_NODE; return ST_OK;
    default: break;
    }
    return scheduler_policy_caps(req->txn, &token.policies, BYTES("default"), ret_caps);
}

enum status scheduler_node_of(struct req *req, const char **ret_node)
{
    struct scheduler_token token;
    *ret_node = "";
    ASSERT(req->token_kind == TOKEN_SCHEDULER);
    if (req->token == NULL)
        return ST_OK;
    TRY(scheduler_token_of(req->token, &token));
    if (token.type == SCHEDULER_NODE)
        *ret_node = token.subject;
    return ST_OK;
}
