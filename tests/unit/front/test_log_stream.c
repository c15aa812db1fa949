/* The log as a body: lines as they come, and no follower left behind. */
#include "http/harness.h"
#include "support.h"

#include "base/trace_tail.h"
#include "front/log_stream.h"

static struct harness server;
static _Atomic bool leaving;

static void on_request(void *ctx, struct http_request *req)
{
    struct reply_log log = {.env = server.env, .leaving = &leaving};
    (void)ctx;
    assert_status(tail_open(TRACE_WARN, TAIL_STANDARD, &log.tail), ST_OK);
    http_respond_begin(req, &(struct http_reply){.status = 200}, HTTP_LENGTH_UNKNOWN);
    log_stream_start(req, log);
    trace(TRACE_WARN, "main", "one line");
}

static const struct http_handler handler = {.request = on_request};
static const char ask[] = "GET /x HTTP/1.1\r\n" HOST "\r\n";

static int open_all(void **ctx)
{
    (void)ctx;
    leaving = false;
    harness_up(&server, &handler, NULL, NULL);
    return 0;
}

/* The harness ends only when no request is left. */
static int close_all(void **ctx)
{
    (void)ctx;
    harness_down(&server);
    assert_int_equal(tail_lowest(), TRACE_OFF);
    return 0;
}

static void a_line_arrives_and_a_client_that_goes_leaves_no_follower(void **ctx)
{
    (void)ctx;
    char out[1024];
    int fd = dial(&server);
    assert_int_equal(say(fd, bytes_str(ask)), strlen(ask));
    assert_true(hear(fd, out, sizeof out, "main: one line\n") > 0);
    assert_int_equal(tail_lowest(), TRACE_WARN);
    assert_int_equal(close(fd), 0);
}

static void a_process_that_ends_ends_the_body(void **ctx)
{
    (void)ctx;
    char out[1024];
    int fd = dial(&server);
    assert_int_equal(say(fd, bytes_str(ask)), strlen(ask));
    assert_true(hear(fd, out, sizeof out, "main: one line\n") > 0);
    leaving = true;
    assert_true(hear(fd, out, sizeof out, "0\r\n\r\n") > 0);
    assert_int_equal(close(fd), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_line_arrives_and_a_client_that_goes_leaves_no_follower),
        TEST(a_process_that_ends_ends_the_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
