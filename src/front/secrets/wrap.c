#include "front/secrets/wrap.h"

#include "auth/token_ttl.h"
#include "router/quota_lease.h"
#include "text/duration.h"

enum status wrap_read(struct req *req, struct bytes header)
{
    int64_t ns = 0;
    req->wrap_ttl_s = 0;
    if (header.len == 0)
        return ST_OK;
    if (text_duration_parse(header, &ns) != ST_OK)
        return req_fail(req, ST_INVALID, "X-Secrets-Wrap-TTL: a duration is expected");
    int64_t s = ns / 1000000000;
    if (s == 0 && ns != 0)
        return req_fail(req, ST_INVALID, "X-Secrets-Wrap-TTL: less than a second");
    if (s > AUTH_MAX_TTL_S)
        return req_fail(req, ST_INVALID, "X-Secrets-Wrap-TTL: longer than the maximum of %lld s",
                        (long long)AUTH_MAX_TTL_S);
    ASSERT(s >= 0);
    req->wrap_ttl_s = s;
    return ST_OK;
}

static enum status refuse(struct req *req)
{
    return req_fail(req, ST_INVALID, "the reply of this path cannot be wrapped");
}

enum status wrap_check(struct req *req)
{
    unsigned never = ROUTE_NODE | ROUTE_BARE | ROUTE_LEADER;
    if (req->wrap_ttl_s == 0 || req->route == NULL || (req->route->flags & never) == 0)
        return ST_OK;
    return refuse(req);
}

enum status wrap_put(const struct wrapping *wrapping, struct buf *out)
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
    if (wrapping->wrapped_accessor[0] != '\0')
        text_member_str(&w, "wrapped_accessor", wrapping->wrapped_accessor);
    text_close(&w);
    text_member_null(&w, "warnings");
    text_member_null(&w, "auth");
    text_close(&w);
    return buf_status(out);
}

enum status wrap_keep(struct req *req, const struct wrapping *wrapping)
{
    struct wrapping *kept = arena_alloc(req->arena, sizeof *kept);
    if (kept == NULL)
        return ST_NOMEM;
    *kept = *wrapping;
    req->reply.wrapping = kept;
    return ST_OK;
}

static enum status wrap(struct req *req, const struct router_reply *reply, struct buf *out)
{
    const struct auth_scope scope = req_scope(req);
    enum reply_kind kind = req->reply.kind;
    const char *accessor = req->reply.accessor;
    struct wrapping wrapping = {.creation_path = (const char *)req->path.data,
                                .wrapped_accessor = accessor != NULL ? accessor : "",
                                .creation_ttl_s = req->wrap_ttl_s};

    ASSERT(req->wrap_ttl_s > 0);
    ASSERT(reply->http < 300);
    /* Without a token only a login may store something. */
    if (kind == REPLY_BARE || kind == REPLY_RAW || (req->token == NULL && req->reply.auth.len == 0))
        return refuse(req);
    TRY(req_lease_quota(req)); /* a wrapping token is a lease */
    TRY(wrapping_create(&scope, req->env, buf_bytes(&reply->body), &wrapping));
    TRY(wrap_keep(req, &wrapping));
    return wrap_put(&wrapping, out);
}

/* Whether the reply holds anything to wrap: a warning alone is no secret. */
static bool has_content(const struct req_reply *reply)
{
    return reply->kind == REPLY_BARE || reply->kind == REPLY_RAW || reply->data.len != 0 ||
           reply->borrowed.len != 0 || reply->auth.len != 0;
}

enum status wrap_reply(struct req *req, struct router_reply *reply)
{
    struct buf told = {0};
    ASSERT(req->wrap_ttl_s >= 0);
    if (req->wrap_ttl_s == 0 || reply->content_type == NULL || reply->http >= 300 ||
        !has_content(&req->reply))
        return ST_OK;
    enum status st = wrap(req, reply, &told);
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
