/* sys/wrapping/: what was wrapped, for whoever has the token, in the body or in the header. The
 * token is all the authority these ask for. */
#include "api/sys/sys.h"
#include "auth/token_tree.h"
#include "router/wrap.h"

static const struct field wrapping_fields[] = {
    FIELD(struct sys_wrapping, token, STRING, .preset = "", .hidden = true,
          .help = "The wrapping token, unless it comes in the header."),
};
const struct schema sys_wrapping_schema = SCHEMA(struct sys_wrapping, wrapping_fields);

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

/* What it carries, once: the token ends. */
static enum status take(struct req *req, struct wrapping *ret_wrapping, struct bytes *ret_body)
{
    const struct auth_scope scope = req_scope(req);
    TRY(find(req, ret_wrapping));
    enum status st = wrapping_body(&scope, ret_wrapping, ret_body);
    if (st != ST_OK)
        return not_valid(req, st);
    return token_tree_end(&scope, &ret_wrapping->token, TOKEN_END_TREE);
}

enum status sys_wrap(struct req *req)
{
    if (req->wrap_ttl_s == 0)
        return req_fail(req, ST_INVALID, "endpoint requires response wrapping to be used");
    struct text_writer w = req_reply_begin(req);
    text_put_value(&w, req->data);
    return req_reply_end(req);
}

enum status sys_unwrap(struct req *req)
{
    struct wrapping wrapping;
    struct bytes body;
    TRY(take(req, &wrapping, &body));
    return req_reply_raw(req, "application/json", body);
}

enum status sys_rewrap(struct req *req)
{
    CLEANUP(buf_done) struct buf told = {0};
    const struct auth_scope scope = req_scope(req);
    struct wrapping wrapping;
    struct bytes body;
    TRY(take(req, &wrapping, &body));
    TRY(wrapping_create(&scope, req->env, body, &wrapping));
    TRY(wrap_put(&wrapping, &told));
    return req_reply_raw(req, "application/json", buf_bytes(&told));
}

enum status sys_wrapping_lookup(struct req *req)
{
    struct wrapping wrapping;
    TRY(find(req, &wrapping));
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_str(&w, "creation_path", wrapping.creation_path);
    text_member_time(&w, "creation_time", wrapping.creation_time_ms);
    text_member_int(&w, "creation_ttl", wrapping.creation_ttl_s);
    text_close(&w);
    return req_reply_end(req);
}
