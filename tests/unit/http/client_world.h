/* The HTTP client with a server of our own: requests, and their outcome. */
#ifndef HOLDFAST_TESTS_UNIT_HTTP_CLIENT_WORLD_H
#define HOLDFAST_TESTS_UNIT_HTTP_CLIENT_WORLD_H

#include "crypto/tls_pair.h"

#include "http/harness.h"

#include "http/client.h"

/* Our server */

struct mirror {
    struct http_request *req;
    struct buf piece;
    bool last;
};

static inline void mirror_sent(struct http_request *req, enum status st);

static inline void mirror_piece(struct http_request *req, enum status st, struct bytes piece,
                                bool last)
{
    struct mirror *m = req->user;
    m->last = last || st != ST_OK;
    buf_clear(&m->piece);
    buf_add(&m->piece, piece);
    http_respond_piece(req, buf_bytes(&m->piece), mirror_sent);
}

/* Send the body back as it comes. */
static inline void mirror_sent(struct http_request *req, enum status st)
{
    struct mirror *m = req->user;
    if (st == ST_OK && !m->last) {
        http_body_next(req, mirror_piece);
        return;
    }
    buf_done(&m->piece);
    http_respond_end(req, st == ST_OK);
}

static inline void on_head(void *ctx, struct http_request *req)
{
    (void)ctx; /* stateless */
    if (bytes_eq(req->path, BYTES("/mirror")))
        http_stream_body(req, 0);
}

static inline void on_request(void *ctx, struct http_request *req)
{
    static const struct http_header headers[] = {
        {{(const uint8_t *)"X-Answer", 8}, {(const uint8_t *)"forty-two", 9}}};
    (void)ctx; /* stateless */
    struct http_reply reply = {.status = 200,
                               .content_type = "text/plain",
                               .headers = headers,
                               .n_headers = 1,
                               .body = req->body};
    if (bytes_eq(req->path, BYTES("/mirror"))) {
        req->user = arena_zalloc(&req->arena, sizeof(struct mirror));
        http_respond_begin(req, &(struct http_reply){.status = 200}, HTTP_LENGTH_UNKNOWN);
        http_body_next(req, mirror_piece);
        return;
    }
    if (bytes_eq(req->path, BYTES("/none")))
        reply = (struct http_reply){.status = 204};
    if (bytes_eq(req->path, BYTES("/about"))) {
        char *text = arena_format(
            &req->arena, "%s ?%.*s host=%.*s te=%.*s", http_method_name(req->method),
            (int)req->query.len, (const char *)req->query.data, (int)http_header(req, "host").len,
            (const char *)http_header(req, "host").data, (int)http_header(req, "te").len,
            (const char *)http_header(req, "te").data);
        reply.body = bytes_str(text);
    }
    http_respond(req, &reply);
}

static const struct http_handler handler = {.head = on_head, .request = on_request};

/* The client's side: an env of the test's own thread. */

static struct env *env;
static struct http_client *client;
static struct harness h;
static char address[64];
static size_t outstanding;

struct trial {
    struct http_client_request request;
    enum status st;
    bool done;
    char reply[32], body[256];
    size_t body_len;
    struct buf keep;
};

static inline void on_done(struct http_client_request *request, enum status st)
{
    struct trial *t = CONTAINER_OF(request, struct trial, request);
    assert_false(t->done);
    t->done = true;
    t->st = st;
    if (st == ST_OK && request->on_head == NULL) {
        struct bytes reply = http_client_reply_header(request, "X-Answer");
        if (reply.len != 0)
            memcpy(t->reply, reply.data, MIN(reply.len, sizeof t->reply - 1));
        t->body_len = request->reply.len;
        if (request->reply.len != 0)
            memcpy(t->body, request->reply.data, MIN(request->reply.len, sizeof t->body - 1));
    }
    buf_done(&request->reply);
    ASSERT(outstanding > 0);
    if (--outstanding == 0)
        loop_stop(env);
}

static inline struct trial get(const char *path)
{
    return (struct trial){.request = {.method = METHOD_GET,
                                      .path = bytes_str(path),
                                      .repeatable = true,
                                      .timeout_ms = 120000,
                                      .done = on_done}};
}

static inline void start(struct trial *t, const struct http_target *target)
{
    outstanding++;
    http_client_send(client, target, &t->request);
    assert_false(t->done); /* never from inside */
}

static inline void run(struct trial *t, const struct http_target *target)
{
    start(t, target);
    loop_run(env);
    assert_true(t->done);
}

static inline struct http_target here(void)
{
    return (struct http_target){.address = address};
}

static inline void on_closed(void *ctx)
{
    (void)ctx; /* the only client */
    loop_stop(env);
}

static inline int setup(void **ctx)
{
    (void)ctx; /* static */
    outstanding = 0;
    harness_up(&h, &handler, NULL, NULL);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", http_server_port(h.server)); /* fits */
    assert_status(loop_new(NULL, &env), ST_OK);
    assert_status(http_client_new(env, &client), ST_OK);
    return 0;
}

static inline int teardown(void **ctx)
{
    (void)ctx; /* static */
    http_client_close(client, on_closed, NULL);
    loop_run(env);
    http_client_free(client);
    loop_free(env);
    harness_down(&h);
    return 0;
}

static inline struct http_client_counters counters(void)
{
    struct http_client_counters n;
    http_client_counters(client, &n);
    return n;
}

static inline void limit(size_t connections, size_t waiting)
{
    struct http_client_limits limits = http_client_limits_default;
    limits.connections_max = connections;
    limits.waiting_max = waiting;
    limits.connect_ms = 100;
    http_client_limit(client, &limits);
}

static inline uint64_t server_bytes_out(void)
{
    struct http_counters n;
    http_server_counters(h.server, &n);
    return n.bytes_out;
}

static uint64_t reply_from; /* what the server had sent before; 0: it is not waited for */

static inline void hold_up(struct env_task *task)
{
    (void)task; /* the loop's thread does something else for long */
    (void)usleep(300 * 1000);
    for (int i = 0; i < 60000 && reply_from != 0 && server_bytes_out() == reply_from; i++)
        (void)usleep(1000); /* on a busy machine the server has not had its turn yet */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
