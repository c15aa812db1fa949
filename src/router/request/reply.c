#include "router/request/reply.h"
#include "router/request/dialect.h"

#include "base/fs.h"
#include "base/trace_tail.h"

#include <inttypes.h>

enum { REPLY_FORMAT = 1 };

void reply_done(struct router_reply *reply)
{
    struct reply_stream *stream = reply->stream;
    buf_done(&reply->body);
    shared_unref(reply->shared);
    fs_close(reply->file.file);
    tail_close(reply->log.tail);
    /* keep the memory for headers, but none of the headers */
    *reply = (struct router_reply){.headers = reply->headers};
    if (stream != NULL)
        stream->drop(stream);
}

bool reply_header_room(struct router_reply *reply, struct arena *arena)
{
    size_t n = reply->headers == NULL ? REPLY_HEADERS_FIRST : REPLY_HEADERS_MAX;
    if (reply->n_headers == REPLY_HEADERS_MAX)
        return false;
    struct http_header *room = arena_alloc(arena, n * sizeof *room);
    if (room == NULL)
        return false;
    if (reply->n_headers != 0)
        memcpy(room, reply->headers, reply->n_headers * sizeof *room);
    reply->headers = room;
    return true;
}

static enum status make_success(struct req *req, struct router_reply *ret)
{
    struct req_reply *reply = &req->reply;
    enum reply_kind kind = reply->kind;

    ASSERT(ret->body.len == 0);
    if (kind == REPLY_NONE && reply->insist && req->dialect->tells_warnings)
        kind = REPLY_DATA; /* warnings need a body that carries them */
    bool silent = kind == REPLY_NONE;
    ret->upgrade = req->files.upgrade;
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
        (!reply_add_header(ret, req->arena, BYTES("Content-Encoding"),
                           bytes_str(reply->encoding)) ||
         !reply_add_header(ret, req->arena, BYTES("Vary"), BYTES("Accept-Encoding"))))
        return ST_NOMEM;
    if (reply->shared != NULL) {
        ret->shared = shared_ref(reply->shared);
        return ST_OK;
    }
    ret->body = reply->data;
    reply->data = (struct buf){0};
    return ST_OK;
}

const char *reply_error_text(const struct dialect *dialect, enum status st,
                             const struct reason *reason)
{
    ASSERT(st != ST_OK);
    return reason != NULL && reason->text[0] != '\0' ? reason->text : dialect->error_text(st);
}

/* The HTTP status of an error. ST_TIMEOUT gives 503 unless the dialect decides otherwise: the table
 * means a slow client, but here the cluster was slow. */
static int http_of(const struct dialect *dialect, enum status st)
{
    if (dialect->error_http != NULL)
        return dialect->error_http(st);
    return st == ST_TIMEOUT || st == ST_CONFLICT ? 503 : status_http(st);
}

void reply_error(struct router_reply *ret, const struct dialect *dialect, enum status st,
                 const struct reason *reason)
{
    ASSERT(st != ST_OK);
    buf_clear(&ret->body);
    ret->http = http_of(dialect, st);
    ret->content_type = dialect->error_type;
    dialect->put_error(ret->http, reply_error_text(dialect, st, reason), &ret->body);
    if (buf_status(&ret->body) != ST_OK) {
        buf_done(&ret->body);
        ret->content_type = NULL;
    }
}

/* Without memory the reply lacks a header. */
static void tell_methods(struct req *req, struct router_reply *ret)
{
    char *methods = arena_alloc(req->arena, ROUTE_METHODS_TEXT);
    if (methods == NULL)
        return;
    if (req->dialect->write_methods != NULL)
        req->dialect->write_methods(req->others.methods, methods);
    else
        route_methods_text(req->others.methods, methods);
    (void)reply_add_header(ret, req->arena, BYTES("Allow"),
                           bytes_str(methods)); /* without memory the header is missing */
}

enum status reply_make(struct req *req, enum status st, struct router_reply *ret)
{
    reply_done(ret);
    if (st == ST_OK)
        st = make_success(req, ret);
    if (st != ST_OK)
        reply_error(ret, req->dialect, st, req_error(req));
    bool asked = st == ST_OK && req->method == METHOD_OPTIONS && !req->help;
    if ((st == ST_UNSUPPORTED || asked) && req->others.methods != 0)
        tell_methods(req, ret);
    return st;
}

enum status reply_put_version(struct buf *body, uint64_t version)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct bytes rest = buf_bytes(body);
    const uint8_t *at;
    ASSERT(version != 0);
    while (rest.len != 0 && (at = memchr(rest.data, REPLY_VERSION[0], rest.len)) != NULL) {
        buf_add(&out, bytes_of(rest.data, (size_t)(at - rest.data)));
        buf_add_format(&out, "%" PRIu64, version);
        rest = bytes_from(rest, (size_t)(at + 1 - rest.data));
    }
    buf_add(&out, rest);
    TRY(buf_status(&out));
    buf_done(body);
    *body = out;
    out = (struct buf){0};
    return ST_OK;
}

enum status reply_encode(const struct router_reply *reply, struct buf *out)
{
    buf_add_u8(out, REPLY_FORMAT);
    buf_add_u16(out, (uint16_t)reply->http);
    buf_add_block(out, bytes_str(reply->content_type != NULL ? reply->content_type : ""));
    buf_add_block(out, reply_bytes(reply));
    return buf_status(out);
}

enum status reply_decode(struct bytes stored, struct arena *arena, struct router_reply *ret)
{
    struct reader r = reader_of(stored);
    struct router_reply reply = {0};

    uint8_t format = reader_u8(&r);
    reply.http = reader_u16(&r);
    struct bytes type = reader_block(&r), body = reader_block(&r);
    if (reader_end(&r) != ST_OK || format != REPLY_FORMAT || reply.http < 200 || reply.http > 599)
        return ST_CORRUPT;
    if (type.len != 0) {
        reply.content_type = arena_str(arena, type);
        if (reply.content_type == NULL)
            return ST_NOMEM;
    }
    buf_add(&reply.body, body);
    TRY(buf_status(&reply.body));
    *ret = reply;
    return ST_OK;
}
