#include "front/secrets/wrap.h"

#include "auth/token_ttl.h"
#include "auth/wrapping_jwt.h"
#include "router/quota_lease.h"
#include "router/router.h"
#include "text/duration.h"

enum status wrap_read(struct req *req, struct bytes header)
{
    int64_t s = 0;
    req->wrap_ttl_s = 0;
    if (header.len == 0)
        return ST_OK;
    if (text_seconds_parse(header, &s) != ST_OK)
        return req_fail(req, ST_INVALID,
                        "X-Secrets-Wrap-TTL: a duration in whole seconds is expected");
    if (s > AUTH_MAX_TTL_S)
        return req_fail(req, ST_INVALID, "X-Secrets-Wrap-TTL: longer than the maximum of %lld s",
                        (long long)AUTH_MAX_TTL_S);
    ASSERT(s >= 0);
    req->wrap_ttl_s = s;
    return ST_OK;
}

enum status wrap_read_form(struct req *req, struct bytes header)
{
    req->wrap_jwt = text_is(header, "jwt");
    if (header.len != 0 && !req->wrap_jwt)
        return req_fail(req, ST_INVALID, "X-Secrets-Wrap-Format: jwt is expected, or no header");
    return ST_OK;
}

static enum status refuse(struct req *req)
{
    return req_fail(req, ST_INVALID, "the reply of this path cannot be wrapped");
}

enum status wrap_check(struct req *req)
{
    const struct route *route = req->route;
    if (req->wrap_ttl_s == 0 || route == NULL)
        return ST_OK;
    bool never = route->place == PLACE_NODE || route->place == PLACE_LEADER;
    return never || route->form == FORM_BARE ? refuse(req) : ST_OK;
}

/* Warn of a JSON Web Token that does not say where to unwrap it. */
static void put_address_warning(const struct wrapping *wrapping, struct text_writer *w)
{
    text_key(w, "warnings");
    if (wrapping->addr == NULL || wrapping->addr[0] != '\0') {
        text_put_null(w);
        return;
    }
    text_open_list(w);
    text_put_str(w, "the wrapping token names no address to unwrap it at, because api_addr of the "
                    "active node is not set: give the address where the token is used");
    text_close(w);
}

/* `always`: the handler asked for the wrapping, and its clients expect the member even if it is
 * empty. */
static enum status put_told(const struct wrapping *wrapping, bool always, struct buf *out)
{
    struct text_writer w = {.out = out};
    ASSERT(wrapping->bearer[0] != '\0');
    ASSERT(wrapping->creation_ttl_s > 0);
    text_open_object(&w);
    text_member_str(&w, "request_id", "");
    text_member_str(&w, "lease_id", "");
    text_member_bool(&w, "renewable", false);
    text_member_int(&w, "lease_duration", 0);
    text_member_null(&w, "data");
    text_key(&w, "wrap_info");
    text_open_object(&w);
    text_member_str(&w, "token", wrapping->bearer);
    text_member_str(&w, "accessor", wrapping->token.accessor);
    text_member_int(&w, "ttl", wrapping->creation_ttl_s);
    text_member_time(&w, "creation_time", wrapping->creation_time_ms);
    text_member_str(&w, "creation_path", wrapping->creation_path);
    if (always || wrapping->wrapped_accessor[0] != '\0')
        text_member_str(&w, "wrapped_accessor", wrapping->wrapped_accessor);
    text_close(&w);
    put_address_warning(wrapping, &w);
    text_member_null(&w, "auth");
    text_close(&w);
    return buf_status(out);
}

static enum status keep(struct req *req, const struct wrapping *wrapping)
{
    struct wrapping *kept = arena_alloc(req->arena, sizeof *kept);
    if (kept == NULL)
        return ST_NOMEM;
    *kept = *wrapping;
    req->reply.wrapping = kept;
    return ST_OK;
}

/* Put a JSON Web Token in place of the bearer. Only the active node commits what was staged, so the
 * address is this node's. */
static enum status use_jwt(struct req *req, const struct auth_scope *scope, struct wrapping *w)
{
    struct node_status status;
    ASSERT(req_in_txn(req));
    req->host->node_ops->status(req->host->node, &status);
    w->addr = arena_str(req->arena, bytes_str(status.leader_address));
    return w->addr != NULL ? wrapping_jwt_make(scope, w) : ST_NOMEM;
}

enum status wrap_make(struct req *req, struct bytes body, enum wrap_form form,
                      struct wrapping *wrapping, struct buf *out)
{
    const struct auth_scope scope = req_scope(req);
    ASSERT(out->len == 0);
    ASSERT(wrapping->creation_path[0] != '\0');
    if (form == WRAP_JWT)
        TRY(req_need_feature(req, WRAPPING_JWT_FEATURE));
    TRY(wrapping_create(&scope, req->env, body, wrapping));
    if (form == WRAP_JWT)
        TRY(use_jwt(req, &scope, wrapping));
    TRY(keep(req, wrapping));
    return put_told(wrapping, req->reply.wrap_ttl_s != 0, out);
}

/* How long the reply is kept, as the request and the handler ask. 0: it is not wrapped. */
static int64_t ttl_of(const struct req *req)
{
    int64_t asked_s = req->wrap_ttl_s, own_s = req->reply.wrap_ttl_s;
    ASSERT(asked_s >= 0 && own_s >= 0);
    return asked_s == 0 || own_s == 0 ? MAX(asked_s, own_s) : MIN(asked_s, own_s);
}

static enum wrap_form form_of(const struct req *req)
{
    return req->reply.wrap_jwt || req->wrap_jwt ? WRAP_JWT : WRAP_BEARER;
}

static enum status wrap(struct req *req, const struct router_reply *reply, struct buf *out)
{
    enum reply_kind kind = req->reply.kind;
    const char *accessor = req->reply.accessor;
    struct wrapping wrapping = {.creation_path = (const char *)req->path.data,
                                .wrapped_accessor = accessor != NULL ? accessor : "",
                                .creation_ttl_s = ttl_of(req)};

    ASSERT(wrapping.creation_ttl_s > 0);
    ASSERT(reply->http < 300);
    /* Without a token only a login may store something. */
    if (kind == REPLY_BARE || kind == REPLY_RAW || (req->token == NULL && req->reply.auth.len == 0))
        return refuse(req);
    TRY(req_lease_quota(req)); /* a wrapping token is a lease */
    return wrap_make(req, buf_bytes(&reply->body), form_of(req), &wrapping, out);
}

/* Whether the reply holds anything to wrap: a warning alone is no secret. */
static bool has_content(const struct req_reply *reply)
{
    return reply->kind == REPLY_BARE || reply->kind == REPLY_RAW || reply->data.len != 0 ||
           reply->borrowed.len != 0 || reply->auth.len != 0;
}

/* Whether the step outside will make the reply, after the last transaction that could keep it. */
static bool replies_later(const struct req *req)
{
    const struct route *route = req->route;
    bool outside = route->outside != NULL && route->finish == NULL && !req->steps.skip_outside;
    return outside && (route->reply != NULL || route->shape != NULL);
}

enum status wrap_reply(struct req *req, struct router_reply *reply)
{
    struct buf told = {0};
    ASSERT(req->wrap_ttl_s >= 0);
    if (ttl_of(req) == 0 || reply->http >= 300)
        return ST_OK;
    bool now = reply->content_type != NULL && has_content(&req->reply);
    if (!now && !replies_later(req))
        return ST_OK;
    enum status st = now ? wrap(req, reply, &told) : refuse(req);
    if (st != ST_OK) {
        buf_done(&told);
        reply_done(reply);
        reply_error(reply, req->dialect, st, req_error(req));
        return st;
    }
    ASSERT(told.len != 0);
    buf_done(&reply->body);
    reply->body = told;
    return ST_OK;
}
