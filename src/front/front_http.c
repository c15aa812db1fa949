#include "front/front_http.h"

#include "front/download.h"
#include "front/forward.h"
#include "front/front.h"
#include "front/front_call.h"
#include "front/relay.h"
#include "front/upload.h"
#include "router/dialect.h"

#include <stdio.h>

enum { ERROR_TEXT_MAX = HTTP_ERROR_BYTES_MAX + 1 };

struct receiving {
    struct upload upload;
    struct router_receive *to;
};

static void on_uploaded(struct upload *upload, enum status st)
{
    struct router_receive *to = CONTAINER_OF(upload, struct receiving, upload)->to;
    to->file = upload->file;
    to->bytes = upload->bytes;
    to->done(to, st); /* perhaps last touch */
}

static enum status call_receive(struct router_call *router_call, struct router_receive *to)
{
    struct front_call *call = front_call_of(router_call);
    struct receiving *receiving = arena_zalloc(router_call->arena, sizeof *receiving);
    ASSERT(router_call->streamed && call->upload == NULL);
    if (receiving == NULL)
        return ST_NOMEM;
    receiving->to = to;
    receiving->upload =
        (struct upload){.env = to->env, .req = call->req, .host = to->host, .done = on_uploaded};
    call->upload = &receiving->upload;
    upload_start(call->upload);
    return ST_OK;
}

static void call_forward(struct router_call *router_call, struct router_forward *f)
{
    struct front_call *call = front_call_of(router_call);
    ASSERT(call->forwarder != NULL && !router_call->forwarded);
    forward_start(call->forwarder, f);
}

static void on_whole(struct http_request *req, enum status st)
{
    struct front_call *call = front_call_get(req);
    call->call.streamed = st != ST_OK;
    call->call.body = req->body;
    call->collect->done(call->collect, st); /* perhaps last touch */
}

static void call_collect(struct router_call *router_call, struct router_collect *collect)
{
    struct front_call *call = front_call_of(router_call);
    const struct ip client = ip_port_ip(call->peer);
    ASSERT(router_call->streamed && call->collect == NULL);
    call->collect = collect;
    http_body_collect(call->req, &client, on_whole);
}

static struct bytes call_header(const struct router_call *call, const char *name)
{
    return http_header(front_call_of(call)->req, name);
}

static void call_respond(struct router_call *call, struct router_answer *answer)
{
    struct http_request *req = front_call_of(call)->req;
    struct answer_stream *stream = answer->stream;
    ASSERT(stream == NULL || answer->file.file == NULL);

    if (answer->retry != ST_OK) {
        ASSERT(call->forwarded);
        (void)answer_add_header(
            answer, call->arena, BYTES(RELAY_HEADER_RETRY),
            bytes_str(status_name(answer->retry))); /* without the header: no retry */
        answer->http = 503;
    }
    struct http_reply reply = {
        .status = answer->http,
        .content_type = answer->content_type,
        .headers = answer->headers,
        .n_headers = answer->n_headers,
        .body = buf_bytes(&answer->body),
    };
    if (stream != NULL) {
        http_respond_begin(req, &reply, stream->length);
        stream->send(stream); /* last touch: it ends the answer */
        return;
    }
    if (answer->file.file != NULL) {
        http_respond_begin(req, &reply, answer->file.bytes);
        download_start(req, answer->file); /* last touch: it ends the answer */
        return;
    }
    http_keep(req, &answer->body);
    http_respond(req, &reply);
}

/* Read the headers in which another node describes the client it forwards for. */
static enum status read_peer_headers(struct front_call *call)
{
    struct bytes id = http_header(call->req, RELAY_HEADER_ID);
    struct bytes client = http_header(call->req, RELAY_HEADER_CLIENT);
    call->call.forwarded = true;
    call->call.again = http_header(call->req, RELAY_HEADER_AGAIN).len != 0;
    call->call.closed_ceremonies = http_header(call->req, RELAY_HEADER_CLOSED).len != 0;
    if (client.len != 0 && client.len < sizeof call->peer) {
        memcpy(call->peer, client.data, client.len);
        call->peer[client.len] = '\0';
    }
    return id.len != 0 ? relay_id_parse(id, &call->call.id) : ST_OK;
}

/* Of a head: the body is not there yet. NULL: no memory. */
static struct front_call *call_new(const struct front_http *http, struct http_request *req)
{
    struct front_call *call = arena_alloc(&req->arena, sizeof *call);
    struct path_target target;
    if (call == NULL || path_canonical(&req->arena, req->path, &target) != ST_OK)
        return NULL;
    *call = (struct front_call){
        .req = req,
        .forwarder = http->forwarder,
        .call = {.method = req->method,
                 .target = target,
                 .query = req->query,
                 .arena = &req->arena,
                 .peer = call->peer,
                 .open_metrics = http->open_metrics,
                 .closed_ceremonies = http->closed_ceremonies,
                 .no_header = http_header_lens_absent(req),
                 .header = call_header,
                 .collect = call_collect,
                 .receive = call_receive,
                 .forward = call_forward,
                 .respond = call_respond},
    };
    http_peer_text(req, call->peer);
    req->user = call;
    router_place(http->worker, &call->call);
    return call;
}

/* Give room to requests that are long-running by nature, and may be large. */
static bool give_room(const struct front_http *http, const struct front_call *call)
{
    uint64_t upload_bytes_max = 0;
    if (!router_is_long(http->worker, &call->call, &upload_bytes_max))
        return false;
    http_answer_within(call->req, 0);
    if (upload_bytes_max == 0)
        return false;
    http_limit_body(call->req, upload_bytes_max);
    http_stream_body(call->req, 0);
    return true;
}

/* The path is made canonical here, once: everything that is decided about the request later uses
 * that form. */
static void on_head(void *ctx, struct http_request *req)
{
    const struct front_http *http = ctx;
    struct front_call *call = call_new(http, req);
    if (call == NULL)
        http_respond_status(req, ST_NOMEM, NULL);
    else if (!give_room(http, call))
        http_stream_body(req, ROUTER_UNJUDGED_BYTES_MAX);
}

/* A page of another site may have made the request. */
static bool is_unmarked(const struct router_call *call)
{
    bool (*is_marked)(const struct router_call *) = call->dialect->is_marked;
    return is_marked != NULL && !is_marked(call);
}

static void on_request(void *ctx, struct http_request *req)
{
    const struct front_http *http = ctx;
    struct front_call *call = front_call_get(req);
    const struct path_target *target = &call->call.target;
    ASSERT(!http->peers || http->is_member != NULL);
    ASSERT(call->call.dialect != NULL);
    call->call.body = req->body;
    call->call.streamed = http_body_streams(req);
    call->call.body_length = http_body_length(req);
    if (http->require_request_header && !http->peers && target->path.data != NULL &&
        is_unmarked(&call->call)) {
        http_respond_error(req, 412, call->call.dialect->unmarked_text);
        return;
    }
    if (http->only != NULL && (req->method != METHOD_POST || !text_is(target->path, http->only))) {
        http_respond_error(req, 403,
                           "without a certificate of the cluster only a request to join "
                           "is served here");
        return;
    }
    if (http->peers && !http->is_member(http, req)) {
        http_respond_error(req, 503, "the node that sends this is no member of the cluster");
        return;
    }
    struct reason why;
    if (!http->peers && client_addr_find(http->client, req, call->peer, &why) != ST_OK) {
        http_respond_error(req, 400, why.text);
        return;
    }
    if (http->peers && read_peer_headers(call) != ST_OK) {
        http_respond_status(req, ST_INVALID, "malformed " RELAY_HEADER_ID);
        return;
    }
    front_handle(http->worker, &call->call);
}

static const char *on_late(void *ctx, struct http_request *req, int *ret_status)
{
    (void)ctx; /* the call knows */
    if (router_give_up(&front_call_get(req)->call) == ST_TIMEOUT)
        return "not answered in time: nothing was changed";
    *ret_status = 504;
    return status_text(ST_UNKNOWN_OUTCOME);
}

/* An error that the server gives itself, or that is given before there is a call. */
static const char *on_error(void *ctx, const struct http_request *req, int status,
                            struct bytes message, struct buf *out)
{
    const struct front_http *http = ctx;
    const struct front_call *call = req->user;
    const struct dialect *dialect = call != NULL ? call->call.dialect : router_home(http->worker);
    char text[ERROR_TEXT_MAX];
    ASSERT(status >= 400 && message.len < sizeof text);
    (void)snprintf(text, sizeof text, "%.*s", (int)message.len,
                   message.len != 0 ? (const char *)message.data : ""); /* fits */
    dialect->put_error(status == 413 ? dialect->body_too_long_text : text, out);
    if (out->len == 0 || out->data[out->len - 1] != '\n')
        buf_add(out, BYTES("\n"));
    return dialect->error_type;
}

const struct http_handler front_http_handler = {
    .head = on_head, .request = on_request, .late = on_late, .error = on_error};
