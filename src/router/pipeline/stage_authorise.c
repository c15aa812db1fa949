/* The token of a request: authentication, and the rights of the token. */
#include "auth/token_cache.h"
#include "router/pipeline/stages.h"
#include "router/req_judge.h"
#include "router/request/dialect.h"

struct bytes stage_bearer(const struct req *req, const struct router_request *request)
{
    return req->dialect->read_token(req, request);
}

bool stage_has_bearer(const struct req *req, const struct router_request *request)
{
    return stage_bearer(req, request).len != 0;
}

void stage_forget_token(struct req *req)
{
    token_ref_drop(req->token_ref);
    req->token_ref = NULL;
    req->token = req->caller = NULL;
    req->acl = NULL;
    req->identity = NULL;
}

enum status stage_authenticate(struct req *req, const struct router_request *request)
{
    const struct auth_token *token;
    ASSERT(req_in_txn(req));
    stage_forget_token(req);
    req->bearer = stage_bearer(req, request);
    if (req->bearer.len == 0 && req->dialect->authorise != NULL)
        return ST_OK; /* the dialect decides what a client without a token may do */
    enum status st = req_judge_token(req, req->bearer, &token);
    if (st == ST_DENIED && req->dialect->unknown_token_text != NULL)
        return req_fail(req,
                        req->dialect->unknown_is_unauthenticated ? ST_UNAUTHENTICATED : ST_DENIED,
                        "%s", req->dialect->unknown_token_text);
    TRY(st);
    req->token = token;
    req->caller = token->limited ? NULL : token;
    return ST_OK;
}

enum status stage_use(struct req *req)
{
    const struct auth_scope scope = req_scope(req);
    if (!req->token->limited)
        return ST_OK;
    struct auth_token *token = arena_alloc(req->arena, sizeof *token);
    if (token == NULL)
        return ST_NOMEM;
    ASSERT(req_in_txn(req));
    *token = *req->token;
    TRY(auth_token_use(&scope, token));
    req->token = token;
    return ST_OK;
}

/* Whether a rule gives the capabilities on the path; req->rule is that rule. */
static enum status ask(struct req *req, unsigned caps)
{
    return req_judge_path(req, req->acl, caps, &req->rule);
}

/* Create or update, decided by whether the key exists (PROTOCOL R1 keeps that true until the
 * commit). For a token with both capabilities the key is not read, so the request cannot conflict
 * with other writers. Only a token with one of the two capabilities gets an error about the
 * path. */
static enum status ask_to_write(struct req *req, unsigned caps)
{
    ASSERT(req->matched == ST_OK);
    caps &= ~(unsigned)(CAP_CREATE | CAP_UPDATE);
    if (ask(req, caps | CAP_CREATE | CAP_UPDATE) == ST_OK)
        return ST_OK;
    enum status st = req->route->exists(req);
    if (st == ST_OK || st == ST_NOT_FOUND)
        return ask(req, caps | (st == ST_OK ? CAP_UPDATE : CAP_CREATE));
    bool may = ask(req, caps | CAP_UPDATE) == ST_OK || ask(req, caps | CAP_CREATE) == ST_OK;
    if (may)
        return st;
    req_forget_error(req); /* the error tells about the path */
    return ST_DENIED;
}

static enum status refuse_unmatched(struct req *req)
{
    char methods[ROUTE_METHODS_TEXT];
    if (req->matched == ST_UNSUPPORTED) {
        route_methods_text(req->others.methods, methods);
        ASSERT(methods[0] != '\0');
        return ST_UNSUPPORTED;
    }
    req->dialect->say_no_path(req, req->api != NULL);
    return ST_NOT_FOUND;
}

/* Whether the token has the rights that a request without a matching row would need. */
static bool may_unmatched(struct req *req)
{
    static const unsigned implied[METHODS] = {
        [METHOD_GET] = CAP_READ,      [METHOD_HEAD] = CAP_READ,   [METHOD_LIST] = CAP_LIST,
        [METHOD_DELETE] = CAP_DELETE, [METHOD_PATCH] = CAP_PATCH, [METHOD_SCAN] = CAP_SCAN,
    };
    ASSERT(req->method < METHODS);
    unsigned caps = implied[req->method];
    if (caps != 0)
        return ask(req, caps) == ST_OK;
    return ask(req, CAP_UPDATE) == ST_OK || ask(req, CAP_CREATE) == ST_OK;
}

enum status stage_authorise_path(struct req *req)
{
    req->rule = NULL;
    if (req->matched == ST_OK && route_is_open(req->route))
        return ST_OK;
    if (req->dialect->authorise != NULL)
        return req->dialect->authorise(req);
    ASSERT(req->token != NULL);
    TRY(req_acl(req, req->token, &req->acl));
    if (req->help) {
        bool may = req->help_open || acl_capabilities(req->acl, req->path) != 0;
        return !may ? ST_DENIED : req->matched != ST_OK ? refuse_unmatched(req) : ST_OK;
    }
    if (req->matched != ST_OK) /* a sender without the right learns nothing about the path */
        return may_unmatched(req) ? refuse_unmatched(req) : ST_DENIED;
    if (route_takes_any_token(req->route))
        return ST_OK;
    unsigned caps = route_caps(req->route, req->method);
    if ((req->route->flags & ROUTE_CREATES) != 0 && ask(req, caps) != ST_OK)
        caps = (caps & ~(unsigned)CAP_UPDATE) | CAP_CREATE;
    return req->route->exists != NULL ? ask_to_write(req, caps) : ask(req, caps);
}

enum status stage_authorise_parameters(const struct req *req)
{
    ASSERT(req->data != NULL);
    /* stage_authorise_path came first */
    ASSERT(req->acl != NULL || route_is_open(req->route) || req->dialect->authorise != NULL);
    return req_judge_parameters(req, req->rule, req->data);
}

/* Ignore a token that is invalid or lacks the right: these paths also serve operators who have lost
 * their token. */
enum status stage_admit(struct req *req, const struct router_request *request)
{
    enum status st = ST_DENIED;
    ASSERT(req->route->who == WHO_CEREMONY);
    req->token = NULL;
    if (stage_has_bearer(req, request))
        st = stage_authenticate(req, request);
    if (st == ST_OK)
        st = req_acl(req, req->token, &req->acl);
    if (st == ST_OK)
        st = ask(req, route_caps(req->route, req->method));
    if (st == ST_OK)
        st = stage_authorise_parameters(req);
    if (st == ST_OK)
        return ST_OK;
    req->token = NULL;
    req->acl = NULL;
    return st == ST_DENIED ? ST_OK : st;
}
