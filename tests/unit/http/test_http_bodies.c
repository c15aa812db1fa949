/* Bodies of requests and replies: bounds, streams, and peers that disconnect in the middle of a
 * body. */
#include "http/budget.h"
#include "http/with_server.h"

#include <stdlib.h>

static void a_body_above_the_limit_is_refused_before_it_is_sent(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 33554433\r\n\r\n");
    assert_has(out, "HTTP/1.1 413 ");
    assert_has(out, "request body too large\n");
    assert_has(TALK("PUT /small HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\n"), "HTTP/1.1 413 ");
    assert_has(TALK("PUT /small HTTP/1.1\r\n" HOST
                    "Transfer-Encoding: chunked\r\n\r\nb\r\n12345678901\r\n"),
               "HTTP/1.1 413 ");
}

static void a_client_that_sends_33_megabytes_reads_413(void **ctx)
{
    static uint8_t chunk[1 << 20];
    static char out[4096];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 34603008\r\n\r\n"));
    size_t sent = 0;
    for (int i = 0; i < 33; i++)
        sent += say(fd, bytes_of(chunk, sizeof chunk));
    assert_int_equal(sent, 34603008);
    (void)hear(fd, out, sizeof out, NULL);
    assert_has(out, "HTTP/1.1 413 ");
    (void)close(fd);
}

static void large_bodies_go_both_ways(void **ctx)
{
    enum { N = 5 * 1024 * 1024 + 17 };
    static uint8_t body[N];
    static char out[N + 1024];
    char head[200];
    (void)ctx; /* static */
    for (size_t i = 0; i < N; i++)
        body[i] = (uint8_t)('a' + i % 23);
    int fd = dial(&h);
    int len =
        snprintf(head, sizeof head, "PUT /echo HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n", N);
    (void)say(fd, bytes_of(head, (size_t)len));
    assert_int_equal(say(fd, bytes_of(body, N)), N);
    size_t n = 0;
    for (ssize_t more;
         n < N && (more = TEMP_FAILURE_RETRY(recv(fd, out + n, sizeof out - n, 0))) > 0;)
        n += (size_t)more;
    while (n < N + 80) {
        ssize_t more = TEMP_FAILURE_RETRY(recv(fd, out + n, sizeof out - n, 0));
        if (more <= 0)
            break;
        n += (size_t)more;
        if (n >= N && memcmp(out + n - 17, body + N - 17, 17) == 0)
            break;
    }
    assert_true(n > N);
    assert_memory_equal(out + n - N, body, N);
    (void)close(fd);
}

/* Short ones stand behind their head in its buffer, which serves one request after the other. */
static void replies_of_every_length_are_whole(void **ctx)
{
    enum { STEP = 37, MOST = 5000 };
    static char body[MOST], in[MOST + 200], out[MOST + 500];
    (void)ctx; /* static */
    int fd = dial(&h);
    for (size_t i = 0; i < MOST; i++)
        body[i] = (char)('a' + i % 23);
    for (size_t n = MOST - 1; n > STEP; n -= n < 1700 || n > 2100 ? STEP : 1) {
        body[n - 1] = '!';
        int len =
            snprintf(in, sizeof in, "PUT /echo HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%.*s",
                     n, (int)n, body);
        (void)say(fd, bytes_of(in, (size_t)len));
        size_t got = hear(fd, out, sizeof out, "!");
        assert_true(got > n);
        assert_memory_equal(out + got - n, body, n);
        body[n - 1] = 'x';
    }
    (void)close(fd);
}

static void a_streamed_body_arrives_in_pieces(void **ctx)
{
    static uint8_t body[3000000];
    static char out[4096];
    (void)ctx; /* static */
    memset(body, 2, sizeof body);
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /drip HTTP/1.1\r\n" HOST CLOSE "Expect: 100-continue\r\n"
                        "Content-Length: 3000000\r\n\r\n"));
    assert_int_equal(say(fd, bytes_of(body, sizeof body)), sizeof body);
    (void)hear(fd, out, sizeof out, NULL);
    assert_has(out, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_has(out, "sum 6000000\n");
    (void)close(fd);
    assert_has(TALK("PUT /drip HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                    "1\r\n\1\r\n1\r\n\1\r\n1\r\n\1\r\n0\r\n\r\n"
                    "PUT /drip HTTP/1.1\r\n" HOST CLOSE "Content-Length: 0\r\n\r\n"),
               "sum 3\n");
}

static void a_body_is_streamed_from_the_length_its_handler_named(void **ctx)
{
    static uint8_t body[200000];
    (void)ctx; /* static */
    memset(body, 3, sizeof body);
    assert_has(TALK("GET /long HTTP/1.1\r\n" HOST CLOSE "\r\n"), "whole 0 announced 0\n");
    assert_has(TALK("PUT /long HTTP/1.1\r\n" HOST CLOSE "Content-Length: 3\r\n\r\nabc"),
               "whole 3 announced 3\n");
    assert_has(TALK("PUT /long HTTP/1.1\r\n" HOST CLOSE "Transfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n0\r\n\r\n"),
               "whole 3 announced -1\n");
    for (int chunked = 0; chunked < 2; chunked++) {
        static char out[4096];
        int fd = dial(&h);
        (void)say(fd, BYTES("PUT /long HTTP/1.1\r\n" HOST CLOSE));
        (void)say(fd, chunked != 0 ? BYTES("Transfer-Encoding: chunked\r\n\r\n30d40\r\n")
                                   : BYTES("Content-Length: 200000\r\n\r\n"));
        assert_int_equal(say(fd, bytes_of(body, sizeof body)), sizeof body);
        (void)say(fd, chunked != 0 ? BYTES("\r\n0\r\n\r\n") : BYTES(""));
        (void)hear(fd, out, sizeof out, NULL);
        assert_has(out, "sum 600000\n");
        (void)close(fd);
    }
}

static void a_stream_leaves_the_budget_of_bodies_alone(void **ctx)
{
    static struct http_budget budget;
    static const struct http_budget_options size = {
        .total = 80 * 1024, .share = 80 * 1024, .clients_max = 10};
    static char out[4096];
    struct http_server_options options = {.handler = &server_handler, .budget = &budget};
    (void)ctx; /* static */
    assert_int_equal(http_budget_init(&budget, h.env, &size), ST_OK);
    harness_down(&h);
    harness_open(&h, &options);
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /long HTTP/1.1\r\n" HOST CLOSE "Transfer-Encoding: chunked\r\n\r\n"));
    for (int i = 0; i < 100; i++) { /* far more than fits, and a pause in it */
        static const uint8_t zeros[4096];
        (void)say(fd, BYTES("1000\r\n"));
        (void)say(fd, bytes_of(zeros, sizeof zeros));
        (void)say(fd, BYTES("\r\n"));
    }
    for (int i = 0; i < 60000 && http_budget_used(&budget) != 0; i++)
        usleep(1000);
    assert_int_equal(http_budget_used(&budget), 0);
    (void)say(fd, BYTES("0\r\n\r\n"));
    (void)hear(fd, out, sizeof out, NULL);
    assert_has(out, "sum 0\n");
    (void)close(fd);
}

static void a_streamed_body_that_breaks_off_is_told(void **ctx)
{
    static char out[4096];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /drip HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nabc"));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    (void)hear(fd, out, sizeof out, NULL);
    assert_int_equal(atomic_load(&stream_status), ST_CLOSED);
    (void)close(fd);
    assert_has(TALK("PUT /drip HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\nx"),
               "HTTP/1.1 400 ");
    assert_int_equal(atomic_load(&stream_status), ST_INVALID);
}

static void a_streamed_reply_is_chunked_or_counted(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("GET /flow?25000 HTTP/1.1\r\n" HOST CLOSE "\r\n");
    assert_has(out, "Transfer-Encoding: chunked\r\n");
    assert_has(out, "\r\n\r\n5\r\nfirst\r\n2710\r\nff");
    assert_has(out, "ff\r\n1388\r\nff");
    assert_has(out, "ff\r\n0\r\n\r\n");
    out = TALK("GET /flowlen?25000 HTTP/1.1\r\n" HOST CLOSE "\r\n");
    assert_has(out, "Content-Length: 25005\r\n");
    assert_int_equal(strlen(strstr(out, "\r\n\r\n")), 4 + 25005);
    out = TALK("GET /flow?25000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_has(out, "Connection: close\r\n");
    assert_int_equal(strlen(strstr(out, "\r\n\r\n")), 4 + 25005);
    out = TALK("HEAD /flow?25000 HTTP/1.1\r\n" HOST CLOSE "\r\n");
    assert_null(strstr(out, "first"));
}

static void a_reply_that_falls_short_is_cut(void **ctx)
{
    (void)ctx; /* static */
    const char *out =
        TALK("GET /flowshort?100 HTTP/1.1\r\n" HOST "\r\nGET /x HTTP/1.1\r\n" HOST "\r\n");
    assert_null(strstr(out, "GET /x"));
}

static void a_slow_reader_gets_all_of_a_large_reply(void **ctx)
{
    enum { N = 20000000 };
    static char out[64 * 1024];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /big?20000000 HTTP/1.1\r\n" HOST
                        "\r\nGET /flow?5000000 HTTP/1.1\r\n" HOST CLOSE "\r\n"));
    size_t n = 0;
    for (ssize_t more; (more = TEMP_FAILURE_RETRY(recv(fd, out, sizeof out, 0))) > 0;)
        n += (size_t)more;
    assert_true(n > N + 5000000);
    (void)close(fd);
}

static void the_loss_of_the_peer_is_told_once(void **ctx)
{
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /hold HTTP/1.1\r\n" HOST "\r\n"));
    (void)TALK("GET /a HTTP/1.1\r\n" HOST CLOSE "\r\n");
    (void)close(fd);
    for (int i = 0; i < 12000 && atomic_load(&gone_requests) == 0; i++)
        usleep(5000);
    assert_int_equal(atomic_load(&gone_requests), 1);
}

static void a_peer_that_leaves_within_a_reply_is_noticed(void **ctx)
{
    static char out[70000];
    (void)ctx; /* static */
    int fd = dial(&h), half = dial(&h);
    (void)say(fd, BYTES("GET /flow?100000000 HTTP/1.1\r\n" HOST "\r\n"));
    (void)say(half, BYTES("GET /flow?100000000 HTTP/1.1\r\n" HOST "\r\n"));
    assert_int_equal(shutdown(half, SHUT_WR), 0); /* ends its side first */
    (void)hear(fd, out, sizeof out, NULL);
    (void)hear(half, out, sizeof out, NULL);
    (void)close(fd);
    (void)close(half);
    await_no_connection();
    struct http_counters n;
    http_server_counters(h.server, &n);
    assert_int_equal(n.timeouts, 0);
}

static void an_early_reply_closes_when_a_body_was_announced(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("PUT /early HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nGET / ");
    assert_has(out, "403 Forbidden");
    assert_has(out, "Connection: close");
    out = TALK("GET /early HTTP/1.1\r\n" HOST "\r\nGET /next HTTP/1.1\r\n" HOST CLOSE "\r\n");
    assert_has(out, "GET /next");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_body_above_the_limit_is_refused_before_it_is_sent),
        TEST(a_client_that_sends_33_megabytes_reads_413),
        TEST(large_bodies_go_both_ways),
        TEST(replies_of_every_length_are_whole),
        TEST(a_streamed_body_arrives_in_pieces),
        TEST(a_body_is_streamed_from_the_length_its_handler_named),
        TEST(a_stream_leaves_the_budget_of_bodies_alone),
        TEST(a_streamed_body_that_breaks_off_is_told),
        TEST(a_streamed_reply_is_chunked_or_counted),
        TEST(a_reply_that_falls_short_is_cut),
        TEST(a_slow_reader_gets_all_of_a_large_reply),
        TEST(the_loss_of_the_peer_is_told_once),
        TEST(a_peer_that_leaves_within_a_reply_is_noticed),
        TEST(an_early_reply_closes_when_a_body_was_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
