/* sys/wrapping/: wrap, look up, unwrap and rewrap a reply. The wrapping token comes in the body or
 * in the header. In the header it is the client's token, which may unwrap and not rewrap; beside a
 * token in the body the client needs a token of its own. To look up needs no other token. */
#include "api/tools/tools.h"
#include "front/secrets/wrap.h"

struct tools_wrapping {
    const char *token;
};

static const struct field wrapping_fields[] = {
    FIELD(struct tools_wrapping, token, STRING, .preset = "", .hidden = true,
          .help = "The wrapping token, also as a JWT; none: the token in the header."),
};
static const struct schema tools_wrapping_schema = SCHEMA(struct tools_wrapping, wrapping_fields);

static enum status not_valid(struct req *req, enum status st)
{
    return st != ST_NOT_FOUND
               ? st
               : req_fail(req, ST_INVALID, "wrapping token is not valid or does not exist");
}

static enum status find(struct req *req, struct wrapping *ret_wrapping)
{
    const struct tools_wrapping *in = req_body(req);
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

static enum status tools_wrap(struct req *req)
{
    if (req->wrap_ttl_s == 0)
        return req_fail(req, ST_INVALID, "endpoint requires response wrapping to be used");
    struct text_writer w = req_reply_begin(req);
    text_put_value(&w, req->data);
    return req_reply_end(req);
}

static enum status tools_unwrap(struct req *req)
{
    struct wrapping wrapping;
    struct bytes body;
    TRY(take(req, &wrapping, &body));
    return req_reply_raw(req, "application/json", body);
}

static enum status tools_rewrap(struct req *req)
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
static const struct schema tools_wrapping_reply = SCHEMA(struct lookup_out, lookup_fields);

static enum status tools_wrapping_lookup(struct req *req)
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
     .handler = tools_wrap,
     .input = INPUT_FREE,
     .shape = "obj", /* any object: the client's own */
     .help = "Wrap the body of this request, as the wrapping header says."},
    {.method = METHOD_POST,
     .path = "wrapping/unwrap",
     .handler = tools_unwrap,
     .who = WHO_WRAPPING,
     .body = &tools_wrapping_schema,
     .shape = "json", /* the reply of another route */
     .help =
         "The reply that a wrapping token keeps, once. The wrapping token comes as the client's "
         "token, or as `token` of a client whose own token may use this path."},
    {.method = METHOD_POST,
     .path = "wrapping/rewrap",
     .handler = tools_rewrap,
     .who = WHO_WRAPPING,
     .body = &tools_wrapping_schema,
     .shape = "json", /* the reply of another route */
     .help = "Exchange a wrapping token, `token`, for a new one that keeps the same reply. The "
             "client's own token must be allowed to use this path."},
    {.method = METHOD_POST,
     .path = "wrapping/lookup",
     .handler = tools_wrapping_lookup,
     .who = WHO_ANYONE,
     .flags = ROUTE_READS,
     .body = &tools_wrapping_schema,
     .reply = &tools_wrapping_reply,
     .help = "How a wrapping token was created. The token stays valid."},
    {.method = METHOD_GET,
     .path = "wrapping/lookup",
     .handler = tools_wrapping_lookup,
     .who = WHO_ANYONE,
     .body = &tools_wrapping_schema,
     .reply = &tools_wrapping_reply,
     .help = "How a wrapping token was created. The token stays valid."},
};

const struct route_table tools_wrapping_table = {wrapping_routes, ARRAY_LEN(wrapping_routes)};
