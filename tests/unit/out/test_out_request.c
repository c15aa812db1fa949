/* What a request says, which replies come back, and which requests are refused. */
#include "out/with_peer.h"

#include "base/mem.h"
#include "crypto/crypto.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static struct peer peer;

static int setup(void **ctx)
{
    (void)ctx; /* static */
    peer = (struct peer){0};
    return 0;
}

static int teardown(void **ctx)
{
    (void)ctx; /* static */
    peer_down(&peer);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define OK_EMPTY "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

static void script(struct bytes text)
{
    peer.script = text;
    peer_up(&peer, serve_script, NULL);
}

static void serve_after_body(struct link *link)
{
    if (link_hear(link, "the body"))
        (void)link_say(link, link->peer->script); /* judged by the client */
}

/* Tests of what is said */

static void a_request_says_its_method_headers_and_body(void **ctx)
{
    (void)ctx; /* static */
    struct out_header headers[] = {{"X-Token", BYTES("  a b\t")},
                                   {"Empty", BYTES(" ")},
                                   {"Content-Type", BYTES("application/json")}};
    peer.script = BYTES(OK_EMPTY);
    peer_up(&peer, serve_after_body, NULL);
    struct out_request request = {.method = "POST",
                                  .url = url_of(&peer, "HTTP", "127.0.0.1"),
                                  .headers = headers,
                                  .n_headers = 3,
                                  .body = BYTES("the body")};
    struct out_reply reply = {0};
    struct reason reason = {""};
    bool sent = false;
    assert_status(out_request(&request, &reply, &sent, &reason), ST_OK);
    assert_string_equal(reason.text, "");
    assert_true(sent);
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.body.len, 0);
    out_reply_done(&reply);

    char wanted[512];
    int n = snprintf(wanted, sizeof wanted,
                     "POST /path?query=secret HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                     "User-Agent: holdfast\r\nAccept: */*\r\nConnection: close\r\n"
                     "X-Token: a b\r\nEmpty:\r\nContent-Type: application/json\r\n"
                     "Content-Length: 8\r\n\r\nthe body",
                     (unsigned)peer.port);
    /* libcurl's place of each line is not promised: each line must be there, and no other byte */
    assert_int_equal(peer.heard.len, n);
    buf_add_u8(&peer.heard, 0);
    for (char *rest = NULL, *line = strtok_r(wanted, "\r\n", &rest); line != NULL;
         line = strtok_r(NULL, "\r\n", &rest))
        assert_has_text((char *)peer.heard.data, line);
}

static void methods_without_a_body_say_none(void **ctx)
{
    (void)ctx; /* static */
    static const char *const methods[] = {"GET", "DELETE", "LIST"};
    script(BYTES(OK_EMPTY));
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        struct out_request request = {.method = methods[i],
                                      .url = url_of(&peer, "http", "127.0.0.1")};
        struct out_reply reply = {0};
        assert_status(out_request(&request, &reply, NULL, NULL), ST_OK);
        out_reply_done(&reply);
        buf_add_u8(&peer.heard, 0);
        const char *heard = (const char *)peer.heard.data;
        assert_memory_equal(heard, methods[i], strlen(methods[i]));
        assert_lacks_text(heard, "Content-");
        assert_lacks_text(heard, "Expect");
    }
}

static void a_post_without_a_body_says_its_length(void **ctx)
{
    (void)ctx; /* static */
    script(BYTES(OK_EMPTY));
    struct out_request request = {.method = "POST", .url = url_of(&peer, "http", "127.0.0.1")};
    struct out_reply reply = {0};
    assert_status(out_request(&request, &reply, NULL, NULL), ST_OK);
    out_reply_done(&reply);
    buf_add_u8(&peer.heard, 0);
    assert_has_text((const char *)peer.heard.data, "Content-Length: 0\r\n");
    assert_lacks_text((const char *)peer.heard.data, "Content-Type");
}

static void a_large_body_is_sent_without_waiting_for_100(void **ctx)
{
    (void)ctx; /* static */
    enum { N = 3000000 };
    CLEANUP(buf_done) struct buf body = {0};
    uint8_t *at = buf_extend(&body, N);
    assert_non_null(at);
    memset(at, 'x', N);
    buf_add_str(&body, "the body");
    peer.script = BYTES(OK_EMPTY);
    peer_up(&peer, serve_after_body, NULL);
    struct out_request request = {
        .method = "PUT", .url = url_of(&peer, "http", "127.0.0.1"), .body = buf_bytes(&body)};
    struct out_reply reply = {0};
    uint64_t begin_ms = clock_ms();
    assert_status(out_request(&request, &reply, NULL, NULL), ST_OK);
    assert_true(clock_ms() - begin_ms < 900); /* libcurl would wait one second for a 100 Continue */
    out_reply_done(&reply);
    assert_true(peer.heard.len > N);
    assert_null(memmem(peer.heard.data, 1000, "Expect", 6));
}

static void an_ipv6_address_is_reached(void **ctx)
{
    (void)ctx; /* static */
    struct out_reply reply = {0};
    struct reason reason = {""};
    peer.script = BYTES(OK_EMPTY);
    peer_up_v6(&peer, serve_script);
    assert_status(get(url_of(&peer, "http", "[::1]"), &reply, &reason), ST_OK);
    out_reply_done(&reply);
}

/* Tests of replies */

static void replies_are_read_in_every_framing(void **ctx)
{
    (void)ctx; /* static */
    static const struct {
        struct bytes text;
        int status;
        const char *body;
    } cases[] = {
        {BYTES("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), 200, "hello"},
        {BYTES("HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n"
               "0\r\nTrailer: no\r\n\r\n"),
         404, "hello"},
        {BYTES("HTTP/1.1 500 \r\n\r\nuntil the end"), 500, "until the end"},
        {BYTES("HTTP/1.0 200 OK\r\n\r\nold"), 200, "old"},
        {BYTES("HTTP/1.1 204 No Content\r\n\r\n"), 204, ""},
        {BYTES("HTTP/1.1 100 Continue\r\nContent-Length: 9\r\n\r\nHTTP/1.1 103 Early\r\n\r\n"
               "HTTP/1.1 201 Created\r\nContent-Encoding: identity\r\nContent-Length: 1\r\n\r\nx"),
         201, "x"},
    };
    script(cases[0].text);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct out_reply reply = {0};
        struct reason reason = {""};
        peer.script = cases[i].text;
        assert_status(get(url_of(&peer, "http", "127.0.0.1"), &reply, &reason), ST_OK);
        assert_int_equal(reply.status, cases[i].status);
        assert_bytes(buf_bytes(&reply.body), bytes_str(cases[i].body));
        out_reply_done(&reply);
    }
}

static void a_head_has_no_body(void **ctx)
{
    (void)ctx; /* static */
    script(BYTES("HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n"));
    struct out_request request = {.method = "HEAD", .url = url_of(&peer, "http", "127.0.0.1")};
    struct out_reply reply = {0};
    assert_status(out_request(&request, &reply, NULL, NULL), ST_OK);
    assert_int_equal(reply.body.len, 0);
    out_reply_done(&reply);
    assert_memory_equal(peer.heard.data, "HEAD ", 5);
}

static void wanted_headers_of_the_final_reply_are_kept(void **ctx)
{
    (void)ctx; /* static */
    static const char *const wanted[] = {"etag", "X-Absent", "EMPTY", "x-token", "X-Trailer"};
    script(BYTES("HTTP/1.1 103 Early\r\nX-Token: early\r\nX-Absent: early\r\n\r\n"
                 "HTTP/1.1 200 OK\r\nETag:\t \"a b\" \r\nEmpty:  \r\nX-Token: 1\r\nx-token: 2\r\n"
                 "X-Other: 3\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\nX-Trailer: late\r\n\r\n"));
    struct out_request request = {.method = "GET",
                                  .url = url_of(&peer, "http", "127.0.0.1"),
                                  .wanted = wanted,
                                  .n_wanted = ARRAY_LEN(wanted)};
    struct out_reply reply = {0};
    assert_status(out_request(&request, &reply, NULL, NULL), ST_OK);
    assert_bytes(out_reply_header(&reply, 0), BYTES("\"a b\""));
    assert_null(out_reply_header(&reply, 1).data);
    assert_non_null(out_reply_header(&reply, 2).data);
    assert_int_equal(out_reply_header(&reply, 2).len, 0);
    assert_bytes(out_reply_header(&reply, 3), BYTES("1"));
    assert_null(out_reply_header(&reply, 4).data);
    out_reply_done(&reply);
    assert_null(reply.head.data);
}

static void a_redirect_is_a_reply_and_is_not_followed(void **ctx)
{
    (void)ctx; /* static */
    static const char *const wanted[] = {"Location"};
    static char text[200], to[64];
    script(BYTES(OK_EMPTY));
    (void)snprintf(to, sizeof to, "http://127.0.0.1:%u/elsewhere", (unsigned)peer.port);
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0"
                     "\r\n\r\n",
                     to);
    peer.script = bytes_of(text, (size_t)n);
    struct out_request request = {.method = "GET",
                                  .url = url_of(&peer, "http", "127.0.0.1"),
                                  .wanted = wanted,
                                  .n_wanted = 1};
    struct out_reply reply = {0};
    assert_status(out_request(&request, &reply, NULL, NULL), ST_OK);
    assert_int_equal(reply.status, 302);
    assert_bytes(out_reply_header(&reply, 0), bytes_str(to));
    assert_int_equal(atomic_load(&peer.accepted), 1);
    out_reply_done(&reply);
}

static void a_body_up_to_the_limit_is_read_and_a_longer_one_refused(void **ctx)
{
    (void)ctx; /* static */
    static const struct {
        struct bytes text;
        enum status st;
    } cases[] = {
        {BYTES("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n12345678"), ST_OK},
        {BYTES("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789"), ST_TOO_BIG},
        {BYTES("HTTP/1.1 200 OK\r\n\r\n123456789"), ST_TOO_BIG},
        {BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n1\r\n9\r\n"
               "0\r\n\r\n"),
         ST_TOO_BIG},
    };
    script(cases[0].text);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct out_request request = {
            .method = "GET", .url = url_of(&peer, "http", "127.0.0.1"), .reply_bytes_max = 8};
        struct out_reply reply = {0};
        struct reason reason = {""};
        peer.script = cases[i].text;
        assert_status(out_request(&request, &reply, NULL, &reason), cases[i].st);
        assert_int_equal(reply.body.len, cases[i].st == ST_OK ? 8 : 0);
        if (cases[i].st != ST_OK)
            assert_has_text(reason.text, "is longer than 8 bytes");
        out_reply_done(&reply);
    }
}

static void serve_endless(struct link *link)
{
    static uint8_t zeroes[65536];
    bool open = link_hear(link, "\r\n\r\n") && link_say(link, link->peer->script);
    while (open && !atomic_load(&link->peer->ended))
        open = link_say(link, bytes_of(zeroes, sizeof zeroes));
}

static void an_endless_body_ends_at_the_default_limit(void **ctx)
{
    (void)ctx; /* static */
    struct out_reply reply = {0};
    struct reason reason = {""};
    peer.script = BYTES("HTTP/1.1 200 OK\r\n\r\n");
    peer_up(&peer, serve_endless, NULL);
    assert_status(get(url_of(&peer, "http", "127.0.0.1"), &reply, &reason), ST_TOO_BIG);
    assert_has_text(reason.text, "is longer than 1048576 bytes");
}

static void a_head_that_is_too_long_is_refused(void **ctx)
{
    (void)ctx;                                     /* static */
    static char text[OUT_HEADER_BYTES_MAX + 1000]; /* the server may say it after the test */
    size_t n = 0;
    struct out_reply reply = {0};
    struct reason reason = {""};
    n += (size_t)snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\n");
    while (n <= OUT_HEADER_BYTES_MAX)
        n += (size_t)snprintf(text + n, sizeof text - n, "X-Filling: ....................\r\n");
    n += (size_t)snprintf(text + n, sizeof text - n, "Content-Length: 0\r\n\r\n");
    script(bytes_of(text, n));
    assert_status(get(url_of(&peer, "http", "127.0.0.1"), &reply, &reason), ST_TOO_BIG);
    assert_has_text(reason.text, "has headers that are too long");
}

static void serve_interim(struct link *link)
{
    bool open = link_hear(link, "\r\n\r\n");
    while (open && !atomic_load(&link->peer->ended))
        open = link_say(link, BYTES("HTTP/1.1 100 Continue\r\n\r\n"));
}

static void interim_replies_without_end_are_refused(void **ctx)
{
    (void)ctx; /* static */
    struct out_reply reply = {0};
    struct reason reason = {""};
    peer_up(&peer, serve_interim, NULL);
    assert_status(get(url_of(&peer, "http", "127.0.0.1"), &reply, &reason), ST_TOO_BIG);
    assert_has_text(reason.text, "has headers that are too long");
}

static void malformed_and_incomplete_replies_are_refused(void **ctx)
{
    (void)ctx; /* static */
    static const struct bytes cases[] = {
        BYTES(""),
        BYTES("SSH-2.0-OpenSSH\r\n"),
        BYTES("<html>HTTP/0.9 has no head</html>"),
        BYTES("HTTP/1.1 2"),
        BYTES("HTTP/1.1 200 OK\r\n"),
        BYTES("HTTP/1.1 200 OK\r\nX: a"),
        BYTES("HTTP/1.1 200 OK\r\nX: a\r\n"),
        BYTES("HTTP/1.1 100 Continue\r\n\r\n"),
        BYTES("HTTP/1.1 103 Early\r\nX: a\r\n\r\n"),
        BYTES("HTTP/1.1 099 Low\r\n\r\n"),
        BYTES("HTTP/1.1 777 High\r\nContent-Length: 0\r\n\r\n"),
        BYTES("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nstream"),
        BYTES("HTTP/2 200\r\nContent-Length: 0\r\n\r\n"),
        BYTES("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"),
        BYTES("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nshort"),
        BYTES("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        BYTES("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab"),
        BYTES(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"),
        BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello"),
        BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"),
        BYTES("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx"),
        BYTES("HTTP/1.1 200 OK\r\nX: a\x01\r\nContent-Length: 0\r\n\r\n"),
        BYTES("HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 0\r\n\r\n"),
    };
    script(cases[0]);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct out_reply reply = {0};
        struct reason reason = {""};
        struct out_request request = {.method = "GET", .url = url_of(&peer, "http", "127.0.0.1")};
        bool sent = false;
        peer.script = cases[i];
        enum status st = out_request(&request, &reply, &sent, &reason);
        if (st != ST_BAD_GATEWAY)
            fail_msg("%s for %.*s", status_name(st), (int)cases[i].len, cases[i].data);
        assert_has_text(reason.text, "127.0.0.1:");
        assert_lacks_text(reason.text, "secret");
        assert_true(sent);
    }
}

static void serve_reset(struct link *link)
{
    (void)link_hear(link, "\r\n\r\n");
    link_reset(link);
}

static void a_broken_connection_is_told(void **ctx)
{
    (void)ctx; /* static */
    struct out_reply reply = {0};
    struct reason reason = {""};
    peer_up(&peer, serve_reset, NULL);
    assert_status(get(url_of(&peer, "http", "127.0.0.1"), &reply, &reason), ST_BAD_GATEWAY);
    assert_has_text(reason.text, "broke");
}

/* A write to a connection that is gone must not raise SIGPIPE: no loop here ignores the signal. */
static void a_server_that_leaves_during_the_body_is_told(void **ctx)
{
    (void)ctx; /* static */
    enum { N = 8000000 };
    CLEANUP(buf_done) struct buf body = {0};
    uint8_t *at = buf_extend(&body, N);
    assert_non_null(at);
    memset(at, 'x', N);
    peer_up(&peer, serve_reset, NULL);
    for (int i = 0; i < 20; i++) {
        struct out_request request = {
            .method = "PUT", .url = url_of(&peer, "http", "127.0.0.1"), .body = buf_bytes(&body)};
        struct out_reply reply = {0};
        struct reason reason = {""};
        assert_status(out_request(&request, &reply, NULL, &reason), ST_BAD_GATEWAY);
        assert_true(reason.text[0] != '\0');
    }
}

/* Tests of requests that are refused: none of them reaches the server. */

static void malformed_urls_are_refused(void **ctx)
{
    (void)ctx; /* static */
    static const struct {
        const char *url, *why;
    } cases[] = {
        {"", "http://"},
        {"127.0.0.1", "http://"},
        {"ftp://127.0.0.1/", "http://"},
        {"file:///etc/passwd", "http://"},
        {"https:/127.0.0.1/", "http://"},
        {"//127.0.0.1/", "http://"},
        {"http://", ""},
        {"http:///path", ""},
        {"http://127.0.0.1:0/", "no usable host and port"},
        {"http://127.0.0.1:65536/", ""},
        {"http://127.0.0.1:8x/", ""},
        {"http://[::1/", ""},
        {"http://[fe80::1%25lo]/", "'%'"},
        {"http://127.0.0.%31/", "'%'"},
        {"http://hidden@127.0.0.1/", "user name or a password"},
        {"http://user:hidden@127.0.0.1/", "user name or a password"},
        {"http://:hidden@127.0.0.1/", "user name or a password"},
        {"http://127.0.0.1\\@evil/", "percent-encoded"},
        {"http://127.0.0.1/a b", "percent-encoded"},
        {"http://127.0.0.1/a\r\nX: y", "percent-encoded"},
        {"http://127.0.0.1/\xC3\xA4", "percent-encoded"},
        {" http://127.0.0.1/", "percent-encoded"},
        {"http://a~b/", "no usable host"},
    };
    script(BYTES(OK_EMPTY));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct out_reply reply = {0};
        struct reason reason = {""};
        enum status st = get(cases[i].url, &reply, &reason);
        if (st != ST_INVALID)
            fail_msg("%s for %s", status_name(st), cases[i].url);
        assert_has_text(reason.text, "URL");
        assert_has_text(reason.text, cases[i].why);
        assert_lacks_text(reason.text, "hidden");
    }
    CLEANUP(buf_done) struct buf url = {0};
    struct reason reason = {""};
    buf_add_str(&url, "http://127.0.0.1/");
    memset(buf_extend(&url, OUT_URL_BYTES_MAX), 'a', OUT_URL_BYTES_MAX);
    buf_add_u8(&url, 0);
    assert_status(get((const char *)url.data, NULL, &reason), ST_INVALID);
    assert_string_equal(reason.text, "the URL is too long");
}

static void at_signs_behind_the_host_are_fine(void **ctx)
{
    (void)ctx; /* static */
    char url[128];
    struct out_reply reply = {0};
    script(BYTES(OK_EMPTY));
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/a@b%%40?c@d#e@f", (unsigned)peer.port);
    assert_status(get(url, &reply, NULL), ST_OK);
    out_reply_done(&reply);
    assert_memory_equal(peer.heard.data, "GET /a@b%40?c@d HTTP/1.1\r\n", 26);
}

static void headers_that_could_smuggle_are_refused(void **ctx)
{
    (void)ctx; /* static */
    static const struct out_header cases[] = {
        {"X-A", BYTES("hidden\r\nX-B: c")},
        {"X-A", BYTES("hidden\n")},
        {"X-A", BYTES("\rhidden")},
        {"X-A", BYTES("hid\0den")},
        {"X-A", BYTES("hidden\x7f")},
        {"X\r\nA", BYTES("b")},
        {"X-A: b\r\nX", BYTES("b")},
        {"X A", BYTES("b")},
        {"", BYTES("b")},
        {"X-A:", BYTES("b")},
        {"Host", BYTES("evil")},
        {"host", BYTES("evil")},
        {"Content-Length", BYTES("1")},
        {"Transfer-Encoding", BYTES("chunked")},
        {"Connection", BYTES("keep-alive")},
        {"Expect", BYTES("100-continue")},
        {"Upgrade", BYTES("h2c")},
        {"TE", BYTES("trailers")},
        {"Proxy-Authorization", BYTES("x")},
        {"Cookie", BYTES("a=b")},
        {"Accept-Encoding", BYTES("gzip")},
    };
    script(BYTES(OK_EMPTY));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct out_request request = {.method = "GET",
                                      .url = url_of(&peer, "http", "127.0.0.1"),
                                      .headers = &cases[i],
                                      .n_headers = 1};
        struct out_reply reply = {0};
        struct reason reason = {""};
        bool sent = true;
        enum status st = out_request(&request, &reply, &sent, &reason);
        if (st != ST_INVALID)
            fail_msg("%s for %s", status_name(st), cases[i].name);
        assert_has_text(reason.text, "header");
        assert_lacks_text(reason.text, "hid");
        assert_false(sent);
    }
    assert_int_equal(atomic_load(&peer.accepted), 0);
}

static void methods_and_sizes_out_of_bounds_are_refused(void **ctx)
{
    (void)ctx; /* static */
    static char long_value[OUT_HEADER_BYTES_MAX];
    memset(long_value, 'x', sizeof long_value);
    struct out_header big = {"X-A", bytes_of(long_value, sizeof long_value)};
    struct out_header many[OUT_HEADERS_MAX + 1];
    const char *wanted[OUT_WANTED_MAX + 1];
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = (struct out_header){"X-A", BYTES("b")};
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        wanted[i] = "X-A";
    script(BYTES(OK_EMPTY));
    const char *url = url_of(&peer, "http", "127.0.0.1");
    const struct out_request cases[] = {
        {.method = "", .url = url},
        {.method = "get", .url = url},
        {.method = "GET /x HTTP/1.1\r\n", .url = url},
        {.method = "CONNECT", .url = url},
        {.method = "TRACE", .url = url},
        {.method = "AVERYLONGMETHODIS", .url = url},
        {.method = "GET", .url = url, .body = BYTES("x")},
        {.method = "HEAD", .url = url, .body = BYTES("x")},
        {.method = "GET", .url = url, .headers = &big, .n_headers = 1},
        {.method = "GET", .url = url, .headers = many, .n_headers = ARRAY_LEN(many)},
        {.method = "GET", .url = url, .wanted = wanted, .n_wanted = ARRAY_LEN(wanted)},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct out_reply reply = {0};
        struct reason reason = {""};
        enum status st = out_request(&cases[i], &reply, NULL, &reason);
        if (st != ST_INVALID)
            fail_msg("%s for case %zu", status_name(st), i);
        assert_true(reason.text[0] != '\0');
    }
    assert_int_equal(atomic_load(&peer.accepted), 0);
}

/* Fail each allocation in turn, libcurl's own too: no crash, no leak, and no false success. */
static void no_failed_allocation_does_harm(void **ctx)
{
    (void)ctx; /* static */
    static const char *const wanted[] = {"ETag"};
    struct out_header header = {"X-Token", BYTES("secret")};
    unsigned failed = 0;
    peer.script = BYTES("HTTP/1.1 200 OK\r\nETag: abc\r\nContent-Length: 5\r\n\r\nhello");
    peer_up(&peer, serve_after_body, NULL);
    struct out_request request = {.method = "POST",
                                  .url = url_of(&peer, "http", "127.0.0.1"),
                                  .headers = &header,
                                  .n_headers = 1,
                                  .body = BYTES("the body"),
                                  .wanted = wanted,
                                  .n_wanted = 1};
    for (uint64_t nth = 1, done = false; !done; nth++) {
        struct out_reply reply = {0};
        struct reason reason = {""};
        assert_true(nth < 10000);
        (void)mem_fail_nth(nth);
        enum status st = out_request(&request, &reply, NULL, &reason);
        done = !mem_fail_nth(0);
        failed += st != ST_OK;
        if (st == ST_OK) {
            assert_bytes(buf_bytes(&reply.body), BYTES("hello"));
            assert_bytes(out_reply_header(&reply, 0), BYTES("abc"));
        }
        assert_true(st == ST_OK || !done);
        out_reply_done(&reply);
    }
    assert_true(failed > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_says_its_method_headers_and_body),
        TEST(methods_without_a_body_say_none),
        TEST(a_post_without_a_body_says_its_length),
        TEST(a_large_body_is_sent_without_waiting_for_100),
        TEST(an_ipv6_address_is_reached),
        TEST(replies_are_read_in_every_framing),
        TEST(a_head_has_no_body),
        TEST(wanted_headers_of_the_final_reply_are_kept),
        TEST(a_redirect_is_a_reply_and_is_not_followed),
        TEST(a_body_up_to_the_limit_is_read_and_a_longer_one_refused),
        TEST(an_endless_body_ends_at_the_default_limit),
        TEST(a_head_that_is_too_long_is_refused),
        TEST(interim_replies_without_end_are_refused),
        TEST(malformed_and_incomplete_replies_are_refused),
        TEST(a_broken_connection_is_told),
        TEST(a_server_that_leaves_during_the_body_is_told),
        TEST(malformed_urls_are_refused),
        TEST(at_signs_behind_the_host_are_fine),
        TEST(headers_that_could_smuggle_are_refused),
        TEST(methods_and_sizes_out_of_bounds_are_refused),
        TEST(no_failed_allocation_does_harm),
    };
    if (crypto_init(NULL) != ST_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
