#include "front/front_http.h"

#include "front/download.h"
#include "front/forward.h"
#include "front/front.h"
#include "front/front_request.h"
#include "front/front_upgrade.h"
#include "front/log_stream.h"
#include "front/relay.h"
#include "front/upload.h"
#include "http/park.h"
#include "http/unwritten.h"
#include "router/request/dialect.h"

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
    to->done(to, st); /* maybe the last touch of `to` */
}

static enum status request_receive(struct router_request *router_request, struct router_receive *to)
{
    struct front_request *request = front_request_of(router_request);
    struct receiving *receiving = arena_zalloc(router_request->arena, sizeof *receiving);
    ASSERT(router_request->streamed && request->upload == NULL);
    if (receiving == NULL)
        return ST_NOMEM;
    receiving->to = to;
    receiving->upload =
        (struct upload){.env = to->env, .req = request->req, .host = to->host, .done = on_uploaded};
    request->upload = &receiving->upload;
    upload_start(request->upload);
    return ST_OK;
}

static void request_forward(struct router_request *router_request, struct router_forward *f)
{
    struct front_request *request = front_request_of(router_request);
    ASSERT(request->forwarder != NULL && !router_request->forwarded);
    if (f->waits) /* the deadline of the forward bounds the time */
        http_reply_within(request->req, 0);
    forward_start(request->forwarder, f);
}

static void request_end_wait(struct router_request *router_request)
{
    forward_end(front_request_of(router_request)->forward);
}

static void on_whole(struct http_request *req, enum status st)
{
    struct front_request *request = front_request_get(req);
    ASSERT(request->request.streamed);
    request->request.streamed = st != ST_OK;
    request->request.body = req->body;
    request->collect->done(request->collect, st); /* maybe the last touch of the request */
}

static void request_collect(struct router_request *router_request, struct router_collect *collect)
{
    struct front_request *request = front_request_of(router_request);
    const struct ip client = ip_port_ip(request->peer);
    ASSERT(router_request->streamed && request->collect == NULL);
    request->collect = collect;
    http_body_collect(request->req, &client, on_whole);
}

static bool request_may_park(const struct router_request *request)
{
    return http_may_park(front_request_of(request)->req) && request->body.len == 0;
}

/* The client of a parked request has gone. The request still needs a reply: a client that ended
 * only its own side reads the reply. */
static void on_parked_gone(struct http_request *req)
{
    struct router_parked *parked = req->user;
    ASSERT(parked != NULL && parked->request == req);
    req->user = NULL;
    router_parked_drop(parked);
    http_respond_error(req, 408, "the client ended its side of the connection");
}

static void on_resume(struct router_parked *parked);

static void request_park(struct router_request *router_request, struct router_parked *parked)
{
    struct front_request *request = front_request_of(router_request);
    struct http_request *req = request->req;
    ASSERT(!router_request->streamed && router_request->body.len == 0);
    *parked = (struct router_parked){on_resume, (void *)(uintptr_t)request->http, req};
    http_park(req, on_parked_gone); /* the arena, and so the request, is gone */
    req->user = parked;
}

static void on_client_left(struct http_request *req)
{
    struct front_request *request = front_request_get(req);
    ASSERT(request->req == req);
    atomic_store(&request->request.left, true);
}

static void request_watch(struct router_request *router_request)
{
    struct front_request *request = front_request_of(router_request);
    request->watched = true;
    if (http_is_gone(request->req)) /* too late for on_client_left */
        atomic_store(&router_request->left, true);
    else
        http_on_gone(request->req, on_client_left);
}

/* The sender of a long reply has the place of the request in `user` from here on. */
static void end_watch(struct front_request *request)
{
    if (request->watched)
        http_on_gone(request->req, NULL);
    request->watched = false;
}

static enum status request_room(struct router_request *router_request)
{
    struct http_request *req = front_request_of(router_request)->req;
    http_reply_payer(req, router_request->peer, router_request->payer);
    return http_reply_room(req);
}

static void request_hold(struct router_request *router_request, size_t bytes)
{
    struct http_request *req = front_request_of(router_request)->req;
    http_reply_payer(req, router_request->peer, router_request->payer);
    http_reply_hold(req, bytes);
}

static const struct reply_room front_room = {.find = request_room, .hold = request_hold};

static bool request_header_next(const struct router_request *request, const char *name, size_t *at,
                                struct bytes *ret_value)
{
    return http_header_next(front_request_of(request)->req, name, at, ret_value);
}

static void request_respond(struct router_request *request, struct router_reply *reply)
{
    struct http_request *req = front_request_of(request)->req;
    struct reply_stream *stream = reply->stream;
    ASSERT(stream == NULL || reply->file.file == NULL);
    ASSERT(reply->n_headers <= REPLY_HEADERS_MAX);

    end_watch(front_request_of(request));
    if (reply->retry == ST_OK && front_upgrade(front_request_of(request), reply))
        return;
    if (reply->retry != ST_OK) {
        ASSERT(request->forwarded);
        (void)reply_add_header(reply, request->arena, BYTES(RELAY_HEADER_RETRY),
                               /* without this header the router does not retry */
                               bytes_str(status_name(reply->retry)));
        reply->http = 503;
    }
    struct http_reply http_reply = {
        .status = reply->http,
        .content_type = reply->content_type,
        .headers = reply->headers,
        .n_headers = reply->n_headers,
        .body = reply_bytes(reply),
    };
    http_reply_payer(req, request->peer, request->payer);
    if (stream != NULL) {
        http_respond_begin(req, &http_reply, stream->length);
        stream->send(stream); /* last touch: it ends the reply */
        return;
    }
    if (reply->log.tail != NULL) {
        http_respond_begin(req, &http_reply, HTTP_LENGTH_UNKNOWN);
        log_stream_start(req, reply->log); /* last touch: it ends the reply */
        return;
    }
    if (reply->file.file != NULL) {
        http_respond_begin(req, &http_reply, reply->file.bytes);
        download_start(req, reply->file); /* last touch: it ends the reply */
        return;
    }
    http_keep(req, &reply->body);
    http_keep_shared(req, reply->shared);
    reply->shared = NULL;
    http_respond(req, &http_reply);
}

/* The body is the reply of the node that forwards the request: the request itself has none. */
static enum status take_answer_of_node(struct front_request *request, struct bytes text)
{
    struct router_request *to = &request->request;
    struct reply_answer *answer = arena_zalloc(to->arena, sizeof *answer);
    if (answer == NULL)
        return ST_NOMEM;
    ASSERT(to->forwarded && to->answer == NULL);
    TRY(relay_answer_parse(to->arena, text, answer));
    ASSERT(answer->kind != REPLY_NONE);
    if (to->streamed)
        return ST_INVALID;
    answer->data = to->body;
    to->body = (struct bytes){0};
    to->answer = answer;
    return ST_OK;
}

/* Read the headers in which another node describes the client it forwards for. */
static enum status read_peer_headers(struct front_request *request)
{
    struct bytes id = http_header(request->req, RELAY_HEADER_ID);
    struct bytes client = http_header(request->req, RELAY_HEADER_CLIENT);
    struct bytes answer = http_header(request->req, RELAY_HEADER_ANSWER);
    ASSERT(!request->request.forwarded);
    if (request->strange)
        return ST_INVALID;
    request->request.forwarded = true;
    request->request.again = http_header(request->req, RELAY_HEADER_AGAIN).len != 0;
    request->request.closed_ceremonies = http_header(request->req, RELAY_HEADER_CLOSED).len != 0;
    if (client.len != 0 && client.len < sizeof request->peer) {
        memcpy(request->peer, client.data, client.len);
        request->peer[client.len] = '\0';
    }
    if (http_header(request->req, RELAY_HEADER_OWN).len != 0)
        request->request.member = request->member;
    if (answer.len != 0)
        TRY(take_answer_of_node(request, answer));
    return id.len != 0 ? relay_id_parse(id, &request->request.id) : ST_OK;
}

/* Make the request when its head is complete; the body follows. NULL: no memory. */
static struct front_request *request_new(const struct front_http *http, struct http_request *req)
{
    struct front_request *request = arena_alloc(&req->arena, sizeof *request);
    struct path_target target;
    if (request == NULL || path_canonical(&req->arena, req->path, &target) != ST_OK)
        return NULL;
    *request = (struct front_request){
        .req = req,
        .http = http,
        .forwarder = http->forwarder,
        .request = {.method = req->method,
                    .target = target,
                    .query = req->query,
                    .arena = &req->arena,
                    .peer = request->peer,
                    .open_metrics = http->open_metrics,
                    .closed_ceremonies = http->closed_ceremonies,
                    .no_header = http_header_lens_absent(req),
                    .header_next = request_header_next,
                    .collect = request_collect,
                    .receive = request_receive,
                    .forward = request_forward,
                    .end_wait = request_end_wait,
                    .watch = request_watch,
                    .may_park = request_may_park,
                    .park = request_park,
                    .room = &front_room,
                    .respond = request_respond},
    };
    http_peer_text(req, request->peer);
    req->user = request;
    /* a header that a client sets has no meaning: the path decides */
    if (!http->peers)
        router_place(http->worker, &request->request, http->dialects);
    else if (!router_place_forwarded(http->worker, &request->request,
                                     http_header(req, RELAY_HEADER_API)))
        request->strange = true;
    return request;
}

/* Lift the limits of time and size for a route that may take long. True: the body streams. */
static bool give_room(const struct front_http *http, const struct front_request *request)
{
    uint64_t upload_bytes_max = 0;
    if (!router_is_long(http->worker, &request->request, &upload_bytes_max))
        return false;
    http_reply_within(request->req, 0);
    if (upload_bytes_max == 0)
        return false;
    http_limit_body(request->req, upload_bytes_max);
    http_stream_body(request->req, 0);
    return true;
}

/* Make the path canonical, once: every later decision about the request uses that form. */
static void on_head(void *ctx, struct http_request *req)
{
    const struct front_http *http = ctx;
    struct front_request *request = request_new(http, req);
    if (request == NULL)
        http_respond_status(req, ST_NOMEM, NULL);
    else if (!give_room(http, request))
        http_stream_body(req, ROUTER_UNJUDGED_BYTES_MAX);
}

/* The request lacks the header that a page of another site cannot add. */
static bool is_unmarked(const struct router_request *request)
{
    bool (*is_marked)(const struct router_request *) = request->dialect->is_marked;
    return is_marked != NULL && !is_marked(request);
}

/* The request is one that the listener serves: the path of another dialect may look the same. */
static bool is_only(const struct front_http *http, const struct front_request *request)
{
    if (request->req->method != METHOD_POST ||
        request->request.dialect != router_home(http->worker))
        return false;
    for (const char *const *path = http->only; *path != NULL; path++)
        if (text_is(request->request.target.path, *path))
            return true;
    return false;
}

/* Reply at once to a request that this listener does not serve. */
static void refuse_here(struct front_request *request, int status, const char *why)
{
    if (request->request.resumed != NULL)
        router_parked_drop(request->request.resumed);
    http_respond_error(request->req, status, why);
}

/* Check what does not depend on the body, and hand the request in. */
static void handle(const struct front_http *http, struct front_request *request)
{
    struct http_request *req = request->req;
    const struct path_target *target = &request->request.target;
    struct reason why;
    ASSERT(req->user == request && request->http == http);
    if (http->require_request_header && !http->peers && target->path.data != NULL &&
        is_unmarked(&request->request)) {
        refuse_here(request, 412, request->request.dialect->unmarked_text);
    } else if (http->only != NULL && !is_only(http, request)) {
        refuse_here(request, 403,
                    "without a certificate of the cluster only a request to join, or to become "
                    "a DR secondary, is served here");
    } else if (http->peers && !http->is_member(http, req, request->member)) {
        refuse_here(request, 503, "the node that sends this is no member of the cluster");
    } else if (!http->peers && client_addr_find(http->client, req, request->peer, &why) != ST_OK) {
        refuse_here(request, 400, why.text);
    } else if (http->peers && read_peer_headers(request) != ST_OK) {
        refuse_here(request, 400, "malformed headers of a forwarded request");
    } else if (http->peers || !front_greet(request)) {
        front_handle(http->worker, &request->request);
    }
}

static void on_request(void *ctx, struct http_request *req)
{
    const struct front_http *http = ctx;
    struct front_request *request = front_request_get(req);
    ASSERT(!http->peers || http->is_member != NULL);
    ASSERT(request->request.dialect != NULL);
    request->request.body = req->body;
    request->request.streamed = http_body_streams(req);
    request->request.body_length = http_body_length(req);
    handle(http, request);
}

/* Run a parked request again: from its head, as when it came. */
static void on_resume(struct router_parked *parked)
{
    const struct front_http *http = parked->transport;
    struct http_request *req = parked->request;
    ASSERT(req->user == parked);
    req->user = NULL;
    http_unpark(req);
    struct front_request *request = request_new(http, req);
    if (request == NULL) {
        router_parked_drop(parked);
        http_respond_status(req, ST_NOMEM, NULL);
        return;
    }
    request->request.resumed = parked;
    handle(http, request);
}

static const char *on_late(void *ctx, struct http_request *req, int *ret_status)
{
    (void)ctx; /* the request has all that is needed */
    if (router_give_up(&front_request_get(req)->request) == ST_TIMEOUT)
        return "no reply in time: nothing was changed";
    *ret_status = REPLY_LATE_HTTP;
    return status_text(ST_UNKNOWN_OUTCOME);
}

/* Write an error of the HTTP server; the request may not have been made yet. */
static const char *on_error(void *ctx, const struct http_request *req, int status,
                            struct bytes message, struct buf *out)
{
    const struct front_http *http = ctx;
    const struct front_request *request = req->user;
    const struct dialect *dialect = request != NULL          ? request->request.dialect
                                    : http->dialects != NULL ? http->dialects->home
                                                             : router_home(http->worker);
    char text[ERROR_TEXT_MAX];
    ASSERT(status >= 400 && message.len < sizeof text);
    (void)snprintf(text, sizeof text, "%.*s", (int)message.len,
                   /* the text fits, as asserted */
                   message.len != 0 ? (const char *)message.data : "");
    dialect->put_error(status, status == 413 ? dialect->body_too_long_text : text, out);
    if (out->len == 0 || out->data[out->len - 1] != '\n')
        buf_add(out, BYTES("\n"));
    return dialect->error_type;
}

const struct http_handler front_http_handler = {
    .head = on_head, .request = on_request, .late = on_late, .error = on_error};
