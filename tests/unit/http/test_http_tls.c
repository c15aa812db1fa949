/* The HTTP server behind TLS. */
#include "crypto/tls_pair.h"

#include "http/harness.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>

static struct pki pki;
static struct tls_ctx *server_ctx, *client_ctx;
static struct harness h;

/* A request that is answered in a later turn of the loop. */
struct later {
    struct env_task task;
    struct http_request *req;
};

static void reply_later(struct env_task *task)
{
    struct http_request *req = CONTAINER_OF(task, struct later, task)->req;
    struct http_reply reply = {.status = 200, .body = req->body};
    http_respond(req, &reply);
}

static void on_request(void *ctx, struct http_request *req)
{
    struct tls_peer peer;
    if (bytes_eq(req->path, BYTES("/later"))) {
        struct later *later = arena_alloc(&req->arena, sizeof *later);
        assert_non_null(later);
        *later = (struct later){{.run = reply_later}, req};
        env_post(h.env, &later->task);
        return;
    }
    (void)ctx; /* stateless */
    if (bytes_eq(req->path, BYTES("/cert"))) {
        enum status st = http_peer_cert(req, &peer);
        char *text = arena_format(&req->arena, "%s %s\n", status_name(st),
                                  st == ST_OK ? peer.uri : "nobody");
        struct http_reply reply = {.status = 200, .body = bytes_str(text)};
        http_respond(req, &reply);
        return;
    }
    struct http_reply reply = {.status = 200, .body = req->body};
    http_respond(req, &reply);
}

static const struct http_handler handler = {.request = on_request};

static int group_setup(void **ctx)
{
    (void)ctx; /* static */
    pki_init(&pki);
    struct tls_options server = own(&pki.server, &pki.ca), client = own(&pki.node, &pki.ca);
    server.server = true;
    server.alpn = "http/1.1";
    server.client_cert = TLS_CLIENT_CERT_OPTIONAL;
    server_ctx = ctx_of(server);
    client_ctx = ctx_of(client);
    return 0;
}

static int group_teardown(void **ctx)
{
    (void)ctx; /* static */
    tls_ctx_unref(server_ctx);
    tls_ctx_unref(client_ctx);
    pki_done(&pki);
    return 0;
}

static int setup(void **ctx)
{
    (void)ctx; /* static */
    harness_up(&h, &handler, &http_limits_default, server_ctx);
    return 0;
}

/* For a peer that never gets on: no honest one would finish within this on a busy machine. */
static int setup_impatient(void **ctx)
{
    struct http_limits limits = http_limits_default;
    (void)ctx; /* static */
    limits.handshake_ms = 100;
    harness_up(&h, &handler, &limits, server_ctx);
    return 0;
}

static int teardown(void **ctx)
{
    (void)ctx; /* static */
    harness_down(&h);
    return 0;
}

/* A client that blocks. */
struct caller {
    int fd;
    struct tls_conn *tls;
};

static void caller_send(struct caller *c)
{
    CLEANUP(buf_done) struct buf out = {0};
    tls_take_out(c->tls, &out);
    (void)say(c->fd, buf_bytes(&out)); /* the server may have had enough */
}

/* One read of the socket. False at its end. */
static bool caller_feed(struct caller *c)
{
    uint8_t cipher[16384];
    ssize_t n = TEMP_FAILURE_RETRY(recv(c->fd, cipher, sizeof cipher, 0));
    if (n <= 0) {
        tls_feed_end(c->tls);
        return false;
    }
    assert_status(tls_feed(c->tls, bytes_of(cipher, (size_t)n)), ST_OK);
    return true;
}

static struct caller caller_open(struct tls_ctx *ctx)
{
    struct caller c = {.fd = dial(&h)};
    struct tls_target target = {.host = "localhost", .alpn = "http/1.1"};
    size_t n = 0;
    uint8_t none[1];
    assert_status(tls_conn_new(ctx, &target, &c.tls), ST_OK);
    while (tls_conn_phase(c.tls) == TLS_HANDSHAKE) {
        caller_send(&c);
        assert_true(caller_feed(&c));
        assert_status(tls_read(c.tls, none, sizeof none, &n), ST_OK);
    }
    caller_send(&c);
    assert_int_equal(tls_conn_phase(c.tls), TLS_OPEN);
    return c;
}

static void caller_close(struct caller *c)
{
    tls_conn_free(c->tls);
    (void)close(c->fd);
}

static void caller_say(struct caller *c, struct bytes text)
{
    while (text.len != 0) {
        struct bytes part = bytes_of(text.data, MIN(text.len, 32768));
        assert_status(tls_write(c->tls, &part, 1), ST_OK);
        caller_send(c);
        text = bytes_from(text, part.len);
    }
}

/* All that comes until the server ends, or `room` is full; the last status. */
static enum status caller_hear(struct caller *c, char *out, size_t room)
{
    enum status st = ST_OK;
    size_t at = 0;
    while (st == ST_OK && at + 1 < room) {
        size_t n = 0;
        st = tls_read(c->tls, out + at, room - 1 - at, &n);
        at += n;
        if (st == ST_OK && n == 0)
            (void)caller_feed(c);
    }
    out[at] = '\0';
    return st;
}

#define CLOSE "Connection: close\r\n"

static void requests_get_replies_and_the_end_is_orderly(void **ctx)
{
    static char out[4096];
    (void)ctx; /* static */
    struct caller c = caller_open(client_ctx);
    caller_say(&c, BYTES("PUT /a HTTP/1.1\r\n" HOST
                         "Content-Length: 2\r\n\r\nabPUT /b HTTP/1.1\r\n" HOST CLOSE
                         "Content-Length: 2\r\n\r\ncd"));
    assert_status(caller_hear(&c, out, sizeof out), ST_CLOSED);
    assert_int_equal(count(out, "HTTP/1.1 200 OK"), 2);
    assert_non_null(strstr(out, "\r\n\r\nab"));
    assert_non_null(strstr(out, "\r\n\r\ncd"));
    caller_close(&c);
}

static void the_certificate_of_the_client_is_shown(void **ctx)
{
    static char out[4096];
    (void)ctx; /* static */
    struct caller c = caller_open(client_ctx);
    caller_say(&c, BYTES("GET /cert HTTP/1.1\r\n" HOST CLOSE "\r\n"));
    (void)caller_hear(&c, out, sizeof out);
    assert_non_null(strstr(out, "ST_OK holdfast://aa/node/n1\n"));
    caller_close(&c);

    struct tls_ctx *nameless = ctx_of(own(NULL, &pki.ca));
    c = caller_open(nameless);
    caller_say(&c, BYTES("GET /cert HTTP/1.1\r\n" HOST CLOSE "\r\n"));
    (void)caller_hear(&c, out, sizeof out);
    assert_non_null(strstr(out, "ST_NOT_FOUND nobody\n"));
    caller_close(&c);
    tls_ctx_unref(nameless);
}

static void large_bodies_pass(void **ctx)
{
    enum { N = 3000000 };
    static char body[N], out[N + 1000];
    (void)ctx; /* static */
    memset(body, 'x', sizeof body);
    struct caller c = caller_open(client_ctx);
    caller_say(&c, BYTES("PUT /a HTTP/1.1\r\n" HOST CLOSE "Content-Length: 3000000\r\n\r\n"));
    caller_say(&c, bytes_of(body, sizeof body));
    assert_status(caller_hear(&c, out, sizeof out), ST_CLOSED);
    const char *got = strstr(out, "\r\n\r\n");
    assert_non_null(got);
    assert_int_equal(strlen(got + 4), N);
    caller_close(&c);
}

static void many_requests_share_a_record(void **ctx)
{
    enum { REQUESTS = 200 };
    static char out[REQUESTS * 500];
    CLEANUP(buf_done) struct buf text = {0};
    (void)ctx; /* static */
    for (unsigned i = 0; i < REQUESTS; i++)
        buf_add_format(&text, "PUT /a HTTP/1.1\r\n" HOST "%sContent-Length: 5\r\n\r\n<%03u>",
                       i + 1 == REQUESTS ? CLOSE : "", i);
    assert_true(text.len < TLS_RECORD_MAX);
    struct caller c = caller_open(client_ctx);
    caller_say(&c, buf_bytes(&text));
    assert_status(caller_hear(&c, out, sizeof out), ST_CLOSED);
    const char *at = out;
    for (unsigned i = 0; i < REQUESTS; i++) {
        char reply[20];
        (void)snprintf(reply, sizeof reply, "\r\n\r\n<%03u>", i); /* fits */
        at = strstr(at, reply);
        assert_non_null(at);
    }
    caller_close(&c);
}

enum { WAITING = 50, WAITING_BODY = 1000 };

static void say_at_once(struct caller *c)
{
    CLEANUP(buf_done) struct buf cipher = {0};
    for (unsigned i = 0; i < WAITING; i++) {
        CLEANUP(buf_done) struct buf text = {0};
        buf_add_format(&text, "PUT /later HTTP/1.1\r\n" HOST "%sContent-Length: %d\r\n\r\n%0*u",
                       i + 1 == WAITING ? CLOSE : "", WAITING_BODY, WAITING_BODY, i);
        struct bytes part = buf_bytes(&text);
        assert_status(tls_write(c->tls, &part, 1), ST_OK);
    }
    tls_take_out(c->tls, &cipher);
    assert_int_equal(say(c->fd, buf_bytes(&cipher)), cipher.len);
}

/* The server reads more of each than it can decrypt before the first is answered. */
static void records_wait_for_the_replies_before_them(void **ctx)
{
    static char out[WAITING * (WAITING_BODY + 500)];
    struct caller callers[4];
    (void)ctx; /* static */
    for (unsigned i = 0; i < ARRAY_LEN(callers); i++)
        callers[i] = caller_open(client_ctx);
    for (unsigned i = 0; i < ARRAY_LEN(callers); i++)
        say_at_once(&callers[i]);
    for (unsigned i = 0; i < ARRAY_LEN(callers); i++) {
        const char *at = out;
        assert_status(caller_hear(&callers[i], out, sizeof out), ST_CLOSED);
        for (unsigned n = 0; n < WAITING; n++) {
            at = strstr(at, "\r\n\r\n");
            assert_non_null(at);
            assert_int_equal(strtoul(at, NULL, 10), n);
            at += 4 + WAITING_BODY;
        }
        caller_close(&callers[i]);
    }
}

static void a_record_may_come_byte_by_byte(void **ctx)
{
    static char out[4096];
    int on = 1;
    (void)ctx; /* static */
    struct caller c = caller_open(client_ctx);
    assert_int_equal(setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    struct bytes text = BYTES("PUT /a HTTP/1.1\r\n" HOST CLOSE "Content-Length: 2\r\n\r\nab");
    CLEANUP(buf_done) struct buf cipher = {0};
    assert_status(tls_write(c.tls, &text, 1), ST_OK);
    tls_take_out(c.tls, &cipher);
    for (size_t i = 0; i < cipher.len; i++)
        (void)say(c.fd, bytes_of(cipher.data + i, 1));
    assert_status(caller_hear(&c, out, sizeof out), ST_CLOSED);
    assert_non_null(strstr(out, "\r\n\r\nab"));
    caller_close(&c);
}

/* Its reply waits, encrypted, while others get theirs. */
static void a_client_that_stops_reading_keeps_its_reply(void **ctx)
{
    enum { N = 8000000 }; /* more than sockets hold */
    static char body[N], out[N + 1000];
    (void)ctx; /* static */
    memset(body, 'x', sizeof body);
    struct caller slow = caller_open(client_ctx);
    caller_say(&slow, BYTES("PUT /a HTTP/1.1\r\n" HOST CLOSE "Content-Length: 8000000\r\n\r\n"));
    caller_say(&slow, bytes_of(body, sizeof body));
    for (unsigned i = 0; i < 5; i++) {
        static char other[100000];
        struct caller c = caller_open(client_ctx);
        caller_say(&c, BYTES("PUT /b HTTP/1.1\r\n" HOST CLOSE "Content-Length: 70000\r\n\r\n"));
        memset(body, 'y', 70000);
        caller_say(&c, bytes_of(body, 70000));
        assert_status(caller_hear(&c, other, sizeof other), ST_CLOSED);
        const char *got = strstr(other, "\r\n\r\n");
        assert_non_null(got);
        assert_int_equal(strspn(got + 4, "y"), 70000);
        caller_close(&c);
    }
    assert_status(caller_hear(&slow, out, sizeof out), ST_CLOSED);
    const char *got = strstr(out, "\r\n\r\n");
    assert_non_null(got);
    assert_int_equal(strspn(got + 4, "x"), N);
    caller_close(&slow);
}

/* Of the sanitizer; not there without it. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void an_idle_connection_holds_no_buffers(void **ctx)
{
    (void)ctx;
    enum { CALLERS = 32, BUFFERS = 34 * 1024, REST_MS = 1000, ROUNDS_MAX = 50 };
    struct caller callers[CALLERS];
    unsigned judged = 0;
    char out[512];
    if (__sanitizer_get_current_allocated_bytes == NULL)
        skip();
    for (unsigned round = 0; judged < 2; round++) {
        int64_t begun_ms = now_ms();
        for (unsigned i = 0; i < CALLERS; i++) {
            if (round == 0)
                callers[i] = caller_open(client_ctx);
            caller_say(&callers[i], BYTES("GET / HTTP/1.1\r\n" HOST "\r\n"));
            while (caller_feed(&callers[i]) && tls_out_len(callers[i].tls) == 0) {
                size_t n = 0;
                assert_status(tls_read(callers[i].tls, out, sizeof out, &n), ST_OK);
                if (n != 0)
                    break;
            }
        }
        size_t busy = __sanitizer_get_current_allocated_bytes(), now = busy;
        if (now_ms() - begun_ms > REST_MS / 2) { /* some may rest already, on a slow machine */
            assert_true(round < ROUNDS_MAX);
            continue;
        }
        judged++;
        for (unsigned wait = 0; wait < 600 && busy - now < CALLERS * BUFFERS * 3 / 4; wait++) {
            (void)usleep(100 * 1000);
            now = MIN(busy, __sanitizer_get_current_allocated_bytes());
        }
        assert_true(busy - now >= CALLERS * BUFFERS * 3 / 4);
    }
    for (unsigned i = 0; i < CALLERS; i++)
        caller_close(&callers[i]);
}

static void a_half_open_handshake_times_out(void **ctx)
{
    struct http_counters n;
    (void)ctx; /* static */
    int silent = dial(&h), partial = dial(&h);
    (void)say(partial, BYTES("\x16\x03\x01\x02\x00\x01"));
    assert_true(ended(silent));
    assert_true(ended(partial));
    http_server_counters(h.server, &n);
    assert_int_equal(n.handshakes_failed, 2);
    assert_int_equal(n.timeouts, 2);
    (void)close(silent);
    (void)close(partial);
}

static void garbage_instead_of_a_handshake_is_closed(void **ctx)
{
    static char out[1024];
    struct http_counters n;
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("\x00\xff\x00\xff garbage garbage garbage garbage"));
    (void)hear(fd, out, sizeof out, NULL);
    (void)close(fd);
    http_server_counters(h.server, &n);
    assert_int_equal(n.handshakes_failed, 1);
}

static void a_client_in_clear_is_told(void **ctx)
{
    static char out[1024];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("GET / HTTP/1.1\r\n" HOST "\r\n"));
    (void)hear(fd, out, sizeof out, NULL);
    (void)close(fd);
    assert_non_null(strstr(out, "HTTP/1.1 400 "));
    assert_non_null(strstr(out, "expects TLS"));
}

static void a_connection_cut_in_a_request_is_dropped(void **ctx)
{
    (void)ctx; /* static */
    struct caller c = caller_open(client_ctx);
    caller_say(&c, BYTES("PUT /a HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nab"));
    caller_close(&c);
    struct http_counters n;
    do
        http_server_counters(h.server, &n);
    while (n.connections_open != 0);
    assert_int_equal(n.replies[2], 0);
}

/* A connection that was accepted, and its handshake made, by somebody else. */
struct adoption {
    struct env_task task;
    int fd;
    struct tls_conn *tls;
    struct bytes early;
};

static void adopt(struct env_task *task)
{
    struct adoption *a = CONTAINER_OF(task, struct adoption, task);
    assert_status(http_server_adopt(h.server, a->fd, a->tls, a->early), ST_OK);
}

static void a_connection_accepted_elsewhere_is_served(void **ctx)
{
    static char out[4096];
    struct ends e;
    int pair[2];
    (void)ctx; /* static */
    struct tls_target target = {.host = "localhost"};
    ends_init(&e, own(&pki.server, &pki.ca), own(&pki.node, &pki.ca), &target);
    shake(&e, SIZE_MAX);
    assert_int_equal(tls_conn_phase(e.server), TLS_OPEN);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at) | listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(pair[0], (struct sockaddr *)&at, sizeof at), 0);
    pair[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    (void)close(listener);
    int on = 1, idle_s = 4, watched = dup(pair[1]);
    assert_int_equal(setsockopt(watched, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on), 0);
    assert_int_equal(setsockopt(watched, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s), 0);

    struct caller c = {pair[0], e.client}; /* fed but not read: the second half of the head */
    struct bytes rest = BYTES("/cert HTTP/1.1\r\n" HOST CLOSE "\r\n");
    CLEANUP(buf_done) struct buf cipher = {0};
    assert_status(tls_write(e.client, &rest, 1), ST_OK);
    tls_take_out(e.client, &cipher);
    assert_status(tls_feed(e.server, buf_bytes(&cipher)), ST_OK);
    struct adoption a = {{.run = adopt}, pair[1], e.server, BYTES("GET ")};
    env_post(h.env, &a.task);
    (void)caller_hear(&c, out, sizeof out);
    assert_non_null(strstr(out, "HTTP/1.1 200 OK"));
    len = sizeof idle_s;
    assert_int_equal(getsockopt(watched, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, &len), 0);
    assert_int_equal(idle_s, 4); /* as set by the part that accepted it */
    (void)close(watched);
    (void)close(pair[0]);
    e.server = NULL;
    ends_done(&e);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_get_replies_and_the_end_is_orderly),
        TEST(the_certificate_of_the_client_is_shown),
        TEST(large_bodies_pass),
        TEST(many_requests_share_a_record),
        TEST(records_wait_for_the_replies_before_them),
        TEST(a_record_may_come_byte_by_byte),
        TEST(a_client_that_stops_reading_keeps_its_reply),
        TEST(an_idle_connection_holds_no_buffers),
        cmocka_unit_test_setup_teardown(a_half_open_handshake_times_out, setup_impatient, teardown),
        TEST(garbage_instead_of_a_handshake_is_closed),
        TEST(a_client_in_clear_is_told),
        TEST(a_connection_cut_in_a_request_is_dropped),
        TEST(a_connection_accepted_elsewhere_is_served),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
