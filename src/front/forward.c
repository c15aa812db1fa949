/* Send a client's request to the active node, over the cluster port (PROTOCOL R18).
 *
 * The active node authenticates the request itself. From this node it takes the client's address,
 * the request id, the API for which the request came, whether a ceremony needs a token, and a reply
 * about this node (relay.h). */
#include "front/forward.h"
#include "front/front_request.h"
#include "http/unwritten.h"
#include "router/request/dialect.h"
#include "text/value.h"

#include <stdio.h>
#include <string.h>

enum {
    FORWARD_HEADERS_MAX = 6, /* headers that a node adds */
    TIMEOUT_MS_MAX = 720000, /* above the longest wait of a blocking request */
    /* A longer reply is streamed to the client, and holds a connection to the active node until the
     * client has read it. */
    REPLY_WHOLE_MAX = 2 * 1024 * 1024,
};

/* Headers about one connection, and headers that a client may not set. */
static bool hop_by_hop(struct bytes name)
{
    static const char *const names[] = {"connection",   "keep-alive", "proxy-connection",
                                        "te",           "trailer",    "transfer-encoding",
                                        "upgrade",      "expect",     "content-length",
                                        "cache-control"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (text_is(name, names[i]))
            return true;
    return bytes_has_prefix(name, BYTES(RELAY_PREFIX));
}

void forward_finish(struct forward *fw, enum status st)
{
    struct router_forward *f = fw->f;
    stream_body_end(fw);
    if (f->waits) {
        http_on_gone(fw->req, NULL);
        front_request_get(fw->req)->forward = NULL;
    }
    buf_done(&fw->http.reply);
    f->done(f, st); /* last touch: the arena, and so fw, may be gone */
}

void forward_end(struct forward *fw)
{
    ASSERT(fw->f->waits && !fw->over);
    http_client_cancel(&fw->http); /* closes the connection: the active node waits no more */
    fw->over = true;
    forward_finish(fw, ST_CLOSED);
}

static void on_waiter_gone(struct http_request *req)
{
    forward_end(front_request_get(req)->forward);
}

/* Copy the headers of the active node's reply. */
static enum status take_headers(struct forward *fw, struct router_reply *reply)
{
    struct arena *arena = fw->f->request->arena;
    ASSERT(reply->n_headers <= REPLY_HEADERS_MAX - REPLY_HEADERS_OWN);
    for (size_t i = 0; i < http_client_reply_header_count(&fw->http); i++) {
        struct http_header h = http_client_reply_header_at(&fw->http, i);
        bool type = text_is(h.name, "content-type");
        bool full = reply->n_headers == REPLY_HEADERS_MAX - REPLY_HEADERS_OWN;
        if (hop_by_hop(h.name) || (!type && full))
            continue;
        char *name = arena_str(arena, h.name), *value = arena_str(arena, h.value);
        if (name == NULL || value == NULL)
            return ST_NOMEM;
        if (type)
            reply->content_type = value;
        else
            TRY(reply_add_header(reply, arena, bytes_str(name), bytes_str(value)) ? ST_OK
                                                                                  : ST_NOMEM);
    }
    return ST_OK;
}

/* Take status and headers of the reply, or the status that the active node gives instead of one. */
static enum status take_head(struct forward *fw)
{
    struct router_reply *reply = &fw->f->reply;
    enum status retry = ST_OK;
    if (relay_retry_parse(http_client_reply_header(&fw->http, RELAY_HEADER_RETRY), &retry) != ST_OK)
        return ST_UNKNOWN_OUTCOME;
    TRY(retry);
    reply->http = fw->http.status;
    return take_headers(fw, reply) == ST_OK ? ST_OK : ST_UNKNOWN_OUTCOME;
}

static void on_done(struct http_client_request *request, enum status st)
{
    struct forward *fw = CONTAINER_OF(request, struct forward, http);
    ASSERT(!fw->over);
    fw->over = true;
    if (fw->down.send != NULL) {
        stream_reply_over(fw, st); /* last touch of the forward */
        return;
    }
    if (st == ST_OK)
        st = take_head(fw);
    if (st == ST_OK) {
        fw->f->reply.body = request->reply;
        request->reply = (struct buf){0};
    }
    forward_finish(fw, st);
}

/* Reply with an error in place of a long reply. */
static void refuse_reply(struct forward *fw, const char *why)
{
    struct router_reply *reply = &fw->f->reply;
    struct reason crowded;
    reason_set(&crowded, "%s", why);
    http_client_cancel(&fw->http);
    fw->over = true;
    *reply = (struct router_reply){0}; /* the headers lie in the arena */
    reply_error(reply, fw->f->request->dialect, ST_BUSY, &crowded);
}

/* The active node sends a reply that this node collects: count the memory before. */
static void on_length(struct http_client_request *request, uint64_t length)
{
    struct forward *fw = CONTAINER_OF(request, struct forward, http);
    const struct router_request *r = fw->f->request;
    ASSERT(length <= REPLY_WHOLE_MAX);
    if (length <= REPLY_UNHELD_MAX || !stream_is_read(fw))
        return;
    http_reply_payer(fw->req, r->peer, r->payer);
    if (http_reply_take(fw->req, (size_t)length) == ST_OK)
        return;
    refuse_reply(fw, "replies that clients have not read take too much memory");
    forward_finish(fw, ST_OK); /* last touch */
}

/* A long reply: pass each piece on to the client when it arrives. */
static void on_head(struct http_client_request *request)
{
    struct forward *fw = CONTAINER_OF(request, struct forward, http);
    ASSERT(!fw->over);
    ASSERT(!fw->down_begun);
    enum status st = take_head(fw);
    if (st == ST_OK && stream_reply_reserve(fw) != ST_OK) {
        refuse_reply(fw, "too many long replies pass through this node");
    } else if (st == ST_OK) {
        fw->f->reply.stream = stream_reply(fw);
    } else {
        http_client_cancel(request);
        fw->over = true;
    }
    forward_finish(fw, st);
}

static enum status build_headers(struct forward *fw)
{
    const struct router_request *request = fw->f->request;
    const struct http_request *req = front_request_of(request)->req;
    size_t n = http_header_count(req), used = 0;
    struct http_header *headers =
        arena_alloc(request->arena, (n + FORWARD_HEADERS_MAX) * sizeof *headers);
    if (headers == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < n; i++) {
        struct http_header h = http_header_at(req, i);
        if (!hop_by_hop(h.name))
            headers[used++] = h;
    }
    headers[used++] = (struct http_header){BYTES(RELAY_HEADER_CLIENT), bytes_str(request->peer)};
    if (request->foreign)
        headers[used++] =
            (struct http_header){BYTES(RELAY_HEADER_API), bytes_str(request->dialect->name)};
    if (request->closed_ceremonies)
        headers[used++] = (struct http_header){BYTES(RELAY_HEADER_CLOSED), BYTES("1")};
    if (fw->f->answer != NULL) {
        const char *text = relay_answer_text(request->arena, fw->f->answer);
        if (text == NULL)
            return ST_NOMEM;
        headers[used++] = (struct http_header){BYTES(RELAY_HEADER_ANSWER), bytes_str(text)};
    }
    static const struct rlog_request_id none;
    if (memcmp(fw->f->id.bytes, none.bytes, sizeof none.bytes) != 0) {
        relay_id_put(&fw->f->id, fw->id);
        headers[used++] = (struct http_header){BYTES(RELAY_HEADER_ID), bytes_str(fw->id)};
        fw->http.repeatable = fw->http.once =
            true; /* the router repeats the request, and marks the second try */
        if (fw->f->again)
            headers[used++] = (struct http_header){BYTES(RELAY_HEADER_AGAIN), BYTES("1")};
    }
    ASSERT(used <= n + FORWARD_HEADERS_MAX);
    fw->http.headers = headers;
    fw->http.n_headers = used;
    return ST_OK;
}

/* Encode the canonical path so that the active node decodes the same canonical path. */
static enum status build_path(struct forward *fw)
{
    const struct router_request *request = fw->f->request;
    TRY(path_encode(request->arena, &request->target, &fw->http.path));
    if (request->query.data == NULL)
        return ST_OK;
    struct bytes path = fw->http.path;
    ASSERT(path.len != 0);
    size_t len = path.len + 1 + request->query.len;
    uint8_t *text = arena_alloc(request->arena, len);
    if (text == NULL)
        return ST_NOMEM;
    memcpy(text, path.data, path.len);
    text[path.len] = '?';
    if (request->query.len != 0)
        memcpy(text + path.len + 1, request->query.data, request->query.len);
    fw->http.path = bytes_of(text, len);
    return ST_OK;
}

static enum status build(struct forward *fw, uint64_t now_ms)
{
    const struct router_forward *f = fw->f;
    ASSERT(!f->request->forwarded);
    ASSERT(f->answer == NULL || !f->request->streamed);
    uint64_t left_ms = f->deadline_ms - MIN(f->deadline_ms, now_ms);
    fw->http = (struct http_client_request){
        .method = f->request->method,
        .body = f->answer != NULL ? f->answer->data : f->request->body,
        .stream_body = f->request->streamed,
        .body_length = http_body_length(fw->req),
        .timeout_ms = (uint32_t)MIN(MAX(left_ms, (uint64_t)1), (uint64_t)TIMEOUT_MS_MAX),
        .whole_max = REPLY_WHOLE_MAX,
        .on_head = on_head,
        .on_length = on_length,
        .done = on_done,
    };
    TRY(build_headers(fw));
    return build_path(fw);
}

static void on_refused(struct env_task *task)
{
    struct router_forward *f = CONTAINER_OF(task, struct router_forward, task);
    f->done(f, f->refusal);
}

static void refuse(struct router_forward *f, enum status st)
{
    ASSERT(st != ST_OK);
    f->refusal = st;
    f->task = (struct env_task){.run = on_refused};
    env_post(f->env, &f->task);
}

void forward_start(const struct forwarder *forwarder, struct router_forward *f)
{
    struct forward *fw = arena_zalloc(f->request->arena, sizeof *fw);
    struct mesh_identity leader = *node_identity(forwarder->node);
    struct node_status status;
    char uri[MESH_URI_MAX];
    ASSERT(!f->body_taken);
    if (fw == NULL) {
        refuse(f, ST_NO_LEADER);
        return;
    }
    node_status_get(forwarder->node, &status);
    fw->f = f;
    fw->forwarder = forwarder;
    fw->req = front_request_of(f->request)->req;
    enum status st =
        status.leader_cluster[0] != '\0' ? build(fw, env_mono_ms(f->env)) : ST_NO_LEADER;
    if (st == ST_OK && f->request->streamed)
        st = stream_body_reserve(fw);
    if (st != ST_OK) {
        refuse(f, st == ST_BUSY ? ST_BUSY : ST_NO_LEADER);
        return;
    }
    /* cannot be cut: both texts are bounded */
    (void)snprintf(leader.name, sizeof leader.name, "%s", status.leader_name);
    mesh_uri(&leader, uri);
    struct http_target target = {
        .address = status.leader_cluster, .tls = node_tls(forwarder->node), .uri = uri};
    bool waits = f->waits && forwarder->waits != NULL;
    http_client_send(waits ? forwarder->waits : forwarder->client, &target, &fw->http);
    if (f->waits) {
        front_request_get(fw->req)->forward = fw;
        http_on_gone(fw->req, on_waiter_gone);
    }
    if (f->request->streamed)
        stream_body_begin(fw);
}
