#include "http/with_server.h"

#include "http/counters.h"
#include "http/park.h"

#include <stdlib.h>

enum { PIECE = 10000 };

/* What the server's thread does with requests. */

static struct http_request *held;
atomic_int gone_requests, stream_status;

struct job {
    struct env_work work;
    struct http_request *req;
};

static void job_run(struct env_work *work)
{
    (void)work; /* slow work would be done here */
}

static void respond_text(struct http_request *req, struct bytes text)
{
    struct http_reply reply = {.status = 200, .content_type = "text/plain", .body = text};
    http_respond(req, &reply);
}

/* From the arena, which may have been out of memory. */
static void respond_made(struct http_request *req, const char *text)
{
    if (text != NULL)
        respond_text(req, bytes_str(text));
    else
        http_respond_status(req, ST_NOMEM, NULL);
}

static void job_done(struct env_work *work)
{
    respond_text(CONTAINER_OF(work, struct job, work)->req, BYTES("worked\n"));
}

static void on_gone(struct http_request *req)
{
    atomic_fetch_add(&gone_requests, 1);
    if (req == held)
        held = NULL;
    respond_text(req, BYTES("nobody hears this"));
}

struct flow {
    uint64_t left;
    uint8_t piece[PIECE];
};

static void flow_next(struct http_request *req, enum status st)
{
    struct flow *flow = req->user;
    if (st != ST_OK || flow->left == 0) {
        http_respond_end(req, st == ST_OK);
        return;
    }
    size_t n = (size_t)MIN(flow->left, PIECE);
    flow->left -= n;
    memset(flow->piece, 'f', n);
    http_respond_piece(req, bytes_of(flow->piece, n), flow_next);
}

static void flow_begin(struct http_request *req, uint64_t n, uint64_t length)
{
    struct http_reply reply = {.status = 200, .body = BYTES("first")};
    struct flow *flow = arena_zalloc(&req->arena, sizeof *flow);
    assert_non_null(flow);
    flow->left = n;
    req->user = flow;
    http_respond_begin(req, &reply, length);
    flow_next(req, ST_OK);
}

static void drip_piece(struct http_request *req, enum status st, struct bytes piece, bool last)
{
    uint64_t *sum = req->user;
    for (size_t i = 0; i < piece.len; i++)
        *sum += piece.data[i];
    if (st != ST_OK) {
        atomic_store(&stream_status, (int)st);
        http_respond_status(req, st, NULL);
    } else if (last) {
        char *text = arena_format(&req->arena, "sum %llu\n", (unsigned long long)*sum);
        respond_made(req, text);
    } else {
        http_body_next(req, drip_piece);
    }
}

/* Whole up to a length, in pieces above it. */
static void long_body(struct http_request *req)
{
    static uint64_t sum;
    sum = 0;
    req->user = &sum;
    if (http_body_streams(req)) {
        assert_int_equal(req->body.len, 0);
        http_body_next(req, drip_piece);
        return;
    }
    respond_made(req, arena_format(&req->arena, "whole %zu announced %lld\n", req->body.len,
                                   (long long)http_body_length(req)));
}

static void respond_big(struct http_request *req, size_t n)
{
    uint8_t *body = arena_alloc(&req->arena, n);
    assert_non_null(body);
    memset(body, 'b', n);
    respond_text(req, bytes_of(body, n));
}

static void respond_evil(struct http_request *req)
{
    struct http_header headers[] = {{BYTES("X-Good"), BYTES("yes")},
                                    {BYTES("X-Evil"), BYTES("a\r\nX-Split: b")},
                                    {BYTES("date"), BYTES("Thu, 01 Jan 1970 00:00:00 GMT")},
                                    {BYTES("Content-Length"), BYTES("7")}};
    struct http_reply reply = {
        .status = 200, .headers = headers, .n_headers = ARRAY_LEN(headers), .body = BYTES("ok")};
    http_respond(req, &reply);
}

static void respond_job(struct harness *of, struct http_request *req)
{
    struct job *job = arena_zalloc(&req->arena, sizeof *job);
    assert_non_null(job);
    *job = (struct job){{.run = job_run, .done = job_done, .lane = LANE_POOL}, req};
    env_work(of->env, &job->work);
}

static void respond_peer(struct http_request *req)
{
    char peer[HTTP_PEER_TEXT];
    http_peer_text(req, peer);
    char *text =
        arena_format(&req->arena, "peer %s %s\n", peer, http_is_tls(req) ? "tls" : "clear");
    respond_made(req, text);
}

static void respond_about(struct http_request *req)
{
    struct bytes token = http_header(req, "X-Vault-Token");
    char *text = arena_format(
        &req->arena, "%s %.*s?%.*s token=%.*s body=%zu\n", http_method_name(req->method),
        (int)req->path.len, (const char *)req->path.data, (int)req->query.len,
        (const char *)req->query.data, (int)token.len, (const char *)token.data, req->body.len);
    respond_made(req, text);
}

static void release_held(void)
{
    struct http_request *req = held;
    held = NULL;
    if (req != NULL)
        respond_text(req, BYTES("released\n"));
}

/* Uses the arena before and after. */
static void park(struct http_request *req)
{
    assert_non_null(arena_alloc(&req->arena, 100000));
    if (!http_may_park(req)) {
        respond_text(req, BYTES("not parked\n"));
        return;
    }
    http_park(req, on_gone);
    assert_null(req->arena.blocks);
    assert_null(req->user);
    held = req;
}

static void unpark(struct http_request *req)
{
    struct http_request *parked = held;
    held = NULL;
    if (parked != NULL) {
        http_unpark(parked);
        respond_about(parked);
    }
    respond_text(req, BYTES("did\n"));
}

static bool path_is(const struct http_request *req, const char *path)
{
    return bytes_eq(req->path, bytes_str(path));
}

static uint64_t query_number(const struct http_request *req)
{
    char text[24] = "";
    memcpy(text, req->query.data, MIN(req->query.len, sizeof text - 1));
    return strtoull(text, NULL, 10);
}

static void on_head(void *ctx, struct http_request *req)
{
    (void)ctx; /* stateless */
    if (path_is(req, "/drip"))
        http_stream_body(req, 0);
    if (path_is(req, "/long"))
        http_stream_body(req, 1000);
    if (path_is(req, "/small"))
        http_limit_body(req, 10);
    if (path_is(req, "/early"))
        http_respond_error(req, 403, "permission denied");
}

static void on_request(void *ctx, struct http_request *req)
{
    static uint64_t sum;
    if (path_is(req, "/echo"))
        respond_text(req, req->body);
    else if (path_is(req, "/hold")) {
        held = req;
        http_on_gone(req, on_gone);
    } else if (path_is(req, "/park")) {
        park(req);
    } else if (path_is(req, "/unpark")) {
        unpark(req);
    } else if (path_is(req, "/release")) {
        release_held();
        respond_text(req, BYTES("did\n"));
    } else if (path_is(req, "/big"))
        respond_big(req, (size_t)query_number(req));
    else if (path_is(req, "/flow"))
        flow_begin(req, query_number(req), HTTP_LENGTH_UNKNOWN);
    else if (path_is(req, "/flowlen"))
        flow_begin(req, query_number(req), query_number(req) + 5);
    else if (path_is(req, "/flowshort"))
        flow_begin(req, query_number(req), query_number(req) + 6);
    else if (path_is(req, "/drip")) {
        sum = 0;
        req->user = &sum;
        http_body_next(req, drip_piece);
    } else if (path_is(req, "/long")) {
        long_body(req);
    } else if (path_is(req, "/evil"))
        respond_evil(req);
    else if (path_is(req, "/job"))
        respond_job(ctx, req);
    else if (path_is(req, "/peer"))
        respond_peer(req);
    else if (path_is(req, "/none"))
        http_respond(req, &(struct http_reply){.status = 204});
    else if (path_is(req, "/missing"))
        http_respond_error(req, 404, NULL);
    else if (path_is(req, "/quote"))
        http_respond_error(req, 400, "1 error occurred:\n\t* \"x\\y\" \x01\n\n");
    else
        respond_about(req);
}

const struct http_handler server_handler = {.head = on_head, .request = on_request};

struct harness h;

int server_setup(void **ctx)
{
    (void)ctx; /* one at a time, static */
    atomic_store(&gone_requests, 0);
    atomic_store(&stream_status, 0);
    harness_up(&h, &server_handler, NULL, NULL);
    return 0;
}

int server_teardown(void **ctx)
{
    (void)ctx; /* static */
    harness_down(&h);
    return 0;
}

char *talk(struct bytes in)
{
    static char out[256 * 1024];
    int fd = dial(&h);
    (void)say(fd, in); /* a refusal may come before all of it is taken */
    (void)hear(fd, out, sizeof out, NULL);
    (void)close(fd);
    return out;
}

size_t undate(char *text)
{
    static const char name[] = "\r\nDate: ";
    size_t n = 0;
    for (char *at = text; (at = strstr(at, name)) != NULL; n++) {
        at += strlen(name);
        memset(at, 'x', strcspn(at, "\r"));
    }
    return n;
}

void assert_has(const char *text, const char *word)
{
    if (strstr(text, word) == NULL)
        print_error("\"%s\" is not in:\n%.2000s\n", word, text);
    assert_non_null(strstr(text, word));
}

void await_no_connection(void)
{
    struct http_counters n = {.connections_open = 1};
    for (int i = 0; i < 60000 && n.connections_open != 0; i++) {
        usleep(1000);
        http_server_counters(h.server, &n);
    }
    assert_int_equal(n.connections_open, 0);
}
