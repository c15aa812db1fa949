/* The HTTP client against servers that send wrong replies, reply late or disappear, and the
 * client's checks of certificates. */
#include "http/client_world.h"

/* A server that reads a request's head and says what it was told to. */

struct liar {
    int listener;
    pthread_t thread;
    const char *const *replies; /* one a request, in order; NULL: hang up; ends with "" */
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
    for (size_t i = 0; l->replies[i] == NULL || l->replies[i][0] != '\0'; i++) {
        if (fd < 0)
            fd = accept(l->listener, NULL, NULL);
        if (fd < 0 || !liar_hears(fd))
            break;
        atomic_fetch_add(&l->requests, 1);
        if (l->replies[i] != NULL) {
            (void)say(fd, bytes_str(l->replies[i]));
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

static void liar_up(struct liar *l, const char *const *replies)
{
    l->listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    l->replies = replies;
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

static void replies_that_cannot_be_used_leave_the_outcome_unknown(void **ctx)
{
    static const char *const replies[] = {
        NULL,
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
        "HTTP/1.1 101 Switching\r\n\r\n",
        "HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n",
        "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\n"
        "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\n"
        "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 100 C\r\n\r\n",
    };
    char at[64];
    (void)ctx; /* static */
    for (size_t i = 0; i < ARRAY_LEN(replies); i++) {
        const char *const one[] = {replies[i], ""};
        struct liar liar = {0};
        liar_up(&liar, one);
        (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
        struct http_target target = {.address = at};
        struct trial t = get("/a");
        t.request.reply_bytes_max = 1000;
        run(&t, &target);
        assert_status(t.st, ST_UNKNOWN_OUTCOME);
        assert_string_not_equal(t.request.reason.text, "");
        liar_down(&liar);
    }
}

static void interim_replies_are_skipped(void **ctx)
{
    static const char *const replies[] = {
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nX: y\r\n\r\n"
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        ""};
    struct liar liar = {0};
    char at[64];
    (void)ctx; /* static */
    liar_up(&liar, replies);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
    struct http_target target = {.address = at};
    struct trial t = get("/a");
    run(&t, &target);
    assert_status(t.st, ST_OK);
    assert_int_equal(t.request.status, 200);
    assert_string_equal(t.body, "ab");
    liar_down(&liar);
}

#define GOOD "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void a_connection_found_dead_is_replaced_once(void **ctx)
{
    static const char *const replies[] = {GOOD, NULL, GOOD, NULL, NULL, ""};
    struct liar liar = {0};
    char at[64];
    (void)ctx; /* static */
    liar_up(&liar, replies);
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

static void a_request_to_be_sent_once_takes_a_kept_connection(void **ctx)
{
    static const char *const replies[] = {GOOD, NULL, ""};
    struct liar liar = {0};
    char at[64];
    (void)ctx; /* static */
    liar_up(&liar, replies);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
    struct http_target target = {.address = at};
    struct trial first = get("/a"), second = get("/b");
    second.request.once = true;
    run(&first, &target);
    run(&second, &target); /* hung up on, and left to the caller */
    assert_status(second.st, ST_UNKNOWN_OUTCOME);
    assert_int_equal(counters().connects, 1);
    assert_int_equal(counters().repeated, 0);
    assert_int_equal(atomic_load(&liar.requests), 2);
    liar_down(&liar);
}

static void more_than_a_reply_ends_the_connection(void **ctx)
{
    static const char *const replies[] = {GOOD "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
                                          ""};
    struct liar liar = {.hold = true};
    char at[64];
    (void)ctx; /* static */
    liar_up(&liar, replies);
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
    static const char *const replies[] = {"HTTP/1.1 200 OK\r\n", ""};
    struct liar liar = {.hold = true};
    char at[64];
    (void)ctx; /* static */
    liar_up(&liar, replies);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", port_of(liar.listener)); /* fits */
    limit(1, 10);
    struct http_target target = {.address = at};
    struct trial t = get("/a"), waits = get("/b");
    t.request.timeout_ms = 2000; /* far longer than it takes to send it */
    waits.request.timeout_ms = 500;
    start(&t, &target);
    run(&waits, &target);
    assert_status(t.st, ST_UNKNOWN_OUTCOME);
    assert_status(waits.st, ST_BUSY);
    liar_down(&liar);
}

static void close_now(struct env_task *task)
{
    (void)task; /* static */
    http_client_close(client, on_closed, NULL);
}

static void closing_ends_what_is_under_way(void **ctx)
{
    static const char *const replies[] = {"HTTP/1.1 200 OK\r\n", ""};
    static struct env_task closing = {.run = close_now};
    struct liar liar = {.hold = true};
    char at[64];
    (void)ctx; /* static */
    liar_up(&liar, replies);
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

static uint8_t large[6 * 1024 * 1024];

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
                   *unauthenticated = ctx_of(own(NULL, &pki.other_ca));
    harness_up(&secure, &handler, NULL, server_ctx);
    (void)snprintf(at, sizeof at, "127.0.0.1:%u", http_server_port(secure.server)); /* fits */
    struct http_target right = {.address = at, .tls = client_ctx, .host = "localhost"};
    struct http_target wrong = right, foreign = right, node = right, clear = {.address = at};
    wrong.host = "other.example";
    foreign.tls = unauthenticated;
    node.uri = "holdfast://aa/node/n1";
    struct trial a = get("/about"), b = get("/about"), c = get("/about"), d = get("/about"),
                 e = get("/about"), big = get("/echo");
    limit(4, 4);
    struct env_task task = {.run = hold_up};
    env_post(env, &task); /* for longer than connecting may take */
    run(&a, &right);
    assert_status(a.st, ST_OK);
    big.request.method = METHOD_PUT;
    big.request.body = bytes_of(large, sizeof large);
    run(&big, &right);
    assert_status(big.st, ST_OK);
    assert_int_equal(big.body_len, sizeof large);
    run(&b, &wrong);
    assert_status(b.st, ST_NO_LEADER);
    run(&c, &foreign);
    assert_status(c.st, ST_NO_LEADER);
    assert_string_not_equal(c.request.reason.text, "");
    run(&e, &node); /* the connection that is kept was to somebody without that name */
    assert_status(e.st, ST_NO_LEADER);
    run(&d, &clear);
    assert_status(d.st, ST_OK);
    assert_int_equal(d.request.status, 400);
    harness_down(&secure);
    tls_ctx_unref(server_ctx);
    tls_ctx_unref(client_ctx);
    tls_ctx_unref(unauthenticated);
    pki_done(&pki);
}

static void a_handshake_that_hangs_was_certainly_not_sent(void **ctx)
{
    static const char *const replies[] = {""};
    struct liar liar = {0};
    struct tls_options options = {.insecure = true};
    char at[64];
    (void)ctx; /* static */
    struct tls_ctx *tls = ctx_of(options);
    liar_up(&liar, replies);
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
    static const char *const replies[] = {""};
    static struct trial trials[CALLS];
    struct liar liar = {0};
    char at[64];
    (void)ctx; /* static */
    struct tls_ctx *tls = ctx_of((struct tls_options){.insecure = true});
    liar_up(&liar, replies);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(replies_that_cannot_be_used_leave_the_outcome_unknown),
        TEST(interim_replies_are_skipped),
        TEST(a_connection_found_dead_is_replaced_once),
        TEST(a_request_to_be_sent_once_takes_a_kept_connection),
        TEST(more_than_a_reply_ends_the_connection),
        TEST(silence_ends_in_time),
        TEST(closing_ends_what_is_under_way),
        TEST(a_certificate_of_another_name_is_refused),
        TEST(a_handshake_that_hangs_was_certainly_not_sent),
        TEST(few_handshakes_are_under_way_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
