/* Requests that go on to the active node: the same request, over the cluster port (PROTOCOL R18).
 *
 * The active node authenticates the request itself; it believes this node about the client's
 * address and the request id alone. */
#include "http/client.h"
#include "main.h"
#include "text/value.h"

#include <stdio.h>
#include <string.h>

struct forward {
    struct http_call http;
    struct router_forward *f;
    char id[ROUTER_ID_TEXT];
};

/* They speak of the connection they came by, or are not a client's to say. */
static bool hop_by_hop(struct bytes name)
{
    static const char *const names[] = {"connection",   "keep-alive", "proxy-connection",
                                        "te",           "trailer",    "transfer-encoding",
                                        "upgrade",      "expect",     "content-length",
                                        "cache-control"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (text_is(name, names[i]))
            return true;
    return bytes_has_prefix(name, BYTES("x-holdfast-"));
}

static struct worker *worker_of(struct server *s, const struct env *env)
{
    for (unsigned i = 0; i < ARRAY_LEN(s->workers); i++)
        if (s->workers[i].env == env)
            return &s->workers[i];
    ASSERT(env == NULL);
    return NULL;
}

static void finish(struct forward *fw, enum status st)
{
    struct router_forward *f = fw->f;
    buf_done(&fw->http.reply);
    f->done(f, st); /* last touch: the arena, and so fw, may be gone */
}

/* Headers that answers of ours carry besides the body's type. */
static enum status take_headers(struct forward *fw, struct router_answer *answer)
{
    struct arena *arena = fw->f->call->arena;
    for (size_t i = 0; i < http_call_header_count(&fw->http); i++) {
        struct http_header h = http_call_header_at(&fw->http, i);
        bool type = text_is(h.name, "content-type");
        if (hop_by_hop(h.name) || (!type && answer->n_headers == ANSWER_HEADERS_MAX))
            continue;
        char *name = arena_str(arena, h.name), *value = arena_str(arena, h.value);
        if (name == NULL || value == NULL)
            return ST_NOMEM;
        if (type)
            answer->content_type = value;
        else
            answer->headers[answer->n_headers++] =
                (struct http_header){bytes_str(name), bytes_str(value)};
    }
    return ST_OK;
}

static void on_done(struct http_call *call, enum status st)
{
    struct forward *fw = CONTAINER_OF(call, struct forward, http);
    struct router_answer *answer = &fw->f->answer;
    enum status retry = ST_OK;
    if (st == ST_OK &&
        router_retry_parse(http_call_header(call, ROUTER_HEADER_RETRY), &retry) != ST_OK)
        st = ST_UNKNOWN_OUTCOME;
    if (st == ST_OK)
        st = retry;
    if (st == ST_BUSY)
        st = ST_NO_LEADER; /* not a byte was sent */
    if (st == ST_OK) {
        answer->http = call->status;
        st = take_headers(fw, answer) == ST_OK ? ST_OK : ST_UNKNOWN_OUTCOME;
    }
    if (st == ST_OK) {
        answer->body = call->reply;
        call->reply = (struct buf){0};
    }
    finish(fw, st);
}

static enum status build_headers(struct forward *fw)
{
    const struct router_call *call = fw->f->call;
    const struct http_request *req = router_http_request(call);
    size_t n = http_header_count(req), used = 0;
    struct http_header *headers = arena_alloc(call->arena, (n + 3) * sizeof *headers);
    if (headers == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < n; i++) {
        struct http_header h = http_header_at(req, i);
        if (!hop_by_hop(h.name))
            headers[used++] = h;
    }
    headers[used++] = (struct http_header){BYTES(ROUTER_HEADER_CLIENT), bytes_str(call->peer)};
    static const struct rlog_request_id none;
    if (memcmp(fw->f->id.bytes, none.bytes, sizeof none.bytes) != 0) {
        router_id_put(&fw->f->id, fw->id);
        headers[used++] = (struct http_header){BYTES(ROUTER_HEADER_ID), bytes_str(fw->id)};
        fw->http.repeatable = fw->http.once = true; /* a second try has to say that it is one */
        if (fw->f->again)
            headers[used++] = (struct http_header){BYTES(ROUTER_HEADER_AGAIN), BYTES("1")};
    }
    fw->http.headers = headers;
    fw->http.n_headers = used;
    return ST_OK;
}

static enum status build_path(struct forward *fw)
{
    const struct router_call *call = fw->f->call;
    if (call->query.data == NULL) {
        fw->http.path = call->path;
        return ST_OK;
    }
    size_t len = call->path.len + 1 + call->query.len;
    uint8_t *path = arena_alloc(call->arena, len);
    if (path == NULL)
        return ST_NOMEM;
    memcpy(path, call->path.data, call->path.len);
    path[call->path.len] = '?';
    if (call->query.len != 0)
        memcpy(path + call->path.len + 1, call->query.data, call->query.len);
    fw->http.path = bytes_of(path, len);
    return ST_OK;
}

static void on_refused(struct env_task *task)
{
    struct router_forward *f = CONTAINER_OF(task, struct router_forward, task);
    f->done(f, f->refusal);
}

static void refuse(struct env *env, struct router_forward *f, enum status st)
{
    f->refusal = st;
    f->task = (struct env_task){.run = on_refused};
    env_post(env, &f->task);
}

void forward_start(struct router_host *host, struct env *env, struct router_forward *f)
{
    struct server *s = CONTAINER_OF(host, struct server, host);
    struct worker *w = worker_of(s, env);
    struct forward *fw = arena_zalloc(f->call->arena, sizeof *fw);
    struct mesh_identity leader = *node_identity(s->node);
    struct node_status status;
    char uri[MESH_URI_MAX];
    if (fw == NULL) {
        refuse(env, f, ST_NO_LEADER);
        return;
    }
    node_status_get(s->node, &status);
    fw->f = f;
    fw->http =
        (struct http_call){.method = f->call->method, .body = f->call->body, .done = on_done};
    enum status st = status.leader_cluster[0] != '\0' ? ST_OK : ST_NO_LEADER;
    if (st == ST_OK)
        st = build_headers(fw);
    if (st == ST_OK)
        st = build_path(fw);
    if (st != ST_OK) {
        refuse(env, f, ST_NO_LEADER);
        return;
    }
    uint64_t now = env_mono_ms(env);
    fw->http.timeout_ms = f->deadline_ms > now ? (uint32_t)MIN(f->deadline_ms - now, 600000u) : 1;
    (void)snprintf(leader.name, sizeof leader.name, "%s", status.leader_name); /* bounded */
    mesh_uri(&leader, uri);
    struct http_target target = {
        .address = status.leader_cluster, .tls = node_tls(s->node), .uri = uri};
    http_call_send(w->client, &target, &fw->http);
}
