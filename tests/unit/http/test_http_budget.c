/* Budgets of memory and connections: one client cannot take the share of other clients. */
#include "base/mem.h"
#include "http/budget.h"
#include "http/harness.h"
#include "loop/lane.h"

#include <stdlib.h>

enum { CLIENTS = 300, STEPS = 20000, BODY = 200 * 1024 };

static struct http_budget budget;
static struct harness h;
static struct env *env;

static struct ip v4(unsigned last)
{
    const uint8_t bytes[4] = {10, 0, (uint8_t)(last >> 8), (uint8_t)last};
    return ip_of(bytes, sizeof bytes);
}

static void budget_open(size_t total, size_t share, size_t clients_max)
{
    const struct http_budget_options options = {total, share, clients_max};
    assert_int_equal(loop_new(NULL, &env), ST_OK);
    assert_int_equal(http_budget_init(&budget, env, &options), ST_OK);
}

static void budget_close(void)
{
    http_budget_done(&budget);
    loop_free(env);
}

static void a_budget_keeps_its_total_and_each_share(void **ctx)
{
    size_t held[CLIENTS] = {0}, used = 0, clients = 0;
    unsigned x = 1;
    (void)ctx; /* static */
    budget_open(1000, 300, 40);
    for (int i = 0; i < STEPS; i++) {
        x = x * 1664525 + 1013904223;
        unsigned c = (x >> 8) % CLIENTS;
        size_t n = (x >> 20) % 120 + 1;
        struct ip ip = v4(c);
        if (x >> 31 != 0 && held[c] != 0) {
            n = MIN(n, held[c]);
            http_budget_give(&budget, &ip, n);
            held[c] -= n;
            used -= n;
            clients -= held[c] == 0;
        } else {
            bool fits = used + n <= 1000 && held[c] + n <= 300 && (held[c] != 0 || clients < 40);
            assert_int_equal(http_budget_take(&budget, &ip, n), fits);
            clients += fits && held[c] == 0;
            held[c] += fits ? n : 0;
            used += fits ? n : 0;
        }
        assert_int_equal(http_budget_used(&budget), used);
    }
    for (unsigned c = 0; c < CLIENTS; c++) {
        struct ip ip = v4(c);
        http_budget_give(&budget, &ip, held[c]);
    }
    budget_close();
}

static void a_network_of_ipv6_is_one_client(void **ctx)
{
    static const uint8_t bytes[3][16] = {{0xfd, 1, 2, 3, 4, 5, 6, 7, 1},
                                         {0xfd, 1, 2, 3, 4, 5, 6, 7, 2},
                                         {0xfd, 1, 2, 3, 4, 5, 6, 8, 1}};
    struct ip a = ip_of(bytes[0], 16), b = ip_of(bytes[1], 16), c = ip_of(bytes[2], 16);
    (void)ctx; /* static */
    assert_true(http_budget_same(&a, &b));
    assert_false(http_budget_same(&a, &c));
    budget_open(10, 5, 10);
    assert_true(http_budget_take(&budget, &a, 5));
    assert_false(http_budget_take(&budget, &b, 1));
    assert_true(http_budget_take(&budget, &c, 5));
    http_budget_give(&budget, &b, 5);
    http_budget_give(&budget, &c, 5);
    budget_close();
}

/* Servers */

static atomic_int whole_status;
static atomic_uint collecting; /* bodies whose collection began */

static void on_whole(struct http_request *req, enum status st)
{
    char text[32];
    atomic_store(&whole_status, (int)st);
    if (st != ST_OK) {
        http_respond_status(req, st, NULL);
        return;
    }
    assert_false(http_body_streams(req));
    uint64_t sum = 0;
    for (size_t i = 0; i < req->body.len; i++)
        sum += req->body.data[i];
    (void)snprintf(text, sizeof text, "sum %llu\n", (unsigned long long)sum);
    char *body = arena_str(&req->arena, bytes_str(text));
    assert_non_null(body);
    http_respond(req, &(struct http_reply){.status = 200, .body = bytes_str(body)});
}

static void on_head(void *ctx, struct http_request *req)
{
    (void)ctx; /* stateless */
    http_stream_body(req, HTTP_SMALL_BODY);
}

static void on_request(void *ctx, struct http_request *req)
{
    (void)ctx; /* stateless */
    if (http_body_streams(req)) {
        http_body_collect(req, NULL, on_whole);
        atomic_fetch_add(&collecting, 1);
    } else {
        on_whole(req, ST_OK);
    }
}

static const struct http_handler handler = {.head = on_head, .request = on_request};

static void serve(const struct http_limits *limits, const struct cidr *forwarders)
{
    struct http_server_options options = {.handler = &handler,
                                          .limits = limits,
                                          .budget = &budget,
                                          .forwarders = forwarders,
                                          .n_forwarders = forwarders != NULL};
    harness_open(&h, &options);
}

static void budget_is_back(void)
{
    for (int i = 0; i < 60000 && http_budget_used(&budget) != 0; i++)
        usleep(1000);
    assert_int_equal(http_budget_used(&budget), 0);
}

static void stop(void)
{
    budget_is_back();
    harness_down(&h);
    budget_close();
}

/* A connection from 127.0.0.`last`. */
static int dial_from(unsigned last)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr = {htonl((INADDR_LOOPBACK & ~255U) + last)}};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons(http_server_port(h.server))};
    struct timeval patience = {.tv_sec = 120};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&to, sizeof to)), 0);
    return fd;
}

static void say_length(int fd, size_t length)
{
    char head[100];
    (void)snprintf(head, sizeof head, "PUT /a HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
                   length);
    (void)say(fd, bytes_str(head));
}

static void say_body(int fd, size_t n)
{
    static uint8_t ones[BODY];
    memset(ones, 1, sizeof ones);
    (void)say(fd, bytes_of(ones, n));
}

static void assert_http_reply(int fd, const char *part)
{
    static char out[4096];
    (void)hear(fd, out, sizeof out, part);
    if (strstr(out, part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, out);
}

static void a_body_is_collected_when_it_is_asked_for(void **ctx)
{
    (void)ctx; /* static */
    budget_open(BODY * 4, BODY * 2, 10);
    serve(NULL, NULL);
    int fd = dial(&h);
    for (int i = 0; i < 3; i++) { /* in one piece, with a pause, and announced by chunks only */
        if (i == 2)
            (void)say(fd, BYTES("PUT /a HTTP/1.1\r\n" HOST
                                "Transfer-Encoding: chunked\r\n\r\n32000\r\n"));
        else
            say_length(fd, BODY);
        say_body(fd, BODY / 2);
        if (i == 1)
            usleep(20000);
        say_body(fd, BODY / 2);
        if (i == 2)
            (void)say(fd, BYTES("\r\n0\r\n\r\n"));
        assert_http_reply(fd, "sum 204800\n");
    }
    (void)close(fd);
    stop();
}

static void a_client_that_waits_is_told_to_send_what_is_collected(void **ctx)
{
    (void)ctx; /* static */
    budget_open(BODY * 4, BODY * 2, 10);
    serve(NULL, NULL);
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /a HTTP/1.1\r\n" HOST
                        "Expect: 100-continue\r\nContent-Length: 204800\r\n\r\n"));
    assert_http_reply(fd, "100 Continue\r\n\r\n");
    say_body(fd, BODY);
    assert_http_reply(fd, "sum 204800\n");
    (void)close(fd);
    stop();
}

static void a_collected_body_that_breaks_off_is_told(void **ctx)
{
    static const struct {
        const char *framing;
        enum status st;
    } cases[] = {{"Content-Length: 204800", ST_CLOSED},
                 {"Transfer-Encoding: chunked\r\n\r\n19000\r\n", ST_CLOSED},
                 {"Transfer-Encoding: chunked\r\n\r\n190000000\r\n", ST_TOO_BIG}};
    struct http_limits limits = http_limits_default;
    (void)ctx; /* static */
    limits.body_bytes_max = BODY / 2;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char head[200];
        bool cut = cases[i].st == ST_CLOSED;
        budget_open(BODY * 4, BODY * 2, 10);
        serve(cut ? NULL : &limits, NULL);
        atomic_store(&whole_status, ST_OK);
        atomic_store(&collecting, 0);
        (void)snprintf(head, sizeof head, "PUT /a HTTP/1.1\r\n" HOST "%s%s", cases[i].framing,
                       i == 0 ? "\r\n\r\n" : "");
        int fd = dial(&h);
        (void)say(fd, bytes_str(head));
        say_body(fd, 100000);
        for (int j = 0; j < 60000 && atomic_load(&collecting) == 0; j++)
            usleep(1000); /* a body that is too long in its first piece is refused without it */
        if (cut)
            assert_int_equal(close(fd), 0);
        else
            say_body(fd, 100000);
        for (int j = 0; j < 60000 && atomic_load(&whole_status) == ST_OK; j++)
            usleep(1000);
        assert_int_equal(atomic_load(&whole_status), cases[i].st);
        if (!cut)
            (void)close(fd);
        stop();
    }
}

static void one_client_leaves_room_for_the_bodies_of_others(void **ctx)
{
    (void)ctx; /* static */
    budget_open(BODY * 4, BODY * 2, 10);
    serve(NULL, NULL);
    int greedy[2], fd = dial_from(2);
    for (int i = 0; i < 2; i++) {
        greedy[i] = dial_from(2);
        say_length(greedy[i], BODY);
        say_body(greedy[i], BODY - 1);
    }
    while (http_budget_used(&budget) < (size_t)BODY * 2)
        usleep(1000);
    say_length(fd, BODY);
    say_body(fd, BODY);
    assert_http_reply(fd, "HTTP/1.1 503 ");
    (void)close(fd);
    fd = dial_from(2); /* a small one needs no room */
    say_length(fd, HTTP_SMALL_BODY);
    say_body(fd, HTTP_SMALL_BODY);
    assert_http_reply(fd, "sum 65536\n");
    (void)close(fd);
    fd = dial_from(3);
    say_length(fd, BODY);
    say_body(fd, BODY);
    assert_http_reply(fd, "sum 204800\n");
    (void)close(fd);
    for (int i = 0; i < 2; i++)
        (void)close(greedy[i]);
    stop();
}

/* Room is doubled while the length of a body is not known, but not beyond the longest body. */
static void the_longest_body_without_a_length_fits_in_a_share(void **ctx)
{
    struct http_limits limits = http_limits_default;
    (void)ctx; /* static */
    limits.body_bytes_max = BODY;
    budget_open(BODY * 2, BODY, 10);
    serve(&limits, NULL);
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n32000\r\n"));
    say_body(fd, BODY);
    (void)say(fd, BYTES("\r\n0\r\n\r\n"));
    assert_http_reply(fd, "sum 204800\n");
    (void)close(fd);
    stop();
}

static uint64_t fail_nth;
static atomic_bool fail_armed;

static void arm(struct env_task *task)
{
    (void)task; /* static */
    mem_fail_nth(fail_nth);
    atomic_store(&fail_armed, true);
}

/* The server asks for all of the body's room first, and for less when it gets no memory. */
static void without_memory_for_a_body_nothing_stays_counted(void **ctx)
{
    static struct env_task arm_task = {.run = arm};
    (void)ctx; /* static */
    budget_open(BODY * 2, BODY, 10);
    serve(NULL, NULL);
    for (fail_nth = 1; fail_nth < 16; fail_nth++) {
        atomic_store(&fail_armed, false);
        env_post(h.env, &arm_task);
        while (!atomic_load(&fail_armed))
            sched_yield();
        int fd = dial(&h);
        say_length(fd, BODY);
        say_body(fd, BODY);
        char out[100];
        (void)hear(fd, out, sizeof out, "sum"); /* a reply, or just an end */
        (void)close(fd);
        budget_is_back();
    }
    stop();
}

/* Work that keeps a thread of the pool busy until it is told to end. */
static atomic_bool pool_blocked;
static atomic_uint n_blocking;

static void run_blocker(struct env_work *work)
{
    (void)work; /* has nothing to say */
    atomic_fetch_add(&n_blocking, 1);
    while (atomic_load(&pool_blocked))
        usleep(1000);
}

static void on_unblocked(struct env_work *work)
{
    (void)work; /* static */
}

/* From the thread of the server. */
static void block_pool(struct env_task *task)
{
    static struct env_work blockers[LANE_THREADS_MAX];
    (void)task; /* static */
    for (size_t i = 0; i < ARRAY_LEN(blockers); i++) {
        blockers[i] =
            (struct env_work){.run = run_blocker, .done = on_unblocked, .lane = LANE_POOL};
        env_work(h.env, &blockers[i]);
    }
}

static void a_body_counts_until_it_is_wiped(void **ctx)
{
    enum { LONG = 2 * BODY };
    static struct env_task task = {.run = block_pool};
    (void)ctx; /* static */
    budget_open(LONG * 4, LONG * 2, 10);
    serve(NULL, NULL);
    atomic_store(&pool_blocked, true);
    env_post(h.env, &task);
    while (atomic_load(&n_blocking) < 2)
        usleep(1000);
    int fd = dial(&h);
    say_length(fd, LONG);
    say_body(fd, BODY);
    say_body(fd, BODY);
    assert_http_reply(fd, "sum 409600\n");
    say_length(fd, 0); /* its reply comes after the release of the body before */
    assert_http_reply(fd, "sum 0\n");
    assert_int_equal(http_budget_used(&budget), LONG);
    atomic_store(&pool_blocked, false);
    (void)close(fd);
    stop();
}

static uint64_t open_connections(void)
{
    struct http_counters n;
    http_server_counters(h.server, &n);
    return n.connections_open;
}

static void await_bytes(uint64_t n)
{
    struct http_counters now;
    do {
        usleep(1000);
        http_server_counters(h.server, &now);
    } while (now.bytes_in < n);
}

#define HALF "GET /a HTTP/1.1\r\n" /* of a request */

static void one_client_leaves_room_for_the_connections_of_others(void **ctx)
{
    struct http_limits limits = http_limits_default;
    struct http_counters n;
    int greedy[3], idle;
    (void)ctx; /* static */
    limits.connections_max = 6;
    budget_open(1, 1, 1);
    serve(&limits, NULL);
    idle = dial_from(3);
    for (int i = 0; i < 3; i++) {
        greedy[i] = dial_from(2);
        if (i > 0)
            (void)say(greedy[i], BYTES(HALF));
    }
    await_bytes(2 * strlen(HALF));
    while (open_connections() != 4)
        usleep(1000);
    int more = dial_from(2); /* the greedy one's own idle connection gives way, not the other's */
    assert_true(ended(greedy[0]));
    (void)say(more, BYTES(HALF));
    await_bytes(3 * strlen(HALF));
    int refused = dial_from(2); /* none of its connections is idle */
    assert_true(ended(refused));
    http_server_counters(h.server, &n);
    assert_int_equal(n.connections_evicted, 1);
    assert_int_equal(n.rejected, 1);
    (void)say(idle, BYTES("GET /a HTTP/1.1\r\n" HOST "\r\n"));
    assert_http_reply(idle, "sum 0\n");
    int other = dial_from(4);
    (void)say(other, BYTES("GET /a HTTP/1.1\r\n" HOST "\r\n"));
    assert_http_reply(other, "sum 0\n");
    (void)close(more); /* its place is free again */
    while (open_connections() != 4)
        usleep(1000);
    more = dial_from(2);
    (void)say(more, BYTES("GET /a HTTP/1.1\r\n" HOST "\r\n"));
    assert_http_reply(more, "sum 0\n");
    const int fds[] = {greedy[0], greedy[1], greedy[2], refused, idle, other, more};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    stop();
}

static void a_proxy_speaks_for_many_clients(void **ctx)
{
    struct http_limits limits = http_limits_default;
    struct cidr proxy;
    int fds[4];
    (void)ctx; /* static */
    limits.connections_max = 4;
    assert_int_equal(cidr_parse(BYTES("127.0.0.2"), &proxy), ST_OK);
    budget_open(1, 1, 1);
    serve(&limits, &proxy);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = dial_from(2);
        (void)say(fds[i], BYTES("GET /a HTTP/1.1\r\n"));
    }
    while (open_connections() != ARRAY_LEN(fds))
        usleep(1000);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_keeps_its_total_and_each_share),
        cmocka_unit_test(a_network_of_ipv6_is_one_client),
        cmocka_unit_test(a_body_is_collected_when_it_is_asked_for),
        cmocka_unit_test(a_client_that_waits_is_told_to_send_what_is_collected),
        cmocka_unit_test(a_collected_body_that_breaks_off_is_told),
        cmocka_unit_test(one_client_leaves_room_for_the_bodies_of_others),
        cmocka_unit_test(the_longest_body_without_a_length_fits_in_a_share),
        cmocka_unit_test(without_memory_for_a_body_nothing_stays_counted),
        cmocka_unit_test(a_body_counts_until_it_is_wiped),
        cmocka_unit_test(one_client_leaves_room_for_the_connections_of_others),
        cmocka_unit_test(a_proxy_speaks_for_many_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
