#include "router/answer.h"

#include "base/fs.h"

#define JSON_TYPE "application/json"

enum { ANSWER_FORMAT = 1, ENVELOPE_BYTES = 320 };

void answer_done(struct router_answer *answer)
{
    struct answer_stream *stream = answer->stream;
    buf_done(&answer->body);
    fs_close(answer->file.file);
    *answer = (struct router_answer){.headers = answer->headers}; /* room for others */
    if (stream != NULL)
        stream->drop(stream);
}

bool answer_add_header(struct router_answer *answer, struct arena *arena, struct bytes name,
                       struct bytes value)
{
    if (answer->headers == NULL)
        answer->headers = arena_alloc(arena, ANSWER_HEADERS_MAX * sizeof answer->headers[0]);
    if (answer->headers == NULL || answer->n_headers == ANSWER_HEADERS_MAX)
        return false;
    answer->headers[answer->n_headers++] = (struct http_header){name, value};
    return true;
}

/* The members of `data` again, beside it, as old clients read them. They were written by us: an
 * object in compact form. */
static void repeat_members(struct text_writer *w, struct bytes data)
{
    ASSERT(data.len >= 2 && data.data[0] == '{');
    if (data.len > 2)
        text_put_raw(w, bytes_of(data.data + 1, data.len - 2));
}

static void put_warnings(const struct req_reply *reply, struct text_writer *w)
{
    text_key(w, "warnings");
    if (reply->n_warnings == 0) {
        text_put_null(w);
        return;
    }
    text_open_list(w);
    for (unsigned i = 0; i < reply->n_warnings; i++)
        text_put_str(w, reply->warnings[i]);
    text_close(w);
}

/* Write the members after the data; most replies have none. */
static void put_rest(const struct req_reply *reply, struct text_writer *w)
{
    if (reply->n_warnings == 0 && reply->auth.len == 0) {
        text_put_raw(w, BYTES("\"wrap_info\":null,\"warnings\":null,\"auth\":null"));
        return;
    }
    text_member_null(w, "wrap_info");
    put_warnings(reply, w);
    text_key(w, "auth");
    if (reply->auth.len != 0)
        text_put_raw(w, buf_bytes(&reply->auth));
    else
        text_put_null(w);
}

static void put_lease(const struct req_reply *reply, struct text_writer *w)
{
    if (reply->lease_id == NULL) { /* most replies give none */
        text_put_raw(w, BYTES("\"lease_id\":\"\",\"renewable\":false"));
        return;
    }
    text_member_str(w, "lease_id", reply->lease_id);
    text_member_bool(w, "renewable", reply->renewable);
}

static void put_envelope(const struct req *req, struct buf *out)
{
    struct text_writer w = {.out = out};
    const struct req_reply *reply = &req->reply;
    struct bytes data = reply->borrowed.len != 0 ? reply->borrowed : buf_bytes(&reply->data);

    if (buf_reserve(out, data.len + reply->auth.len + ENVELOPE_BYTES) != ST_OK)
        return; /* buf_status tells */
    text_open_object(&w);
    if (reply->http >= 400)
        req_put_no_errors(&w);
    text_member_str(&w, "request_id", req->request_id);
    put_lease(reply, &w);
    text_member_int(&w, "lease_duration", reply->lease_duration_s);
    text_key(&w, "data");
    if (data.len != 0)
        text_put_raw(&w, data);
    else
        text_put_null(&w);
    put_rest(reply, &w);
    text_member_str(&w, "mount_type", req->api->type);
    if ((req->route->flags & ROUTE_TOP_LEVEL) != 0 && data.len != 0)
        repeat_members(&w, data);
    text_close(&w);
}

static enum status make_success(struct req *req, struct router_answer *ret)
{
    struct req_reply *reply = &req->reply;
    enum reply_kind kind = reply->kind;

    if (kind == REPLY_NONE && reply->insist)
        kind = REPLY_DATA; /* warnings need a body to stand in */
    ret->http = reply->http != 0 ? reply->http : kind == REPLY_NONE ? 204 : 200;
    if (kind == REPLY_NONE)
        return ST_OK;
    ret->content_type = kind == REPLY_RAW ? reply->content_type : JSON_TYPE;
    if (kind == REPLY_DATA) {
        put_envelope(req, &ret->body);
        return buf_status(&ret->body);
    }
    TRY(buf_status(&reply->data));
    if (reply->encoding != NULL &&
        (!answer_add_header(ret, req->arena, BYTES("Content-Encoding"),
                            bytes_str(reply->encoding)) ||
         !answer_add_header(ret, req->arena, BYTES("Vary"), BYTES("Accept-Encoding"))))
        return ST_NOMEM;
    ret->body = reply->data;
    reply->data = (struct buf){0};
    return ST_OK;
}

const char *answer_error_text(enum status st, const struct reason *reason)
{
    if (reason != NULL && reason->text[0] != '\0')
        return reason->text;
    switch (st) {
    case ST_NOT_FOUND: return "";
    case ST_SEALED: return "Vault is sealed"; /* clients look for these words */
    case ST_DENIED: return "1 error occurred:\n\t* permission denied\n\n";
    case ST_UNSUPPORTED: return "1 error occurred:\n\t* unsupported operation\n\n";
    default: return status_text(st);
    }
}

/* The table knows a request that was too slow; here it is the cluster that was. */
static int http_of(enum status st)
{
    return st == ST_TIMEOUT || st == ST_CONFLICT ? 503 : status_http(st);
}

void answer_error(struct router_answer *ret, enum status st, const struct reason *reason)
{
    const char *text = answer_error_text(st, reason);
    struct text_writer w = {.out = &ret->body};

    ASSERT(st != ST_OK);
    buf_clear(&ret->body);
    ret->http = http_of(st);
    ret->content_type = JSON_TYPE;
    text_open_object(&w);
    text_key(&w, "errors");
    text_open_list(&w);
    if (text[0] != '\0')
        text_put_str(&w, text);
    text_close(&w);
    text_close(&w);
    if (buf_status(&ret->body) != ST_OK) {
        buf_done(&ret->body);
        ret->content_type = NULL;
    }
}

/* Without memory the answer lacks a header. */
static void tell_methods(struct req *req, struct router_answer *ret)
{
    char *methods = arena_alloc(req->arena, ROUTE_METHODS_TEXT);
    if (methods == NULL)
        return;
    route_methods_text(req->others.methods, methods);
    (void)answer_add_header(ret, req->arena, BYTES("Allow"),
                            bytes_str(methods)); /* without memory the header is missing */
}

enum status answer_make(struct req *req, enum status st, struct router_answer *ret)
{
    answer_done(ret);
    if (st == ST_OK)
        st = make_success(req, ret);
    if (st != ST_OK)
        answer_error(ret, st, &req->error);
    if (st == ST_UNSUPPORTED && req->others.methods != 0)
        tell_methods(req, ret);
    return st;
}

enum status answer_encode(const struct router_answer *answer, struct buf *out)
{
    buf_add_u8(out, ANSWER_FORMAT);
    buf_add_u16(out, (uint16_t)answer->http);
    buf_add_block(out, bytes_str(answer->content_type != NULL ? answer->content_type : ""));
    buf_add_block(out, buf_bytes(&answer->body));
    return buf_status(out);
}

enum status answer_decode(struct bytes stored, struct arena *arena, struct router_answer *ret)
{
    struct reader r = reader_of(stored);
    struct router_answer answer = {0};

    uint8_t format = reader_u8(&r);
    answer.http = reader_u16(&r);
    struct bytes type = reader_block(&r), body = reader_block(&r);
    if (reader_end(&r) != ST_OK || format != ANSWER_FORMAT || answer.http < 200 ||
        answer.http > 599)
        return ST_CORRUPT;
    if (type.len != 0) {
        answer.content_type = arena_str(arena, type);
        if (answer.content_type == NULL)
            return ST_NOMEM;
    }
    buf_add(&answer.body, body);
    TRY(buf_status(&answer.body));
    *ret = answer;
    return ST_OK;
}
