/* The HTTP client against our HTTP server. */
#include "http/client_world.h"

#include <stdlib.h>

static void requests_get_replies_over_one_connection(void **ctx)
{
    struct http_target target = here();
    (void)ctx; /* static */
    for (int i = 0; i < 3; i++) {
        struct trial t = get("/echo?x");
        t.request.method = METHOD_PUT;
        t.request.body = BYTES("hello");
        run(&t, &target);
        assert_status(t.st, ST_OK);
        assert_int_equal(t.request.status, 200);
        assert_string_equal(t.reply, "forty-two");
        assert_string_equal(t.body, "hello");
    }
    assert_int_equal(counters().connects, 1);
}

static void head_204_and_list_have_their_shapes(void **ctx)
{
    struct http_target target = here();
    struct http_header headers[] = {{BYTES("X-Y"), BYTES("z")}, {BYTES("TE"), BYTES("trailers")}};
    (void)ctx; /* static */
    struct trial head = get("/about"), none = get("/none"), list = get("/about?q");
    head.request.method = METHOD_HEAD;
    run(&head, &target);
    assert_status(head.st, ST_OK);
    assert_int_equal(head.body_len, 0);
    run(&none, &target);
    assert_int_equal(none.request.status, 204);
    list.request.method = METHOD_LIST;
    list.request.headers = headers;
    list.request.n_headers = 2;
    run(&list, &target);
    char want[100];
    (void)snprintf(want, sizeof want, "LIST ?q host=%s te=", address); /* fits */
    assert_string_equal(list.body, want);
    assert_int_equal(counters().connects, 1);
}

static void names_are_resolved(void **ctx)
{
    char named[64];
    (void)ctx;                                                                     /* static */
    (void)snprintf(named, sizeof named, "localhost:%s", strchr(address, ':') + 1); /* fits */
    struct http_target target = {.address = named}, nowhere = {.address = "no.such.invalid:1"};
    struct trial t = get("/about"), lost = get("/about");
    run(&t, &target);
    run(&lost, &nowhere);
    assert_status(lost.st, ST_NO_LEADER);
    assert_string_not_equal(lost.request.reason.text, "");
}

static void connections_are_bounded_and_shared(void **ctx)
{
    enum { CALLS = 300 };
    static struct trial trials[CALLS];
    struct http_target target = here();
    (void)ctx; /* static */
    limit(4, CALLS);
    for (int i = 0; i < CALLS; i++) {
        trials[i] = get("/about");
        start(&trials[i], &target);
    }
    loop_run(env);
    for (int i = 0; i < CALLS; i++)
        assert_status(trials[i].st, ST_OK);
    assert_int_equal(counters().connects, 4);
}

static void a_full_queue_is_busy(void **ctx)
{
    static struct trial trials[10];
    struct http_target target = here();
    size_t busy = 0;
    (void)ctx; /* static */
    limit(1, 4);
    for (int i = 0; i < 10; i++) {
        trials[i] = get("/about");
        start(&trials[i], &target);
    }
    loop_run(env);
    for (int i = 0; i < 10; i++)
        busy += trials[i].st == ST_BUSY;
    assert_int_equal(busy, 6);
}

static void a_refused_connection_was_certainly_not_sent(void **ctx)
{
    (void)ctx; /* static */
    struct http_target target = {.address = "127.0.0.1:1"};
    struct trial t = get("/a"), second = get("/b");
    start(&t, &target);
    run(&second, &target);
    assert_status(t.st, ST_NO_LEADER);
    assert_status(second.st, ST_NO_LEADER);
    assert_string_equal(t.request.reason.text, "connection refused");
}

static void all_who_wait_for_a_dead_target_learn_it_at_once(void **ctx)
{
    static struct trial trials[50];
    struct http_target target = {.address = "127.0.0.1:1"};
    (void)ctx; /* static */
    limit(1, 100);
    for (int i = 0; i < 50; i++) {
        trials[i] = get("/a");
        start(&trials[i], &target);
    }
    loop_run(env);
    for (int i = 0; i < 50; i++)
        assert_status(trials[i].st, ST_NO_LEADER);
    assert_int_equal(counters().connects_failed, 1);
}

static void a_reply_may_be_as_long_as_asked_for(void **ctx)
{
    struct http_target target = here();
    struct trial t = get("/about"), exact = t, more = t;
    (void)ctx; /* static */
    run(&t, &target);
    assert_true(t.st == ST_OK && t.body_len > 1);
    exact.request.reply_bytes_max = t.body_len;
    run(&exact, &target);
    assert_status(exact.st, ST_OK);
    assert_int_equal(exact.body_len, t.body_len);
    more.request.reply_bytes_max = t.body_len - 1;
    run(&more, &target);
    assert_status(more.st, ST_UNKNOWN_OUTCOME);
}

static void headers_that_frame_are_not_passed_on(void **ctx)
{
    static const struct http_header headers[] = {
        {{(const uint8_t *)"Host", 4}, {(const uint8_t *)"elsewhere", 9}},
        {{(const uint8_t *)"Content-Length", 14}, {(const uint8_t *)"5", 1}},
        {{(const uint8_t *)"TE", 2}, {(const uint8_t *)"trailers", 8}},
        {{(const uint8_t *)"Connection", 10}, {(const uint8_t *)"close", 5}},
    };
    struct http_target target = here();
    struct trial t = get("/a");
    (void)ctx; /* static */
    t.request.headers = headers;
    t.request.n_headers = ARRAY_LEN(headers);
    run(&t, &target); /* a second Host, or length, would be refused */
    assert_status(t.st, ST_OK);
    assert_int_equal(t.request.status, 200);
}

static void bad_requests_are_refused(void **ctx)
{
    static const char *const paths[] = {"", "/a b", "/a\r\nX: y", "/\x7f"};
    struct http_target target = here(), nonsense = {.address = "nonsense"};
    struct http_header evil = {BYTES("X"), BYTES("a\r\nY: b")};
    (void)ctx; /* static */
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct trial t = get(paths[i]);
        run(&t, &target);
        assert_status(t.st, ST_INVALID);
    }
    struct trial t = get("/a");
    t.request.headers = &evil;
    t.request.n_headers = 1;
    run(&t, &target);
    assert_status(t.st, ST_INVALID);
    t = get("/a");
    run(&t, &nonsense);
    assert_status(t.st, ST_NO_LEADER);
}

static void what_may_not_be_repeated_gets_a_connection_of_its_own(void **ctx)
{
    struct http_target target = here();
    (void)ctx; /* static */
    struct trial first = get("/about"), second = get("/about");
    second.request.repeatable = false;
    run(&first, &target);
    run(&second, &target);
    assert_status(second.st, ST_OK);
    assert_int_equal(counters().connects, 2);
    limit(2, 10);
    struct trial third = get("/about"); /* both connections are used ones: one must go */
    third.request.repeatable = false;
    run(&third, &target);
    assert_status(third.st, ST_OK);
}

/* Timers come before sockets: the connection is there, and was not seen. */
static void who_connects_while_the_loop_stands_still_was_in_time(void **ctx)
{
    struct http_target target = here();
    struct env_task task = {.run = hold_up};
    struct trial t = get("/none");
    (void)ctx; /* static */
    reply_from = 0;
    limit(1, 10); /* far less than it stands still */
    start(&t, &target);
    env_post(env, &task);
    loop_run(env);
    assert_status(t.st, ST_OK);
}

/* The same of the reply. */
static void a_reply_sent_while_the_loop_stands_still_is_in_time(void **ctx)
{
    struct http_target target = here();
    struct env_task task = {.run = hold_up};
    struct trial first = get("/none"), t = get("/none");
    (void)ctx; /* static */
    run(&first, &target);
    t.request.timeout_ms = 100;
    while ((reply_from = server_bytes_out()) == 0) /* counted behind what was sent */
        (void)usleep(1000);
    start(&t, &target);
    env_post(env, &task); /* what was sent before it goes out */
    loop_run(env);
    assert_status(t.st, ST_OK);
}

/* Streams */

static void piece_collected(struct http_client_request *request, struct buf *piece, bool last)
{
    struct trial *t = CONTAINER_OF(request, struct trial, request);
    buf_add(&t->keep, buf_bytes(piece));
    if (!last)
        http_client_reply_next(request, piece_collected);
}

static void head_collected(struct http_client_request *request)
{
    assert_int_equal(request->status, 200);
    assert_true(http_client_reply_header(request, "cache-control").len != 0);
    http_client_reply_next(request, piece_collected);
}

static uint8_t large[6 * 1024 * 1024];
static size_t large_at;

static void write_more(struct http_client_request *request)
{
    size_t n = MIN(sizeof large - large_at, (size_t)300001);
    if (n == 0) {
        http_client_write_end(request);
        return;
    }
    large_at += n;
    http_client_write(request, bytes_of(large + large_at - n, n), write_more);
}

static void streams_flow_both_ways_at_once(void **ctx)
{
    struct http_target target = here();
    (void)ctx; /* static */
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (uint8_t)(i * 7 + i / 1000);
    for (int round = 0; round < 2; round++) {
        struct trial t = get("/mirror");
        large_at = 0;
        t.request.method = METHOD_POST;
        t.request.repeatable = false;
        t.request.stream_body = true;
        t.request.body_length = round == 0 ? HTTP_LENGTH_UNKNOWN : sizeof large;
        t.request.on_head = head_collected;
        start(&t, &target);
        write_more(&t.request);
        loop_run(env);
        assert_status(t.st, ST_OK);
        assert_int_equal(t.keep.len, sizeof large);
        assert_memory_equal(t.keep.data, large, sizeof large);
        buf_done(&t.keep);
    }
}

static void head_unexpected(struct http_client_request *request)
{
    fail_msg("the reply to %.*s has a short body", (int)request->path.len,
             (const char *)request->path.data);
}

static void a_short_reply_comes_whole_also_where_a_long_one_would_stream(void **ctx)
{
    struct http_target target = here();
    (void)ctx; /* static */
    const char *const paths[] = {"/echo", "/none", "/about"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct trial t = get(paths[i]);
        t.request.on_head = head_unexpected;
        t.request.whole_max = 1000;
        run(&t, &target);
        assert_status(t.st, ST_OK);
    }
    struct trial t = get("/echo");
    t.request.method = METHOD_PUT;
    t.request.body = bytes_of(large, 1001);
    t.request.on_head = head_collected;
    t.request.whole_max = 1000;
    run(&t, &target);
    assert_status(t.st, ST_OK);
    assert_int_equal(t.keep.len, 1001);
    buf_done(&t.keep);
}

static void a_large_reply_comes_whole(void **ctx)
{
    struct http_target target = here();
    (void)ctx; /* static */
    struct trial t = get("/echo");
    t.request.method = METHOD_PUT;
    t.request.body = bytes_of(large, sizeof large);
    run(&t, &target);
    assert_status(t.st, ST_OK);
    assert_int_equal(t.body_len, sizeof large);
}

static void cancel_at_head(struct http_client_request *request)
{
    http_client_cancel(request);
    outstanding--;
    loop_stop(env);
}

static void cancelled_requests_end_without_done(void **ctx)
{
    struct http_target target = here(), nowhere = {.address = "127.0.0.1:1"};
    (void)ctx; /* static */
    struct trial waiting = get("/about"), failing = get("/a"), streaming = get("/about"),
                 after = get("/about");
    start(&waiting, &target);
    http_client_cancel(&waiting.request);
    start(&failing, &nowhere);
    http_client_cancel(&failing.request);
    outstanding = 0;
    streaming.request.on_head = cancel_at_head;
    start(&streaming, &target);
    loop_run(env);
    run(&after, &target);
    assert_status(after.st, ST_OK);
    assert_false(waiting.done || failing.done || streaming.done);
}

static void every_allocation_may_fail(void **ctx)
{
    struct http_target target = here();
    (void)ctx; /* static */
    bool used = true;
    for (uint64_t i = 1; used && i < 100; i++) {
        struct trial t = get("/echo");
        t.request.repeatable = i % 2 == 0;
        t.request.method = METHOD_PUT;
        t.request.body = BYTES("hello");
        mem_fail_nth(i);
        run(&t, &target);
        used = mem_fail_nth(0);
        if (t.st == ST_OK)
            assert_string_equal(t.body, "hello");
        else
            assert_true(t.st == ST_NOMEM || t.st == ST_NO_LEADER || t.st == ST_UNKNOWN_OUTCOME);
    }
    assert_false(used);
    struct http_client *none = NULL;
    mem_fail_nth(1);
    assert_status(http_client_new(env, &none), ST_NOMEM);
    assert_true(mem_fail_nth(0));
    http_client_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_get_replies_over_one_connection),
        TEST(head_204_and_list_have_their_shapes),
        TEST(names_are_resolved),
        TEST(connections_are_bounded_and_shared),
        TEST(a_full_queue_is_busy),
        TEST(a_refused_connection_was_certainly_not_sent),
        TEST(all_who_wait_for_a_dead_target_learn_it_at_once),
        TEST(a_reply_may_be_as_long_as_asked_for),
        TEST(headers_that_frame_are_not_passed_on),
        TEST(bad_requests_are_refused),
        TEST(what_may_not_be_repeated_gets_a_connection_of_its_own),
        TEST(who_connects_while_the_loop_stands_still_was_in_time),
        TEST(a_reply_sent_while_the_loop_stands_still_is_in_time),
        TEST(streams_flow_both_ways_at_once),
        TEST(a_short_reply_comes_whole_also_where_a_long_one_would_stream),
        TEST(a_large_reply_comes_whole),
        TEST(cancelled_requests_end_without_done),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
