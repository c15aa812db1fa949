/* Parked requests: what is kept of them, and how they end. */
#include "http/with_server.h"

static const struct http_limits *limits_of_park(void)
{
    static struct http_limits limits;
    limits = http_limits_default;
    limits.request_ms = 300;
    return &limits;
}

static int setup(void **ctx)
{
    (void)ctx;
    atomic_store(&gone_requests, 0);
    harness_up(&h, &server_handler, limits_of_park(), NULL);
    return 0;
}

static void a_parked_request_keeps_its_head(void **ctx)
{
    char out[1000];
    (void)ctx;
    int fd = dial(&h);
    (void)say(
        fd, BYTES("GET /park?index=7 HTTP/1.1\r\nHost: a\r\nX-Vault-Token: abc\r\n" CLOSE "\r\n"));
    usleep(500 * 1000); /* longer than request_ms */
    assert_has(TALK("GET /unpark HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n"), "did");
    (void)hear(fd, out, sizeof out, NULL);
    (void)close(fd);
    assert_has(out, "200 OK");
    assert_has(out, "GET /park?index=7 token=abc body=0");
}

static void a_client_that_goes_ends_a_parked_request(void **ctx)
{
    (void)ctx;
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /park HTTP/1.1\r\nHost: a\r\n\r\n"));
    usleep(100 * 1000);
    (void)close(fd);
    for (int i = 0; i < 12000 && atomic_load(&gone_requests) == 0; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&gone_requests), 1);
    await_no_connection();
}

/* The next request of the connection waits, and is served after the parked one. */
static void a_pipelined_request_waits_behind_a_parked_one(void **ctx)
{
    char out[2000];
    (void)ctx;
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /park?a HTTP/1.1\r\nHost: a\r\n\r\n"
                        "GET /next HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n"));
    usleep(100 * 1000);
    assert_has(TALK("GET /unpark HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n"), "did");
    (void)hear(fd, out, sizeof out, NULL);
    (void)close(fd);
    assert_has(out, "GET /park?a token= body=0");
    assert_has(strstr(out, "/park?a"), "GET /next? token= body=0");
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, server_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_parked_request_keeps_its_head),
        T(a_client_that_goes_ends_a_parked_request),
        T(a_pipelined_request_waits_behind_a_parked_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
