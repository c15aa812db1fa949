#include "router/answer.h"
#include "router/dialect.h"

#include "base/fs.h"

enum { ANSWER_FORMAT = 1 };

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

static enum status make_success(struct req *req, struct router_answer *ret)
{
    struct req_reply *reply = &req->reply;
    enum reply_kind kind = reply->kind;

    if (kind == REPLY_NONE && reply->insist && req->dialect->tells_warnings)
        kind = REPLY_DATA; /* warnings need a body to stand in */
    bool silent = kind == REPLY_NONE;
    ret->http = reply->http != 0 ? reply->http : silent ? req->dialect->silent_http : 200;
    if (silent)
        return ST_OK;
    ret->content_type = kind == REPLY_RAW ? reply->content_type : req->dialect->data_type;
    if (kind == REPLY_DATA) {
        struct bytes data = reply->borrowed.len != 0 ? reply->borrowed : buf_bytes(&reply->data);
        req->dialect->put_data(req, data, &ret->body);
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

const char *answer_error_text(const struct dialect *dialect, enum status st,
                              const struct reason *reason)
{
    ASSERT(st != ST_OK);
    return reason != NULL && reason->text[0] != '\0' ? reason->text : dialect->error_text(st);
}

/* The table knows a request that was too slow; here it is the cluster that was. */
static int http_of(const struct dialect *dialect, enum status st)
{
    if (dialect->error_http != NULL)
        return dialect->error_http(st);
    return st == ST_TIMEOUT || st == ST_CONFLICT ? 503 : status_http(st);
}

void answer_error(struct router_answer *ret, const struct dialect *dialect, enum status st,
                  const struct reason *reason)
{
    ASSERT(st != ST_OK);
    buf_clear(&ret->body);
    ret->http = http_of(dialect, st);
    ret->content_type = dialect->error_type;
    dialect->put_error(answer_error_text(dialect, st, reason), &ret->body);
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
        answer_error(ret, req->dialect, st, &req->error);
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
