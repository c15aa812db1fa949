/* Slow, silent, greedy and numerous clients; draining of the server. */
#include "http/budget.h"
#include "http/harness.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { HANDLER_MS = 1500, BIG = 30 * 1024 * 1024 };

static struct http_request *held;
static atomic_bool is_held, is_slow;

static void respond_body(struct http_request *req)
{
    struct http_reply reply = {.status = 200, .body = req->body};
    http_respond(req, &reply);
}

static void respond_big(struct http_request *req)
{
    uint8_t *body = arena_zalloc(&req->arena, BIG);
    struct http_reply reply = {.status = 200, .body = {body, BIG}};
    assert_non_null(body);
    http_respond(req, &reply);
}

static void never_piece(struct http_request *req, enum status st, struct bytes piece, bool last)
{
    (void)piece; /* of no interest */
    if (st != ST_OK)
        http_respond_status(req, st, NULL);
    else if (!last)
        http_body_next(req, never_piece);
    else
        respond_body(req);
}

static void on_head(void *ctx, struct http_request *req)
{
    (void)ctx; /* stateless */
    if (bytes_eq(req->path, BYTES("/stream")))
        http_stream_body(req, 0);
}

static void on_request(void *ctx, struct http_request *req)
{
    (void)ctx; /* stateless */
    if (bytes_eq(req->path, BYTES("/hold"))) {
        held = req;
        atomic_store(&is_held, true);
    } else if (bytes_eq(req->path, BYTES("/big"))) {
        respond_big(req);
    } else if (bytes_eq(req->path, BYTES("/slow"))) {
        atomic_store(&is_slow, true);
        usleep(HANDLER_MS * 1000);
        (req->query.len != 0 ? respond_big : respond_body)(req);
    } else if (bytes_eq(req->path, BYTES("/stream"))) {
        http_body_next(req, never_piece);
    } else {
        respond_body(req);
    }
}

static const struct http_handler handler = {.head = on_head, .request = on_request};

static struct harness h;

static void up(const struct http_limits *limits)
{
    atomic_store(&is_held, false);
    harness_up(&h, &handler, limits, NULL);
}

static int teardown(void **ctx)
{
    (void)ctx; /* static */
    harness_down(&h);
    return 0;
}

static struct http_counters counters(void)
{
    struct http_counters n;
    http_server_counters(h.server, &n);
    return n;
}

static const char *hear_all(int fd)
{
    static char out[4096];
    (void)hear(fd, out, sizeof out, NULL);
    (void)close(fd);
    return out;
}

#define GET "GET /a HTTP/1.1\r\n" HOST "\r\n"

static void headers_that_trickle_time_out(void **ctx)
{
    struct http_limits limits = http_limits_default;
    (void)ctx; /* static */
    limits.header_ms = 60;
    up(&limits);
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /a HTTP/1.1\r\n"));
    for (int i = 0; i < 20; i++) {
        (void)say(fd, BYTES("X: y\r\n"));
        usleep(5000);
    }
    assert_non_null(strstr(hear_all(fd), "HTTP/1.1 408 Request Timeout\r\n"));
    assert_int_equal(counters().timeouts, 1);
}

static void a_silent_connection_is_closed(void **ctx)
{
    struct http_limits limits = http_limits_default;
    (void)ctx; /* static */
    limits.idle_ms = 50;
    up(&limits);
    int fresh = dial(&h), used = dial(&h);
    static char out[1024];
    (void)say(used, BYTES(GET));
    (void)hear(used, out, sizeof out, "\r\n\r\n");
    assert_true(ended(fresh));
    assert_true(ended(used));
    (void)close(fresh);
    (void)close(used);
}

static void a_body_that_trickles_times_out(void **ctx)
{
    struct http_limits limits = http_limits_default;
    (void)ctx; /* static */
    limits.rate_window_ms = 50;
    limits.body_rate_min = 1000;
    limits.linger_ms = 50;
    up(&limits);
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /a HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nabc"));
    assert_non_null(strstr(hear_all(fd), "HTTP/1.1 408 "));
    fd = dial(&h);
    (void)say(fd, BYTES("PUT /stream HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nabc"));
    assert_non_null(strstr(hear_all(fd), "HTTP/1.1 408 "));
    assert_int_equal(counters().timeouts, 2);
}

static size_t hear_out(int fd)
{
    static char part[1024 * 1024];
    size_t n = 0;
    for (ssize_t more; (more = TEMP_FAILURE_RETRY(recv(fd, part, sizeof part, 0))) > 0;)
        n += (size_t)more;
    (void)close(fd);
    return n;
}

/* The handler's time is not the client's: neither its own client's, nor that of another one whose
 * reply is on its way meanwhile. */
static void a_handler_that_takes_long_makes_no_client_slow(void **ctx)
{
    struct http_limits limits = http_limits_default;
    (void)ctx; /* static */
    limits.rate_window_ms = HANDLER_MS * 2 / 3;
    limits.write_rate_min = 1000 / limits.rate_window_ms + 1; /* a byte in each window */
    up(&limits);
    static const char last[] = " HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n";
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /slow?big"));
    (void)say(fd, bytes_str(last));
    assert_true(hear_out(fd) > BIG);

    int reader = dial(&h), other = dial(&h);
    char c;
    (void)say(reader, BYTES("GET /big"));
    (void)say(reader, bytes_str(last));
    assert_int_equal(TEMP_FAILURE_RETRY(recv(reader, &c, 1, 0)),
                     1); /* the rest waits for it to read on */
    atomic_store(&is_slow, false);
    (void)say(other, BYTES("GET /slow"));
    (void)say(other, bytes_str(last));
    while (!atomic_load(&is_slow))
        usleep(1000);
    assert_true(hear_out(reader) + 1 > BIG);
    assert_true(hear_out(other) > 0);
    assert_int_equal(counters().timeouts, 0);
}

static void await_held(void)
{
    while (!atomic_load(&is_held))
        usleep(1000);
}

static void reply_held(struct env_task *task)
{
    (void)task; /* one request is held */
    respond_body(held);
}

static struct env_task held_task = {.run = reply_held};

static void a_request_without_a_reply_in_time_is_refused(void **ctx)
{
    static const char *const methods[] = {"PUT", "HEAD"};
    struct http_limits limits = http_limits_default;
    (void)ctx; /* static */
    limits.request_ms = 60;
    up(&limits);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        char text[128];
        int fd = dial(&h);
        atomic_store(&is_held, false);
        (void)snprintf(text, sizeof text, "%s /hold HTTP/1.1\r\n" HOST "\r\n" GET, methods[i]);
        (void)say(fd, bytes_str(text));
        const char *out = hear_all(fd);
        assert_non_null(strstr(out, "HTTP/1.1 503 Service Unavailable\r\n"));
        assert_non_null(strstr(out, "Connection: close\r\n"));
        assert_int_equal(count(out, "HTTP/1.1 "), 1); /* what follows is not looked at */
        assert_int_equal(strstr(out, "\r\n\r\nno reply was ready") != NULL, i == 0);
        await_held();
        env_post(h.env, &held_task); /* nobody hears it */
    }
    assert_int_equal(counters().timeouts, 2);
}

static const char *said_late(void *ctx, struct http_request *req, int *ret_status)
{
    (void)ctx; /* stateless */
    assert_int_equal(*ret_status, 503);
    assert_ptr_equal(req, held);
    *ret_status = 504;
    return "who knows";
}

static void a_late_request_gets_the_reply_of_its_handler(void **ctx)
{
    static const struct http_handler with_late = {
        .head = on_head, .request = on_request, .late = said_late};
    struct http_limits limits = http_limits_default;
    (void)ctx; /* static */
    limits.request_ms = 60;
    atomic_store(&is_held, false);
    harness_up(&h, &with_late, &limits, NULL);
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /hold HTTP/1.1\r\n" HOST "\r\n"));
    const char *out = hear_all(fd);
    assert_non_null(strstr(out, "HTTP/1.1 504 Gateway Timeout\r\n"));
    assert_non_null(strstr(out, "\r\n\r\nwho knows\n"));
    env_post(h.env, &held_task);
}

static void the_time_of_a_request_includes_its_body(void **ctx)
{
    static const char *const paths[] = {"/a", "/stream"};
    struct http_limits limits = http_limits_default;
    (void)ctx; /* static */
    limits.request_ms = 60;
    up(&limits);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        char text[128];
        int fd = dial(&h);
        (void)snprintf(text, sizeof text, "PUT %s HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nab",
                       paths[i]);
        (void)say(fd, bytes_str(text));
        assert_non_null(strstr(hear_all(fd), "HTTP/1.1 408 "));
    }
}

static void a_reader_that_does_not_read_is_cut(void **ctx)
{
    struct http_limits limits = http_limits_default;
    (void)ctx; /* static */
    limits.rate_window_ms = 50;
    limits.linger_ms = 50;
    up(&limits);
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /big HTTP/1.1\r\n" HOST "\r\n"));
    for (int i = 0; i < 12000 && counters().timeouts == 0; i++)
        usleep(5000);
    assert_int_equal(counters().timeouts, 1);
    (void)close(fd);
}

static void the_longest_idle_connection_gives_way(void **ctx)
{
    struct http_limits limits = http_limits_default;
    static char out[1024];
    int fds[4];
    (void)ctx; /* static */
    limits.connections_max = limits.connections_share = 3;
    up(&limits);
    for (int i = 0; i < 4; i++) {
        fds[i] = dial(&h);
        (void)say(fds[i], BYTES(GET));
        (void)hear(fds[i], out, sizeof out, "\r\n\r\n");
    }
    assert_true(ended(fds[0]));
    (void)say(fds[1], BYTES(GET));
    assert_true(hear(fds[1], out, sizeof out, "\r\n\r\n") > 0);
    assert_int_equal(counters().connections_evicted, 1);
    for (int i = 0; i < 4; i++)
        (void)close(fds[i]);
}

static void when_all_are_busy_a_new_connection_waits(void **ctx)
{
    struct http_limits limits = http_limits_default;
    static char out[1024];
    (void)ctx; /* static */
    limits.connections_max = 1;
    up(&limits);
    int busy = dial(&h);
    (void)say(busy, BYTES("GET /a HTTP/1.1\r\n")); /* half a request */
    while (counters().bytes_in == 0)
        usleep(1000);
    int waits = dial(&h);
    (void)say(waits, BYTES(GET));
    usleep(20000);
    assert_int_equal(counters().connections_accepted, 1);
    (void)close(busy);
    assert_true(hear(waits, out, sizeof out, "\r\n\r\n") > 0);
    (void)close(waits);
}

static void bodies_beyond_the_budget_are_refused(void **ctx)
{
    static struct http_budget budget;
    static const struct http_budget_options size = {
        .total = 300 * 1024, .share = 300 * 1024, .clients_max = 10};
    static uint8_t body[400 * 1024];
    static char out[4096];
    struct http_limits limits = http_limits_default;
    (void)ctx; /* static */
    limits.linger_ms = 50;
    struct http_server_options options = {
        .handler = &handler, .limits = &limits, .budget = &budget};
    struct env *env;
    assert_int_equal(loop_new(NULL, &env), ST_OK);
    assert_int_equal(http_budget_init(&budget, env, &size), ST_OK);
    loop_free(env);
    harness_open(&h, &options);
    for (int i = 0; i < 3; i++) { /* what was refused is given back */
        int fd = dial(&h);
        (void)say(fd, BYTES("PUT /a HTTP/1.1\r\n" HOST "Content-Length: 409600\r\n\r\n"));
        (void)say(fd, bytes_of(body, sizeof body));
        assert_non_null(strstr(hear_all(fd), "HTTP/1.1 503 "));
    }
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /a HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\n"));
    (void)say(fd, bytes_of(body, 100000));
    (void)hear(fd, out, sizeof out, "\r\n\r\n");
    assert_non_null(strstr(out, "HTTP/1.1 200 "));
    (void)close(fd);
    while (http_budget_used(&budget) != 0)
        usleep(1000);
    http_budget_done(&budget);
}

/* In a process of its own, for descriptors: connect, say so, wait for `until` to close. */
static void crowd(int n, int ready, int until)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons(http_server_port(h.server))};
    char c = 'y';
    for (int i = 0; i < n; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
            _exit(1);
    }
    if (write(ready, &c, 1) != 1 || read(until, &c, 1) != 0)
        _exit(1);
    _exit(0);
}

static void ten_thousand_idle_connections_are_held(void **ctx)
{
    enum { N = 10000, SPARE = 100 };
    struct rlimit files;
    int ready[2], until[2], status = 0;
    char c;
    (void)ctx; /* static */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    uint64_t n = MIN((uint64_t)N, files.rlim_cur - SPARE);
    struct http_limits limits = http_limits_default;
    limits.connections_share = limits.connections_max;
    up(&limits);
    assert_int_equal(pipe2(ready, O_CLOEXEC) | pipe2(until, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)close(until[1]);
        crowd((int)n, ready[1], until[0]);
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    for (int i = 0; i < 12000 && counters().connections_open < n; i++)
        usleep(5000);
    assert_int_equal(counters().connections_open, n);
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /a HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"));
    assert_non_null(strstr(hear_all(fd), "HTTP/1.1 200 "));
    assert_int_equal(counters().connections_evicted, 0);
    (void)close(until[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)close(ready[0]);
    (void)close(until[0]);
}

/* Draining */

static void draining_lets_a_running_request_end(void **ctx)
{
    static char out[1024];
    (void)ctx; /* static */
    up(NULL);
    int idle = dial(&h), fd = dial(&h);
    (void)say(idle, BYTES(GET));
    (void)hear(idle, out, sizeof out, "\r\n\r\n");
    (void)say(fd, BYTES("GET /hold HTTP/1.1\r\n" HOST "\r\n"));
    await_held();
    h.patience_ms = 120000;
    h.stop_task.run = harness_stop;
    env_post(h.env, &h.stop_task);
    assert_true(ended(idle));
    env_post(h.env, &held_task);
    (void)hear(fd, out, sizeof out, NULL);
    assert_non_null(strstr(out, "HTTP/1.1 200 OK"));
    assert_non_null(strstr(out, "Connection: close\r\n"));
    (void)close(fd);
    (void)close(idle);
    harness_join(&h);
}

static void draining_cuts_what_does_not_end(void **ctx)
{
    (void)ctx; /* static */
    up(NULL);
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /hold HTTP/1.1\r\n" HOST "\r\n"));
    await_held();
    h.patience_ms = 20;
    h.stop_task.run = harness_stop;
    env_post(h.env, &h.stop_task);
    assert_true(ended(fd));
    env_post(h.env, &held_task); /* it is still due, though nobody hears it */
    harness_join(&h);
    (void)close(fd);
}

static void an_address_in_use_is_refused(void **ctx)
{
    struct http_server *second = NULL;
    struct reason reason = {""};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct env *env = NULL;
    (void)ctx; /* static */
    up(NULL);
    at.sin_port = htons(http_server_port(h.server));
    struct http_server_options options = {
        .address = (struct sockaddr *)&at, .exclusive = true, .handler = &handler};
    assert_int_equal(loop_new(NULL, &env), ST_OK);
    assert_int_equal(http_server_start(env, &options, &second, &reason), ST_EXISTS);
    assert_string_equal(reason.text, "address already in use");
    at.sin_addr.s_addr = htonl(0x01020304); /* not ours */
    options.exclusive = false;
    assert_int_not_equal(http_server_start(env, &options, &second, &reason), ST_OK);
    loop_free(env);
}

static void addresses_are_read(void **ctx)
{
    static const char *const bad[] = {
        "",         "1.2.3.4", ":80",    "[::1]", "1.2.3.4:",   "a:1",          "1.2.3.4:x",
        "1.2.3:80", "[::1:80", "::1:80", "[]:1",  "1.2.3.4:-1", "1.1.1.1:65536"};
    struct sockaddr_storage to;
    struct reason reason;
    (void)ctx; /* no state */
    assert_int_equal(http_address_parse("127.0.0.1:8200", &to, NULL), ST_OK);
    assert_int_equal(((struct sockaddr_in *)&to)->sin_port, htons(8200));
    assert_int_equal(http_address_parse("[::1]:1", &to, NULL), ST_OK);
    assert_int_equal(to.ss_family, AF_INET6);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(http_address_parse(bad[i], &to, &reason), ST_INVALID);
        assert_non_null(strstr(reason.text, "is not an address"));
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(headers_that_trickle_time_out),
        TEST(a_silent_connection_is_closed),
        TEST(a_body_that_trickles_times_out),
        TEST(a_handler_that_takes_long_makes_no_client_slow),
        TEST(a_request_without_a_reply_in_time_is_refused),
        TEST(a_late_request_gets_the_reply_of_its_handler),
        TEST(the_time_of_a_request_includes_its_body),
        TEST(a_reader_that_does_not_read_is_cut),
        TEST(the_longest_idle_connection_gives_way),
        TEST(when_all_are_busy_a_new_connection_waits),
        TEST(bodies_beyond_the_budget_are_refused),
        TEST(ten_thousand_idle_connections_are_held),
        cmocka_unit_test(draining_lets_a_running_request_end),
        cmocka_unit_test(draining_cuts_what_does_not_end),
        TEST(an_address_in_use_is_refused),
        cmocka_unit_test(addresses_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
