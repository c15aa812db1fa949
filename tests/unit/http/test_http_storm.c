/* Many clients send many requests at once: at the end no connection and no memory is left. */
#include "http/harness.h"

#include <stdlib.h>

enum { CLIENTS = 6, ROUNDS = 100 };

static void piece(struct http_request *req, enum status st, struct bytes piece, bool last);

static void next_piece(struct http_request *req, enum status st)
{
    if (st == ST_OK && req->user == NULL)
        http_body_next(req, piece);
    else
        http_respond_end(req, st == ST_OK);
}

static void piece(struct http_request *req, enum status st, struct bytes piece, bool last)
{
    static const uint8_t reply[5000];
    (void)piece; /* of no interest */
    req->user = last || st != ST_OK ? req : NULL;
    http_respond_piece(req, bytes_of(reply, sizeof reply), next_piece);
}

struct job {
    struct env_work work;
    struct http_request *req;
};

static void job_run(struct env_work *work)
{
    (void)work; /* slow work would be done here */
}

static void job_done(struct env_work *work)
{
    http_respond_error(CONTAINER_OF(work, struct job, work)->req, 404, "worked");
}

static void on_head(void *ctx, struct http_request *req)
{
    (void)ctx; /* stateless */
    if (bytes_eq(req->path, BYTES("/stream")))
        http_stream_body(req, 0);
}

static void on_request(void *ctx, struct http_request *req)
{
    struct harness *harness = ctx;
    if (bytes_eq(req->path, BYTES("/stream"))) {
        http_respond_begin(req, &(struct http_reply){.status = 200}, HTTP_LENGTH_UNKNOWN);
        http_body_next(req, piece);
        return;
    }
    struct job *job =
        bytes_eq(req->path, BYTES("/job")) ? arena_zalloc(&req->arena, sizeof *job) : NULL;
    if (job == NULL) {
        http_respond(req, &(struct http_reply){.status = 200, .body = req->body});
        return;
    }
    *job = (struct job){{.run = job_run, .done = job_done, .lane = LANE_POOL}, req};
    env_work(harness->env, &job->work);
}

static const struct http_handler handler = {.head = on_head, .request = on_request};

static struct harness h;

static const char *const texts[] = {
    "GET /job HTTP/1.1\r\n" HOST "\r\n",
    "GET /a HTTP/1.1\r\n" HOST "\r\n",
    "PUT /a HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\n0123456789",
    "PUT /stream HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\n0123456789",
    "PUT /stream HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "PUT /stream HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    "GET /a HTTP/1.0\r\n\r\n",
    "HEAD /job HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
    "GARBAGE\r\n\r\n",
    "PUT /stream HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabcX",
    "PUT /a HTTP/1.1\r\n" HOST "Content-Length: 100000000\r\n\r\n",
    "LIST /a HTTP/1.1\r\n" HOST "\r\n",
};

/* One connection: some requests in some pieces, some reading, some way to leave. */
static void misbehave(unsigned *seed)
{
    static _Thread_local char out[4000];
    struct timeval brief = {.tv_usec = 2000};
    int fd = dial(&h), n = rand_r(seed) % 8;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief) != 0)
        abort();
    for (int i = 0; i < n; i++) {
        struct bytes text = bytes_str(texts[(size_t)rand_r(seed) % ARRAY_LEN(texts)]);
        size_t cut = (size_t)rand_r(seed) % (text.len + 1);
        (void)say(fd, bytes_of(text.data, cut));
        if (rand_r(seed) % 3 == 0)
            (void)TEMP_FAILURE_RETRY(recv(fd, out, (size_t)rand_r(seed) % sizeof out, 0));
        if (rand_r(seed) % 20 != 0)
            (void)say(fd, bytes_from(text, cut));
    }
    struct linger reset = {.l_onoff = 1};
    if (rand_r(seed) % 3 == 0)
        (void)shutdown(fd, SHUT_WR);
    if (rand_r(seed) % 2 == 0)
        (void)hear(fd, out, sizeof out, NULL);
    if (rand_r(seed) % 4 == 0 && setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) != 0)
        abort();
    (void)close(fd);
}

static void *client_main(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < ROUNDS; i++)
        misbehave(&seed);
    return NULL;
}

static void run_clients(uintptr_t seed)
{
    pthread_t clients[CLIENTS];
    for (uintptr_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, client_main, (void *)(seed + i)), 0);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(clients[i], NULL), 0);
}

/* Storms go on until they meant something: on a busy machine, clients hang up before they are read.
 */
static void storm(const struct http_limits *limits)
{
    enum { STORMS_MAX = 20 };
    struct http_counters n = {0};
    unsigned storms = 0;
    harness_up(&h, &handler, limits, NULL);
    while (storms < STORMS_MAX && (n.requests <= 50 || n.rejected == 0)) {
        run_clients(1 + (uintptr_t)storms++ * CLIENTS);
        http_server_counters(h.server, &n);
    }
    unsigned all = storms * CLIENTS * ROUNDS; /* the last may still wait to be accepted */
    for (int i = 0; i < 60000 && (n.connections_open != 0 || n.connections_accepted < all); i++) {
        usleep(1000);
        http_server_counters(h.server, &n);
    }
    assert_int_equal(n.connections_open, 0);
    assert_int_equal(n.connections_accepted, all);
    assert_true(n.requests > 50 && n.rejected > 0);
    harness_down(&h); /* returns: no request was left unanswered */
}

static void a_storm_leaves_nothing_behind(void **ctx)
{
    struct http_limits limits = http_limits_default;
    (void)ctx; /* no state */
    limits.linger_ms = 20;
    limits.idle_ms = 300;
    storm(&limits);
}

static void a_storm_on_few_connections_leaves_nothing_behind(void **ctx)
{
    struct http_limits limits = http_limits_default;
    (void)ctx; /* no state */
    limits.connections_max = limits.connections_share = 3;
    limits.linger_ms = 5;
    limits.idle_ms = 50;
    limits.header_ms = 30;
    limits.rate_window_ms = 20;
    storm(&limits);
}

static void *drain_main(void *arg)
{
    (void)arg; /* static */
    usleep(50000);
    h.stop_task.run = harness_stop;
    env_post(h.env, &h.stop_task);
    return NULL;
}

/* A client that may be refused. */
static void *late_main(void *arg)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons((uint16_t)(uintptr_t)arg)};
    char out[200];
    for (int i = 0; i < 300; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct timeval brief = {.tv_usec = 2000};
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief) != 0)
            abort();
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) {
            (void)say(fd, bytes_str(texts[(size_t)i % ARRAY_LEN(texts)]));
            (void)TEMP_FAILURE_RETRY(recv(fd, out, sizeof out, 0));
        }
        (void)close(fd);
    }
    return NULL;
}

static void draining_in_a_storm_ends(void **ctx)
{
    pthread_t clients[CLIENTS], drainer;
    (void)ctx; /* no state */
    harness_up(&h, &handler, NULL, NULL);
    uintptr_t port = http_server_port(h.server);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, late_main, (void *)port), 0);
    assert_int_equal(pthread_create(&drainer, NULL, drain_main, NULL), 0);
    assert_int_equal(pthread_join(drainer, NULL), 0);
    harness_join(&h);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(clients[i], NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_storm_leaves_nothing_behind),
        cmocka_unit_test(a_storm_on_few_connections_leaves_nothing_behind),
        cmocka_unit_test(draining_in_a_storm_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
