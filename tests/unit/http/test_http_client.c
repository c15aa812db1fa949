/* The client against our server, and against servers that lie, tarry or vanish. */
#include "crypto/tls_pair.h"

#include "http/harness.h"

#include "http/client.h"

#include <stdlib.h>

/* Our server */

struct mirror {
    struct http_request *req;
    struct buf piece;
    bool last;
};

static void mirror_sent(struct http_request *req, enum status st);

static void mirror_piece(struct http_request *req, enum status st, struct bytes piece, bool last)
{
    struct mirror *m = req->user;
    m->last = last || st != ST_OK;
    buf_clear(&m->piece);
    buf_add(&m->piece, piece);
    http_respond_piece(req, buf_bytes(&m->piece), mirror_sent);
}

/* Send the body back as it comes. */
static void mirror_sent(struct http_request *req, enum status st)
{
    struct mirror *m = req->user;
    if (st == ST_OK && !m->last) {
        http_body_next(req, mirror_piece);
        return;
    }
    buf_done(&m->piece);
    http_respond_end(req, st == ST_OK);
}

static void on_head(void *ctx, struct http_request *req)
{
    (void)ctx; /* stateless */
    if (bytes_eq(req->path, BYTES("/mirror")))
        http_stream_body(req, 0);
}

static void on_request(void *ctx, struct http_request *req)
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

/* A server that reads a request's head and says what it was told to. */

struct liar {
    int listener;
    pthread_t thread;
    const char *const *answers; /* one a request, in order; NULL: hang up; ends with "" */
    bool hold;                  /* keep the connection until the client ends */
    atomic_int requests;
};

static bool liar_hears(int fd)
{
    char text[4096];
    return hear(fd, text, sizeof text, "\r\n\r\n") > 0;
}

static void *liar_main(void *arg)
{
    struct liar *l = arg;
    int fd = -1;
    for (size_t i = 0; l->answers[i] == NULL || l->answers[i][0] != '\0'; i++) {
        if (fd < 0)
            fd = accept(l->listener, NULL, NULL);
        if (fd < 0 || !liar_hears(fd))
            break;
        atomic_fetch_add(&l->requests, 1);
        if (l->answers[i] != NULL) {
            (void)say(fd, bytes_str(l->answers[i]));
        } else {
            (void)close(fd);
            fd = -1;
        }
    }
    char c;
    if (l->hold && fd >= 0)
        (void)recv(fd, &c, 1, 0); /* until the client ends */
    if (fd >= 0)
        (void)close(fd);
    return NULL;
}

static void liar_up(struct liar *l, const char *const *answers)
{
    l->listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    l->answers = answers;
    assert_int_equal(bind(l->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(l->listener, 16), 0);
    assert_int_equal(pthread_create(&l->thread, NULL, liar_main, l), 0);
}

static void liar_down(struct liar *l)
{
    (void)shutdown(l->listener, SHUT_RDWR); /* wakes an accept */
    assert_int_equal(pthread_join(l->thread, NULL), 0);
    (void)close(l->listener);
}

static uint16_t port_of(int listener)
{
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    return ntohs(at.sin_port);
}

/* The client's side: an env of the test's own thread. */

static struct env *env;
static struct http_client *client;
static struct harness h;
static char address[64];
static size_t outstanding;

struct trial {
    struct http_call call;
    enum status st;
    bool done;
    char answer[32], body[256];
    size_t body_len;
    struct buf keep;
};

static void on_done(struct http_call *call, enum status st)
{
    struct trial *t = CONTAINER_OF(call, struct trial, call);
    assert_false(t->done);
    t->done = true;
    t->st = st;
    if (st == ST_OK && call->on_head == NULL) {
        struct bytes answer = http_call_header(call, "X-Answer");
        if (answer.len != 0)
            memcpy(t->answer, answer.data, MIN(answer.len, sizeof t->answer - 1));
        t->body_len = call->reply.len;
        if (call->reply.len != 0)
            memcpy(t->body, call->reply.data, MIN(call->reply.len, sizeof t->body - 1));
    }
    buf_done(&call->reply);
    ASSERT(outstanding > 0);
    if (--outstanding == 0)
        loop_stop(env);
}

static struct trial get(const char *path)
{
    return (struct trial){.call = {.method = METHOD_GET,
                                   .path = bytes_str(path),
                                   .repeatable = true,
                                   .timeout_ms = 120000,
                                   .done = on_done}};
}

static void start(struct trial *t, const struct http_target *target)
{
    outstanding++;
    http_call_send(client, target, &t->call);
    assert_false(t->done); /* never from inside */
}

static void run(struct trial *t, const struct http_target *target)
{
    start(t, target);
    loop_run(env);
    assert_true(t->done);
}

static struct http_target here(void)
{
    return (struct http_target){.address = address};
}

static void on_closed(void *ctx)
{
    (void)ctx; /* the only client */
    loop_stop(env);
}

static int setup(void **ctx)
{
    (void)ctx; /* static */
    outstanding = 0;
    harness_up(&h, &handler, NULL, NULL);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", http_server_port(h.server)); /* fits */
    assert_status(loop_new(NULL, &env), ST_OK);
    assert_status(http_client_new(env, &client), ST_OK);
    return 0;
}

static int teardown(void **ctx)
{
    (void)ctx; /* static */
    http_client_close(client, on_closed, NULL);
    loop_run(env);
    http_client_free(client);
    loop_free(env);
    harness_down(&h);
    return 0;
}

static struct http_client_counters counters(void)
{
    struct http_client_counters n;
    http_client_counters(client, &n);
    return n;
}

static void limit(size_t connections, size_t waiting)
{
    struct http_client_limits limits = http_client_limits_default;
    limits.connections_max = connections;
    limits.waiting_max = waiting;
    limits.connect_ms = 100;
    http_client_limit(client, &limits);
}

static void calls_are_answered_over_one_connection(void **ctx)
{
    struct http_target target = here();
    (void)ctx; /* static */
    for (int i = 0; i < 3; i++) {
        struct trial t = get("/echo?x");
        t.call.method = METHOD_PUT;
        t.call.body = BYTES("hello");
        run(&t, &target);
        assert_status(t.st, ST_OK);
        assert_int_equal(t.call.status, 200);
        assert_string_equal(t.answer, "forty-two");
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
    head.call.method = METHOD_HEAD;
    run(&head, &target);
    assert_status(head.st, ST_OK);
    assert_int_equal(head.body_len, 0);
    run(&none, &target);
    assert_int_equal(none.call.status, 204);
    list.call.method = METHOD_LIST;
    list.call.headers = headers;
    list.call.n_headers = 2;
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
    assert_string_not_equal(lost.call.reason.text, "");
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
    assert_string_equal(t.call.reason.text, "connection refused");
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

static void an_answer_may_be_as_long_as_asked_for(void **ctx)
{
    struct http_target target = here();
    struct trial t = get("/about"), exact = t, more = t;
    (void)ctx; /* static */
    run(&t, &target);
    assert_true(t.st == ST_OK && t.body_len > 1);
    exact.call.reply_bytes_max = t.body_len;
    run(&exact, &target);
    assert_status(exact.st, ST_OK);
    assert_int_equal(exact.body_len, t.body_len);
    more.call.reply_bytes_max = t.body_len - 1;
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
    t.call.headers = headers;
    t.call.n_headers = ARRAY_LEN(headers);
    run(&t, &target); /* a second Host, or length, would be refused */
    assert_status(t.st, ST_OK);
    assert_int_equal(t.call.status, 200);
}

static void bad_calls_are_refused(void **ctx)
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
    t.call.headers = &evil;
    t.call.n_headers = 1;
    run(&t, &target);
    assert_status(t.st, ST_INVALID);
    t = get("/a");
    run(&t, &nonsense);
    assert_status(t.st, ST_NO_LEADER);
}

static void answers_that_cannot_be_used_leave_the_outcome_unknown(void **ctx)
{
    static const char *const answers[] = {
        NULL,
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
        "HTTP/1.1 101 Switching\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n",
        "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\n"
        "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\n"
        "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\n",
    };
    char at[64];
    (void)ctx; /* static */
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        const char *const one[] = {answers[i], ""};
        struct liar liar = {0};
        liar_up(&liar, one);
        (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
        struct http_target target = {.address = at};
        struct trial t = get("/a");
        t.call.reply_bytes_max = 1000;
        run(&t, &target);
        assert_status(t.st, ST_UNKNOWN_OUTCOME);
        assert_string_not_equal(t.call.reason.text, "");
        liar_down(&liar);
    }
}

static void interim_answers_are_skipped(void **ctx)
{
    static const char *const answers[] = {
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nX: y\r\n\r\n"
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        ""};
    struct liar liar = {0};
    char at[64];
    (void)ctx; /* static */
    liar_up(&liar, answers);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
    struct http_target target = {.address = at};
    struct trial t = get("/a");
    run(&t, &target);
    assert_status(t.st, ST_OK);
    assert_int_equal(t.call.status, 200);
    assert_string_equal(t.body, "ab");
    liar_down(&liar);
}

#define GOOD "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void a_connection_found_dead_is_replaced_once(void **ctx)
{
    static const char *const answers[] = {GOOD, NULL, GOOD, NULL, NULL, ""};
    struct liar liar = {0};
    char at[64];
    (void)ctx; /* static */
    liar_up(&liar, answers);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
    struct http_target target = {.address = at};
    struct trial first = get("/a"), second = get("/b"), third = get("/c");
    run(&first, &target);
    run(&second, &target); /* hung up on, sent again */
    assert_status(second.st, ST_OK);
    assert_int_equal(counters().repeated, 1);
    run(&third, &target); /* hung up on twice */
    assert_status(third.st, ST_UNKNOWN_OUTCOME);
    assert_int_equal(atomic_load(&liar.requests), 5);
    liar_down(&liar);
}

static void a_call_to_be_sent_once_takes_a_kept_connection(void **ctx)
{
    static const char *const answers[] = {GOOD, NULL, ""};
    struct liar liar = {0};
    char at[64];
    (void)ctx; /* static */
    liar_up(&liar, answers);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
    struct http_target target = {.address = at};
    struct trial first = get("/a"), second = get("/b");
    second.call.once = true;
    run(&first, &target);
    run(&second, &target); /* hung up on, and left to the caller */
    assert_status(second.st, ST_UNKNOWN_OUTCOME);
    assert_int_equal(counters().connects, 1);
    assert_int_equal(counters().repeated, 0);
    assert_int_equal(atomic_load(&liar.requests), 2);
    liar_down(&liar);
}

static void what_may_not_be_repeated_gets_a_connection_of_its_own(void **ctx)
{
    struct http_target target = here();
    (void)ctx; /* static */
    struct trial first = get("/about"), second = get("/about");
    second.call.repeatable = false;
    run(&first, &target);
    run(&second, &target);
    assert_status(second.st, ST_OK);
    assert_int_equal(counters().connects, 2);
    limit(2, 10);
    struct trial third = get("/about"); /* both connections are used ones: one must go */
    third.call.repeatable = false;
    run(&third, &target);
    assert_status(third.st, ST_OK);
}

static void more_than_an_answer_ends_the_connection(void **ctx)
{
    static const char *const answers[] = {GOOD "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
                                          ""};
    struct liar liar = {.hold = true};
    char at[64];
    (void)ctx; /* static */
    liar_up(&liar, answers);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
    struct http_target target = {.address = at};
    struct trial t = get("/a");
    run(&t, &target);
    assert_status(t.st, ST_OK);
    assert_string_equal(t.body, "ok");
    liar_down(&liar); /* returns: the client hung up */
}

static void silence_ends_in_time(void **ctx)
{
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\n", ""};
    struct liar liar = {.hold = true};
    char at[64];
    (void)ctx; /* static */
    liar_up(&liar, answers);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
    limit(1, 10);
    struct http_target target = {.address = at};
    struct trial t = get("/a"), waits = get("/b");
    t.call.timeout_ms = 2000; /* far longer than it takes to send it */
    waits.call.timeout_ms = 500;
    start(&t, &target);
    run(&waits, &target);
    assert_status(t.st, ST_UNKNOWN_OUTCOME);
    assert_status(waits.st, ST_BUSY);
    liar_down(&liar);
}

static uint64_t server_bytes_out(void)
{
    struct http_counters n;
    http_server_counters(h.server, &n);
    return n.bytes_out;
}

static uint64_t answer_from; /* what the server had sent before; 0: it is not waited for */

static void hold_up(struct env_task *task)
{
    (void)task; /* the loop's thread does something else for long */
    (void)usleep(300 * 1000);
    for (int i = 0; i < 60000 && answer_from != 0 && server_bytes_out() == answer_from; i++)
        (void)usleep(1000); /* on a busy machine the server has not had its turn yet */
}

/* Timers come before sockets: the connection is there, and was not seen. */
static void who_connects_while_the_loop_stands_still_was_in_time(void **ctx)
{
    struct http_target target = here();
    struct env_task task = {.run = hold_up};
    struct trial t = get("/none");
    (void)ctx; /* static */
    answer_from = 0;
    limit(1, 10); /* far less than it stands still */
    start(&t, &target);
    env_post(env, &task);
    loop_run(env);
    assert_status(t.st, ST_OK);
}

/* The same of the answer. */
static void who_answers_while_the_loop_stands_still_was_in_time(void **ctx)
{
    struct http_target target = here();
    struct env_task task = {.run = hold_up};
    struct trial first = get("/none"), t = get("/none");
    (void)ctx; /* static */
    run(&first, &target);
    t.call.timeout_ms = 100;
    while ((answer_from = server_bytes_out()) == 0) /* counted behind what was sent */
        (void)usleep(1000);
    start(&t, &target);
    env_post(env, &task); /* what was sent before it goes out */
    loop_run(env);
    assert_status(t.st, ST_OK);
}

/* Streams */

static void piece_collected(struct http_call *call, struct buf *piece, bool last)
{
    struct trial *t = CONTAINER_OF(call, struct trial, call);
    buf_add(&t->keep, buf_bytes(piece));
    if (!last)
        http_call_next(call, piece_collected);
}

static void head_collected(struct http_call *call)
{
    assert_int_equal(call->status, 200);
    assert_true(http_call_header(call, "cache-control").len != 0);
    http_call_next(call, piece_collected);
}

static uint8_t large[6 * 1024 * 1024];
static size_t large_at;

static void write_more(struct http_call *call)
{
    size_t n = MIN(sizeof large - large_at, (size_t)300001);
    if (n == 0) {
        http_call_write_end(call);
        return;
    }
    large_at += n;
    http_call_write(call, bytes_of(large + large_at - n, n), write_more);
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
        t.call.method = METHOD_POST;
        t.call.repeatable = false;
        t.call.stream_body = true;
        t.call.body_length = round == 0 ? HTTP_LENGTH_UNKNOWN : sizeof large;
        t.call.on_head = head_collected;
        start(&t, &target);
        write_more(&t.call);
        loop_run(env);
        assert_status(t.st, ST_OK);
        assert_int_equal(t.keep.len, sizeof large);
        assert_memory_equal(t.keep.data, large, sizeof large);
        buf_done(&t.keep);
    }
}

static void head_unexpected(struct http_call *call)
{
    fail_msg("the answer to %.*s has a short body", (int)call->path.len,
             (const char *)call->path.data);
}

static void a_short_answer_comes_whole_also_where_a_long_one_would_stream(void **ctx)
{
    struct http_target target = here();
    (void)ctx; /* static */
    const char *const paths[] = {"/echo", "/none", "/about"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct trial t = get(paths[i]);
        t.call.on_head = head_unexpected;
        t.call.whole_max = 1000;
        run(&t, &target);
        assert_status(t.st, ST_OK);
    }
    struct trial t = get("/echo");
    t.call.method = METHOD_PUT;
    t.call.body = bytes_of(large, 1001);
    t.call.on_head = head_collected;
    t.call.whole_max = 1000;
    run(&t, &target);
    assert_status(t.st, ST_OK);
    assert_int_equal(t.keep.len, 1001);
    buf_done(&t.keep);
}

static void a_large_answer_comes_whole(void **ctx)
{
    struct http_target target = here();
    (void)ctx; /* static */
    struct trial t = get("/echo");
    t.call.method = METHOD_PUT;
    t.call.body = bytes_of(large, sizeof large);
    run(&t, &target);
    assert_status(t.st, ST_OK);
    assert_int_equal(t.body_len, sizeof large);
}

static void cancel_at_head(struct http_call *call)
{
    http_call_cancel(call);
    outstanding--;
    loop_stop(env);
}

static void cancelled_calls_are_never_told(void **ctx)
{
    struct http_target target = here(), nowhere = {.address = "127.0.0.1:1"};
    (void)ctx; /* static */
    struct trial waiting = get("/about"), failing = get("/a"), streaming = get("/about"),
                 after = get("/about");
    start(&waiting, &target);
    http_call_cancel(&waiting.call);
    start(&failing, &nowhere);
    http_call_cancel(&failing.call);
    outstanding = 0;
    streaming.call.on_head = cancel_at_head;
    start(&streaming, &target);
    loop_run(env);
    run(&after, &target);
    assert_status(after.st, ST_OK);
    assert_false(waiting.done || failing.done || streaming.done);
}

static void close_now(struct env_task *task)
{
    (void)task; /* static */
    http_client_close(client, on_closed, NULL);
}

static void closing_ends_what_is_under_way(void **ctx)
{
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\n", ""};
    static struct env_task closing = {.run = close_now};
    struct liar liar = {.hold = true};
    char at[64];
    (void)ctx; /* static */
    liar_up(&liar, answers);
    limit(1, 10);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
    struct http_target target = {.address = at};
    struct trial sent = get("/a"), unsent = get("/b");
    start(&sent, &target);
    start(&unsent, &target);
    while (atomic_load(&liar.requests) == 0)
        (void)uv_run(loop_uv(env), UV_RUN_NOWAIT); /* until the first was sent */
    outstanding += 10;                             /* on_closed stops the loop, not the last call */
    env_post(env, &closing);
    loop_run(env);
    assert_status(sent.st, ST_UNKNOWN_OUTCOME);
    assert_status(unsent.st, ST_CLOSED);
    liar_down(&liar);
    http_client_free(client);
    assert_status(http_client_new(env, &client), ST_OK);
}

/* TLS */

static void a_certificate_of_another_name_is_refused(void **ctx)
{
    struct pki pki;
    struct harness secure;
    char at[64];
    (void)ctx; /* static */
    pki_init(&pki);
    struct tls_options options = own(&pki.server, NULL);
    options.server = true;
    options.alpn = "http/1.1";
    struct tls_ctx *server_ctx = ctx_of(options), *client_ctx = ctx_of(own(NULL, &pki.ca)),
                   *stranger = ctx_of(own(NULL, &pki.other_ca));
    harness_up(&secure, &handler, NULL, server_ctx);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", http_server_port(secure.server)); /* fits */
    struct http_target right = {.address = at, .tls = client_ctx, .host = "localhost"};
    struct http_target wrong = right, foreign = right, node = right, clear = {.address = at};
    wrong.host = "other.example";
    foreign.tls = stranger;
    node.uri = "holdfast://aa/node/n1";
    struct trial a = get("/about"), b = get("/about"), c = get("/about"), d = get("/about"),
                 e = get("/about"), big = get("/echo");
    limit(4, 4);
    struct env_task task = {.run = hold_up};
    env_post(env, &task); /* for longer than connecting may take */
    run(&a, &right);
    assert_status(a.st, ST_OK);
    big.call.method = METHOD_PUT;
    big.call.body = bytes_of(large, sizeof large);
    run(&big, &right);
    assert_status(big.st, ST_OK);
    assert_int_equal(big.body_len, sizeof large);
    run(&b, &wrong);
    assert_status(b.st, ST_NO_LEADER);
    run(&c, &foreign);
    assert_status(c.st, ST_NO_LEADER);
    assert_string_not_equal(c.call.reason.text, "");
    run(&e, &node); /* the connection that is kept was to somebody without that name */
    assert_status(e.st, ST_NO_LEADER);
    run(&d, &clear);
    assert_status(d.st, ST_OK);
    assert_int_equal(d.call.status, 400);
    harness_down(&secure);
    tls_ctx_unref(server_ctx);
    tls_ctx_unref(client_ctx);
    tls_ctx_unref(stranger);
    pki_done(&pki);
}

static void a_handshake_that_hangs_was_certainly_not_sent(void **ctx)
{
    static const char *const answers[] = {""};
    struct liar liar = {0};
    struct tls_options options = {.insecure = true};
    char at[64];
    (void)ctx; /* static */
    struct tls_ctx *tls = ctx_of(options);
    liar_up(&liar, answers);
    limit(4, 4);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
    struct http_target target = {.address = at, .tls = tls};
    struct trial t = get("/a");
    run(&t, &target);
    assert_status(t.st, ST_NO_LEADER);
    tls_ctx_unref(tls);
    liar_down(&liar);
}

static void few_handshakes_are_under_way_at_once(void **ctx)
{
    enum { CALLS = 40 };
    static const char *const answers[] = {""};
    static struct trial trials[CALLS];
    struct liar liar = {0};
    char at[64];
    (void)ctx; /* static */
    struct tls_ctx *tls = ctx_of((struct tls_options){.insecure = true});
    liar_up(&liar, answers);
    limit(CALLS, CALLS);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
    struct http_target target = {.address = at, .tls = tls};
    for (int i = 0; i < CALLS; i++) {
        trials[i] = get("/a");
        start(&trials[i], &target);
    }
    loop_run(env);
    for (int i = 0; i < CALLS; i++)
        assert_status(trials[i].st, ST_NO_LEADER);
    assert_in_range(counters().connects_failed, 1, http_client_limits_default.connecting_max);
    tls_ctx_unref(tls);
    liar_down(&liar);
}

static void every_allocation_may_fail(void **ctx)
{
    struct http_target target = here();
    (void)ctx; /* static */
    bool used = true;
    for (uint64_t i = 1; used && i < 100; i++) {
        struct trial t = get("/echo");
        t.call.repeatable = i % 2 == 0;
        t.call.method = METHOD_PUT;
        t.call.body = BYTES("hello");
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(calls_are_answered_over_one_connection),
        TEST(head_204_and_list_have_their_shapes),
        TEST(names_are_resolved),
        TEST(connections_are_bounded_and_shared),
        TEST(a_full_queue_is_busy),
        TEST(a_refused_connection_was_certainly_not_sent),
        TEST(all_who_wait_for_a_dead_target_learn_it_at_once),
        TEST(an_answer_may_be_as_long_as_asked_for),
        TEST(headers_that_frame_are_not_passed_on),
        TEST(bad_calls_are_refused),
        TEST(answers_that_cannot_be_used_leave_the_outcome_unknown),
        TEST(interim_answers_are_skipped),
        TEST(a_connection_found_dead_is_replaced_once),
        TEST(a_call_to_be_sent_once_takes_a_kept_connection),
        TEST(what_may_not_be_repeated_gets_a_connection_of_its_own),
        TEST(more_than_an_answer_ends_the_connection),
        TEST(silence_ends_in_time),
        TEST(who_connects_while_the_loop_stands_still_was_in_time),
        TEST(who_answers_while_the_loop_stands_still_was_in_time),
        TEST(streams_flow_both_ways_at_once),
        TEST(a_short_answer_comes_whole_also_where_a_long_one_would_stream),
        TEST(a_large_answer_comes_whole),
        TEST(cancelled_calls_are_never_told),
        TEST(closing_ends_what_is_under_way),
        TEST(a_certificate_of_another_name_is_refused),
        TEST(a_handshake_that_hangs_was_certainly_not_sent),
        TEST(few_handshakes_are_under_way_at_once),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
