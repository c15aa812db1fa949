#include "http/with_server.h"

#include <stdlib.h>
#include <time.h>

static void a_request_gets_its_reply(void **ctx)
{
    (void)ctx; /* static */
    char *out = TALK("GET /a/b?c=d HTTP/1.1\r\n" HOST CLOSE "X-VAULT-TOKEN:  s.1 \r\n\r\n");
    (void)undate(out); /* one, as the text shows */
    assert_string_equal(
        out, "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Type: text/plain" UNDATED
             "\r\nContent-Length: 30\r\nConnection: close\r\n\r\n"
             "GET /a/b?c=d token=s.1 body=0\n");
}

static void errors_are_text_where_the_handler_has_no_form(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("GET /missing HTTP/1.1\r\n" HOST CLOSE "\r\n");
    assert_has(out, "HTTP/1.1 404 Not Found\r\nCache-Control: no-store\r\n"
                    "Content-Type: text/plain; charset=utf-8\r\n");
    assert_has(out, "\r\n\r\n\n");
    assert_has(TALK("GET /quote HTTP/1.1\r\n" HOST CLOSE "\r\n"),
               "\r\n\r\n1 error occurred:\n\t* \"x\\y\" \x01\n\n\n");
}

static void list_reaches_the_handler(void **ctx)
{
    (void)ctx; /* static */
    assert_has(TALK("LIST /a HTTP/1.1\r\n" HOST "\r\nLIST /b HTTP/1.1\r\n" HOST CLOSE "\r\n"),
               "LIST /b? token= body=0");
}

static void a_body_comes_with_the_request(void **ctx)
{
    (void)ctx; /* static */
    assert_has(TALK("PUT /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 5\r\n\r\nhello"),
               "\r\n\r\nhello");
    assert_has(TALK("PUT /echo HTTP/1.1\r\n" HOST CLOSE
                    "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
               "Content-Length: 5\r\nConnection: close\r\n\r\nhello");
}

static void any_split_of_the_input_gives_the_same_replies(void **ctx)
{
    static char whole[4096], split[4096];
    struct bytes in = BYTES("PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
                            "LIST /x?y HTTP/1.1\r\n" HOST "\r\n"
                            "PUT /echo HTTP/1.1\r\n" HOST
                            "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
                            "GET /end HTTP/1.1\r\n" HOST CLOSE "\r\n");
    (void)ctx;                                           /* static */
    (void)snprintf(whole, sizeof whole, "%s", talk(in)); /* fits */
    assert_int_equal(undate(whole), 4);
    assert_int_equal(count(whole, "HTTP/1.1 200 OK"), 4);
    for (size_t cut = 1; cut < in.len; cut++) {
        int fd = dial(&h);
        int on = 1;
        assert_int_equal(setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on), 0);
        assert_int_equal(say(fd, bytes_of(in.data, cut)), cut);
        sched_yield();
        assert_int_equal(say(fd, bytes_from(in, cut)), in.len - cut);
        (void)hear(fd, split, sizeof split, NULL);
        (void)close(fd);
        assert_int_equal(undate(split), 4);
        assert_string_equal(split, whole);
    }
}

static void pipelined_requests_get_replies_in_order(void **ctx)
{
    static char in[20000], out[64 * 1024];
    size_t n = 0;
    char want[40];
    (void)ctx; /* static */
    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(in + n, sizeof in - n, "GET /%s%d HTTP/1.1\r\n" HOST "%s\r\n",
                              i % 10 == 3 ? "job?" : "n", i, i == 99 ? CLOSE : "");
    int fd = dial(&h);
    assert_int_equal(say(fd, bytes_of(in, n)), n);
    (void)hear(fd, out, sizeof out, NULL);
    (void)close(fd);
    const char *at = out;
    for (int i = 0; i < 100; i++) {
        (void)snprintf(want, sizeof want, i % 10 == 3 ? "worked\n" : "GET /n%d?", i); /* fits */
        at = strstr(at, want);
        assert_non_null(at);
    }
    assert_int_equal(count(out, "HTTP/1.1 200 OK"), 100);
}

static void a_pipelined_request_waits_for_the_one_before(void **ctx)
{
    static char out[4096];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /hold HTTP/1.1\r\n" HOST "\r\nGET /two HTTP/1.1\r\n" HOST "\r\n"));
    struct timeval brief = {.tv_usec = 50 * 1000};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief), 0);
    assert_int_equal(hear(fd, out, sizeof out, NULL), 0);
    assert_has(TALK("GET /release HTTP/1.1\r\n" HOST CLOSE "\r\n"), "did");
    brief.tv_sec = 10;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief), 0);
    (void)hear(fd, out, sizeof out, "/two");
    assert_true(strstr(out, "released") < strstr(out, "GET /two"));
    (void)close(fd);
}

static void work_off_the_loop_replies_later(void **ctx)
{
    (void)ctx; /* static */
    assert_has(TALK("GET /job HTTP/1.1\r\n" HOST CLOSE "\r\n"), "worked");
}

static void old_clients_are_closed_or_kept_as_they_ask(void **ctx)
{
    (void)ctx; /* static */
    assert_has(TALK("GET /a HTTP/1.0\r\n\r\n"), "Connection: close\r\n");
    const char *out =
        TALK("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /b HTTP/1.0\r\n\r\n");
    assert_has(out, "Connection: keep-alive\r\n");
    assert_has(out, "GET /b?");
}

static void head_and_204_have_no_body(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("HEAD /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
                           "GET /none HTTP/1.1\r\n" HOST CLOSE "\r\n");
    assert_has(out, "Content-Length: 5\r\n\r\nHTTP/1.1 204 No Content\r\n");
    assert_null(strstr(out, "hello"));
    assert_int_equal(count(out, "Content-Length"), 1);
}

static void a_half_closed_client_still_gets_its_reply(void **ctx)
{
    static char out[4096];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /job HTTP/1.1\r\n" HOST "\r\nGET /two HTTP/1.1\r\n" HOST "\r\n"));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    (void)hear(fd, out, sizeof out, NULL);
    assert_has(out, "worked");
    assert_has(out, "GET /two");
    (void)close(fd);
}

static void expecting_clients_are_told_to_continue(void **ctx)
{
    static char out[4096];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /echo HTTP/1.1\r\n" HOST CLOSE
                        "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"));
    (void)hear(fd, out, sizeof out, "\r\n\r\n");
    assert_string_equal(out, "HTTP/1.1 100 Continue\r\n\r\n");
    (void)say(fd, BYTES("hello"));
    (void)hear(fd, out, sizeof out, NULL);
    assert_has(out, "hello");
    (void)close(fd);
    const char *refused =
        TALK("PUT /early HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_has(refused, "HTTP/1.1 403");
    assert_null(strstr(refused, "100 Continue"));
}

static void what_is_malformed_is_refused_and_closed(void **ctx)
{
    static const char *const cases[][2] = {
        {"GET / HTTP/1.1\r\n\r\n", "400"},
        {"LINK / HTTP/1.1\r\n" HOST "\r\n", "501"},
        {"GET / HTTP/3.0\r\n" HOST "\r\n", "400"},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", "505"},
        {"PUT / HTTP/1.1\r\n" HOST "Expect: x\r\n\r\n", "417"},
        {"garbage\r\n\r\n", "400"},
    };
    char want[40];
    (void)ctx; /* static */
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *out = talk(bytes_str(cases[i][0]));
        (void)snprintf(want, sizeof want, "HTTP/1.1 %s ", cases[i][1]); /* fits */
        assert_has(out, want);
        assert_has(out, "Connection: close\r\n\r\n");
    }
}

static void hostile_framings_are_refused_and_closed(void **ctx)
{
    char want[40];
    (void)ctx; /* static */
    for (size_t i = 0; i < ARRAY_LEN(hostile); i++) {
        CLEANUP(buf_done) struct buf in = {0};
        buf_add(&in, BYTES("GET /first HTTP/1.1\r\n" HOST "\r\n"));
        buf_add(&in, hostile[i].in);
        buf_add(&in, BYTES("GET /smuggled HTTP/1.1\r\n" HOST "\r\n"));
        const char *out = talk(buf_bytes(&in)); /* returns when the server closes */
        (void)snprintf(want, sizeof want, "HTTP/1.1 %d ", hostile[i].status); /* fits */
        assert_has(out, "GET /first");
        assert_has(out, want);
        assert_int_equal(count(out, "HTTP/1.1 "), 2);
        assert_null(strstr(out, "smuggled"));
    }
}

static void nothing_behind_a_refused_request_is_served(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("POST /1 HTTP/1.1\r\n" HOST
                           "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                           "GET /smuggled HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(count(out, "HTTP/1.1 "), 1);
    assert_null(strstr(out, "smuggled"));
}

static void requests_before_a_malformed_one_are_served(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("GET /one HTTP/1.1\r\n" HOST "\r\nGARBAGE\r\n\r\n");
    assert_true(strstr(out, "GET /one") < strstr(out, "HTTP/1.1 400"));
}

static void a_header_that_would_split_the_reply_is_left_out(void **ctx)
{
    (void)ctx; /* static */
    trace_set_level(TRACE_OFF);
    const char *out = TALK("GET /evil HTTP/1.1\r\n" HOST CLOSE "\r\n");
    trace_set_level(TRACE_INFO);
    assert_has(out, "X-Good: yes\r\n");
    assert_null(strstr(out, "Split"));
    assert_int_equal(count(out, "Content-Length"), 1);
}

static int64_t date_of(const char *head)
{
    struct tm tm = {0};
    const char *date = strstr(head, "\r\nDate: ");
    assert_non_null(date);
    const char *end = strptime(date, "%n Date: %a, %d %b %Y %H:%M:%S GMT", &tm);
    assert_non_null(end);
    assert_memory_equal(end, "\r\n", 2);
    return timegm(&tm);
}

/* Of each kind: given whole, without a body, in pieces, an error, the server's own refusal. */
static void each_reply_has_the_date(void **ctx)
{
    static const char *const asked[] = {
        "GET /a HTTP/1.1\r\n" HOST CLOSE "\r\n",       "GET /none HTTP/1.1\r\n" HOST CLOSE "\r\n",
        "HEAD /a HTTP/1.1\r\n" HOST CLOSE "\r\n",      "GET /flow?1 HTTP/1.1\r\n" HOST CLOSE "\r\n",
        "GET /missing HTTP/1.1\r\n" HOST CLOSE "\r\n", "GET /evil HTTP/1.1\r\n" HOST CLOSE "\r\n",
        "GET /early HTTP/1.1\r\n" HOST CLOSE "\r\n",   "GET / HTTP/9.9\r\n\r\n",
    };
    enum { SLACK_S = 60 };
    (void)ctx; /* static */
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        int64_t before = time(NULL);
        char *out = talk(bytes_str(asked[i]));
        assert_in_range(date_of(out), before - SLACK_S, time(NULL) + SLACK_S);
        assert_int_equal(undate(out), 1);
    }
}

static void the_peer_is_known(void **ctx)
{
    (void)ctx; /* static */
    assert_has(TALK("GET /peer HTTP/1.1\r\n" HOST CLOSE "\r\n"), "peer 127.0.0.1:");
    const char *out =
        TALK("GET /peer HTTP/1.1\r\n" HOST "\r\nGET /peer HTTP/1.1\r\n" HOST CLOSE "\r\n");
    const char *first = strstr(out, "peer "),
               *second = first != NULL ? strstr(first + 1, "peer ") : NULL;
    assert_non_null(second);
    assert_memory_equal(first, second, strcspn(first, "\n"));
}

static void what_happens_is_counted(void **ctx)
{
    struct http_counters n;
    (void)ctx; /* static */
    (void)TALK("GET /a HTTP/1.1\r\n" HOST "\r\nGET /missing HTTP/1.1\r\n" HOST CLOSE "\r\n");
    (void)TALK("garbage\r\n");
    http_server_counters(h.server, &n);
    assert_int_equal(n.connections_accepted, 2);
    assert_int_equal(n.requests, 2);
    assert_int_equal(n.replies[2], 1);
    assert_int_equal(n.replies[4], 2);
    assert_int_equal(n.rejected, 1);
    assert_true(n.bytes_in > 50 && n.bytes_out > 200);
}

static uint64_t fail_nth;
static atomic_bool fail_armed;

static void arm(struct env_task *task)
{
    (void)task; /* static */
    mem_fail_nth(fail_nth);
    atomic_store(&fail_armed, true);
}

static const char *const fallible[] = {
    "GET /a HTTP/1.1\r\n" HOST CLOSE "\r\n",
    "PUT /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 30000\r\n\r\n",
    "PUT /drip HTTP/1.1\r\n" HOST CLOSE "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    "GET /quote HTTP/1.1\r\n" HOST "\r\nGET /none HTTP/1.1\r\n" HOST "\r\nGET /x",
    "garbage\r\n",
};

static void the_server_survives_lack_of_memory(void **ctx)
{
    static struct env_task arm_task = {.run = arm};
    static uint8_t body[30000];
    static char out[40000];
    (void)ctx; /* static */
    for (fail_nth = 1; fail_nth < 12; fail_nth++)
        for (size_t i = 0; i < ARRAY_LEN(fallible); i++) {
            atomic_store(&fail_armed, false);
            env_post(h.env, &arm_task);
            while (!atomic_load(&fail_armed))
                sched_yield();
            int fd = dial(&h);
            (void)say(fd, bytes_str(fallible[i]));
            if (strstr(fallible[i], "30000") != NULL)
                (void)say(fd, bytes_of(body, sizeof body));
            assert_int_equal(shutdown(fd, SHUT_WR), 0);
            (void)hear(fd, out, sizeof out, NULL); /* a reply, or just an end */
            (void)close(fd);
        }
    await_no_connection();
}

static void starting_survives_lack_of_memory(void **ctx)
{
    (void)ctx; /* static */
    struct http_server *server = NULL;
    mem_fail_nth(1);
    assert_int_equal(http_server_start(h.env, &h.options, &server, NULL), ST_NOMEM);
    assert_true(mem_fail_nth(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_gets_its_reply),
        TEST(errors_are_text_where_the_handler_has_no_form),
        TEST(list_reaches_the_handler),
        TEST(a_body_comes_with_the_request),
        TEST(any_split_of_the_input_gives_the_same_replies),
        TEST(pipelined_requests_get_replies_in_order),
        TEST(a_pipelined_request_waits_for_the_one_before),
        TEST(work_off_the_loop_replies_later),
        TEST(old_clients_are_closed_or_kept_as_they_ask),
        TEST(head_and_204_have_no_body),
        TEST(a_half_closed_client_still_gets_its_reply),
        TEST(expecting_clients_are_told_to_continue),
        TEST(what_is_malformed_is_refused_and_closed),
        TEST(hostile_framings_are_refused_and_closed),
        TEST(nothing_behind_a_refused_request_is_served),
        TEST(requests_before_a_malformed_one_are_served),
        TEST(a_header_that_would_split_the_reply_is_left_out),
        TEST(each_reply_has_the_date),
        TEST(the_peer_is_known),
        TEST(what_happens_is_counted),
        TEST(the_server_survives_lack_of_memory),
        TEST(starting_survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
