/* sys/wrapping/: wrap, look up, unwrap and rewrap a reply. The wrapping token comes in the body or
 * in the header. A client needs no other token for these routes. */
#include "api/sys/sys.h"
#include "front/secrets/wrap.h"

struct sys_wrapping {
    const char *token;
};

static const struct field wrapping_fields[] = {
    FIELD(struct sys_wrapping, token, STRING, .preset = "", .hidden = true,
          .help = "The wrapping token, also as a JWT; none: the token in the header."),
};
static const struct schema sys_wrapping_schema = SCHEMA(struct sys_wrapping, wrapping_fields);

static enum status not_valid(struct req *req, enum status st)
{
    return st != ST_NOT_FOUND
               ? st
               : req_fail(req, ST_INVALID, "wrapping token is not valid or does not exist");
}

static enum status find(struct req *req, struct wrapping *ret_wrapping)
{
    const struct sys_wrapping *in = req_body(req);
    const struct auth_scope scope = req_scope(req);
    struct bytes bearer = in->token[0] != '\0' ? bytes_str(in->token) : req->bearer;
    if (bearer.len == 0)
        return req_fail(req, ST_INVALID, "missing wrapping token");
    enum status st = wrapping_load(&scope, bearer, ret_wrapping);
    return st != ST_OK ? not_valid(req, st) : ST_OK;
}

/* Take the wrapped reply, once: the token ends. */
static enum status take(struct req *req, struct wrapping *ret_wrapping, struct bytes *ret_body)
{
    const struct auth_scope scope = req_scope(req);
    ASSERT(req_in_txn(req));
    TRY(find(req, ret_wrapping));
    enum status st = wrapping_take(&scope, ret_wrapping, ret_body);
    return st != ST_OK ? not_valid(req, st) : ST_OK;
}

static enum status sys_wrap(struct req *req)
{
    if (req->wrap_ttl_s == 0)
        return req_fail(req, ST_INVALID, "endpoint requires response wrapping to be used");
    struct text_writer w = req_reply_begin(req);
    text_put_value(&w, req->data);
    return req_reply_end(req);
}

static enum status sys_unwrap(struct req *req)
{
    struct wrapping wrapping;
    struct bytes body;
    TRY(take(req, &wrapping, &body));
    return req_reply_raw(req, "application/json", body);
}

static enum status sys_rewrap(struct req *req)
{
    CLEANUP(buf_done) struct buf told = {0};
    struct wrapping wrapping;
    struct bytes body;
    TRY(take(req, &wrapping, &body));
    /* a holder who was given a JWT may need the address in the next one */
    bool jwt = wrapping.addr != NULL || req->wrap_jwt;
    TRY(wrap_make(req, body, jwt ? WRAP_JWT : WRAP_BEARER, &wrapping, &told));
    ASSERT(told.len > 0);
    return req_reply_raw(req, "application/json", buf_bytes(&told));
}

struct lookup_out {
    const char *creation_path;
    int64_t creation_time, creation_ttl;
};
static const struct field lookup_fields[] = {
    FIELD(struct lookup_out, creation_path, STRING),
    FIELD(struct lookup_out, creation_time, TIME),
    FIELD(struct lookup_out, creation_ttl, INT),
};
static const struct schema sys_wrapping_reply = SCHEMA(struct lookup_out, lookup_fields);

static enum status sys_wrapping_lookup(struct req *req)
{
    struct wrapping wrapping;
    TRY(find(req, &wrapping));
    const struct lookup_out out = {wrapping.creation_path, wrapping.creation_time_ms,
                                   wrapping.creation_ttl_s};
    return req_reply(req, &out);
}

static const struct route wrapping_routes[] = {
    {.method = METHOD_POST,
     .path = "wrapping/wrap",
     .handler = sys_wrap,
     .flags = ROUTE_FREE_BODY,
     .shape = "obj", /* any object: the client's own */
     .help = "Wrap the body of this request, as the wrapping header says."},
    {.method = METHOD_POST,
     .path = "wrapping/unwrap",
     .handler = sys_unwrap,
     .auth = AUTH_NONE,
     .body = &sys_wrapping_schema,
     .shape = "json", /* the reply of another route */
     .help = "The reply that a wrapping token keeps, once. No other token is needed."},
    {.method = METHOD_POST,
     .path = "wrapping/rewrap",
     .handler = sys_rewrap,
     .auth = AUTH_NONE,
     .body = &sys_wrapping_schema,
     .shape = "json", /* the reply of another route */
     .help = "Exchange a wrapping token for a new one that keeps the same reply."},
    {.method = METHOD_POST,
     .path = "wrapping/lookup",
     .handler = sys_wrapping_lookup,
     .auth = AUTH_NONE,
     .flags = ROUTE_READS,
     .body = &sys_wrapping_schema,
     .reply = &sys_wrapping_reply,
     .help = "How a wrapping token was created. The token stays valid."},
    {.method = METHOD_GET,
     .path = "wrapping/lookup",
     .handler = sys_wrapping_lookup,
     .auth = AUTH_NONE,
     .body = &sys_wrapping_schema,
     .reply = &sys_wrapping_reply,
     .help = "How a wrapping token was created. The token stays valid."},
};

const struct route_table sys_wrapping_table = {wrapping_routes, ARRAY_LEN(wrapping_routes)};
