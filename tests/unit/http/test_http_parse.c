#include "base/mem.h"
#include "http/hostile.h"
#include "http/names.h"
#include "http/parse.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>

/* One line a message: what it was, or how it was refused. */
struct outcome {
    char text[2048];
    struct buf body;
    struct http_parser parser;
};

static bool keep_body(struct http_parser *parser, struct bytes run)
{
    struct outcome *o = CONTAINER_OF(parser, struct outcome, parser);
    if (o->body.len + run.len > 1000) {
        http_parser_refuse(parser, 413, "too large");
        return false;
    }
    buf_add(&o->body, run);
    return true;
}

static void say(struct outcome *o, const char *format, ...)
{
    size_t len = strlen(o->text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(o->text + len, sizeof o->text - len, format, args); /* cut, then unequal */
    va_end(args);
}

static void say_request(struct outcome *o, const struct http_head *head)
{
    const char *path = (const char *)head->text.data + head->path_at;
    const char *query = (const char *)head->text.data + head->query_at;
    say(o, "%s %.*s", http_method_name(head->method), (int)head->path_len, path);
    if (head->has_query)
        say(o, "?%.*s", (int)head->query_len, query);
    if (o->body.len != 0)
        say(o, " body=%.*s", (int)o->body.len, (const char *)o->body.data);
    say(o, "%s%s\n", head->keep_alive ? "" : " close", head->expects_continue ? " expects" : "");
}

static const struct http_limits limits = {
    .uri_bytes_max = 64, .header_bytes_max = 400, .headers_max = 8, .body_bytes_max = 1000};

/* Parse `in`, showing at most `step` bytes at a time, message behind message. */
static void parse(struct outcome *o, struct bytes in, size_t step)
{
    CLEANUP(http_head_done) struct http_head head = {0};
    enum http_event event = EVENT_DONE;
    size_t at = 0;
    o->text[0] = '\0';
    o->parser.on_body = keep_body;
    while (event != EVENT_REFUSED && at < in.len) {
        size_t used = 0;
        if (event == EVENT_DONE) {
            buf_clear(&o->body);
            http_head_reset(&head);
            http_parser_request(&o->parser, &limits, &head);
        }
        event = http_parser_run(&o->parser, bytes_of(in.data + at, MIN(step, in.len - at)), &used);
        at += used;
        if (event == EVENT_DONE)
            say_request(o, &head);
    }
    if (event == EVENT_REFUSED)
        say(o, "%d\n", o->parser.status);
    else if (event == EVENT_MORE && !http_parser_untouched(&o->parser))
        say(o, "more\n");
    buf_done(&o->body);
}

static void check(struct bytes in, const char *expected)
{
    static struct outcome whole, split;
    parse(&whole, in, SIZE_MAX);
    if (strcmp(whole.text, expected) != 0)
        print_error("%.*s\n=> %s (%s)\n", (int)in.len, (const char *)in.data, whole.text,
                    whole.parser.why != NULL ? whole.parser.why : "");
    assert_string_equal(whole.text, expected);
    for (size_t step = 1; step < MIN(in.len, 60); step++) {
        parse(&split, in, step);
        assert_string_equal(split.text, expected);
    }
}

#define CHECK(literal, expected) check(BYTES(literal), expected)

static void ordinary_requests_are_understood(void **ctx)
{
    (void)ctx; /* no state */
    CHECK("GET /v1/kv/a?x=1&y HTTP/1.1\r\nHost: h:8200\r\n\r\n", "GET /v1/kv/a?x=1&y\n");
    CHECK("GET / HTTP/1.1\r\nHost: [::1]:1\r\n\r\n", "GET /\n");
    CHECK("HEAD /?  HTTP/1.1\r\nHost: h\r\n\r\n", "400\n");
    CHECK("HEAD /? HTTP/1.1\r\nHost: h\r\n\r\n", "HEAD /?\n");
    CHECK("PUT /a HTTP/1.1\r\nhost:h\r\ncontent-length:  3 \r\n\r\nabc", "PUT /a body=abc\n");
    CHECK("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "POST /a\n");
    CHECK("PATCH /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
          "3\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\n",
          "PATCH /a body=abc0123456789\n");
    CHECK("DELETE /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: CHUNKED\r\n\r\n"
          "1\r\nx\r\n0\r\nTrailer: t\r\nOther: u\r\n\r\n",
          "DELETE /a body=x\n");
    CHECK("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS *\n");
    CHECK("GET http://h:1/a?b HTTP/1.1\r\nHost: H:1\r\n\r\n", "GET /a?b\n");
    CHECK("GET https://h/a HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a\n");
    CHECK("GET http://h?/a HTTP/1.1\r\nHost: h\r\n\r\n", "400\n");
    CHECK("GET / HTTP/1.1\r\nHost: h\r\nX-Empty:\r\nX: \r\n\r\n", "GET /\n");
}

static void a_target_is_sound_or_not_wherever_its_byte_stands(void **ctx)
{
    (void)ctx;
    static const char rest[] = " HTTP/1.1\r\nHost: h\r\n\r\n";
    for (size_t len = 14; len < 36; len++)
        for (size_t at = 1; at < len; at++)
            for (unsigned c = 0; c < 256; c++) {
                static struct outcome o;
                char text[80] = "GET /";
                memset(text + 5, 'a', len - 1);
                text[4 + at] = (char)c;
                memcpy(text + 4 + len, rest, sizeof rest);
                parse(&o, bytes_of(text, 4 + len + sizeof rest - 1), SIZE_MAX);
                assert_int_equal(strncmp(o.text, "GET /", 5) == 0, c > ' ' && c <= '~' && c != '#');
            }
}

static void list_is_a_method_and_link_is_not(void **ctx)
{
    (void)ctx; /* no state */
    CHECK("LIST /v1/kv/ HTTP/1.1\r\nHost: h\r\n\r\n", "LIST /v1/kv/\n");
    CHECK("LIST /1 HTTP/1.1\r\nHost: h\r\n\r\nLIST /2 HTTP/1.1\r\nHost: h\r\n\r\n"
          "GET /3 HTTP/1.1\r\nHost: h\r\n\r\n",
          "LIST /1\nLIST /2\nGET /3\n");
    CHECK("SCAN /v1/kv/ HTTP/1.1\r\nHost: h\r\n\r\nLIST / HTTP/1.1\r\nHost: h\r\n\r\n",
          "SCAN /v1/kv/\nLIST /\n");
    CHECK("SCAN\t/a HTTP/1.1\r\nHost: h\r\n\r\n", "400\n");
    CHECK("SCAT /a HTTP/1.1\r\nHost: h\r\n\r\n", "400\n");
    CHECK("SIST /a HTTP/1.1\r\nHost: h\r\n\r\n", "400\n");
    CHECK("LCAN /a HTTP/1.1\r\nHost: h\r\n\r\n", "400\n");
    CHECK("SOURCE /a HTTP/1.1\r\nHost: h\r\n\r\n", "501\n");
    CHECK("SCA", "more\n");
    CHECK("LINK /v1/kv/ HTTP/1.1\r\nHost: h\r\n\r\n", "501\n");
    CHECK("UNLINK /v1/kv/ HTTP/1.1\r\nHost: h\r\n\r\n", "501\n");
    CHECK("LOCK /a HTTP/1.1\r\nHost: h\r\n\r\n", "501\n");
    CHECK("LIST\t/a HTTP/1.1\r\nHost: h\r\n\r\n", "400\n");
    CHECK("LISTS /a HTTP/1.1\r\nHost: h\r\n\r\n", "400\n");
    CHECK("LIST  /a HTTP/1.1\r\nHost: h\r\n\r\n", "400\n");
    CHECK("LIS", "more\n");
    CHECK("LIS /a HTTP/1.1\r\n", "400\n");
    CHECK("LI\r\n", "400\n");
}

static void keeping_alive_follows_version_and_connection(void **ctx)
{
    (void)ctx; /* no state */
    CHECK("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "GET / close\n");
    CHECK("GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, close\r\n\r\n", "GET / close\n");
    CHECK("GET / HTTP/1.0\r\n\r\n", "GET / close\n");
    CHECK("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET /\n");
}

static void an_offer_to_upgrade_is_ignored(void **ctx)
{
    (void)ctx; /* no state */
    CHECK("GET /1 HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
          "GET /2 HTTP/1.1\r\nHost: h\r\n\r\n",
          "GET /1\nGET /2\n");
    CHECK("PUT /1 HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n"
          "Content-Length: 2\r\n\r\nabGET /2 HTTP/1.1\r\nHost: h\r\n\r\n",
          "PUT /1 body=ab\nGET /2\n");
}

static void expectations_are_known_or_refused(void **ctx)
{
    (void)ctx; /* no state */
    CHECK("PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\na",
          "PUT / body=a expects\n");
    CHECK("PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na",
          "PUT / body=a close\n");
    CHECK("PUT / HTTP/1.1\r\nHost: h\r\nExpect: cookies\r\n\r\n", "417\n");
}

static void one_empty_line_before_a_request_is_skipped(void **ctx)
{
    (void)ctx; /* no state */
    CHECK("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET /\n");
    CHECK("\r\nLIST / HTTP/1.1\r\nHost: h\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
          "LIST /\nGET /\n");
    CHECK("\r\n\r\nGET / HTTP/1.1\r\n", "400\n");
    CHECK("\nGET / HTTP/1.1\r\n", "400\n");
    CHECK("\rGET / HTTP/1.1\r\n", "400\n");
    CHECK("\r\n\nGET / HTTP/1.1\r\n", "400\n");
}

static void a_header_is_found_by_its_name_however_long(void **ctx)
{
    (void)ctx;
    for (size_t len = 1; len <= 130; len++) {
        CLEANUP(http_head_done) struct http_head head = {0};
        CLEANUP(buf_done) struct buf in = {0};
        struct outcome o = {.parser.on_body = keep_body};
        char name[132] = "";
        struct bytes value;
        size_t used, at = 0;
        memset(name, 'x', len);
        buf_add_format(&in, "GET / HTTP/1.1\r\nHost: h\r\n%s: v\r\n\r\n", name);
        http_parser_request(&o.parser, &limits, &head);
        assert_int_equal(http_parser_run(&o.parser, buf_bytes(&in), &used), EVENT_DONE);
        assert_true(http_head_next(&head, name, &at, &value) && bytes_eq(value, BYTES("v")));
        at = 0;
        assert_true(http_head_next(&head, "host", &at, &value) && bytes_eq(value, BYTES("h")));
        name[0] = 'y'; /* as long */
        at = 0;
        assert_false(http_head_next(&head, name, &at, &value));
        memset(name, 'x', len + 1);
        assert_false(http_head_next(&head, name, &at, &value));
    }
}

static void limits_are_kept(void **ctx)
{
    char text[2000];
    (void)ctx; /* no state */
    memset(text, 'a', sizeof text);
    memcpy(text, "GET /", 5);
    check(bytes_of(text, 1000), "414\n");
    (void)snprintf(text + 68, 40, " HTTP/1.1\r\nHost: h\r\n\r\n");
    check(bytes_str(text),
          "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n");
    memset(text, 'a', sizeof text);
    memcpy(text, "GET /", 5);
    (void)snprintf(text + 69, 40, " HTTP/1.1\r\nHost: h\r\n\r\n");
    check(bytes_str(text), "414\n");

    memset(text, ' ', sizeof text);
    memcpy(text, "GET / HTTP/1.1\r\nHost:", 21);
    check(bytes_of(text, sizeof text), "431\n");
    memset(text, 'v', sizeof text);
    memcpy(text, "GET / HTTP/1.1\r\nHost: h\r\nX: ", 28);
    check(bytes_of(text, sizeof text), "431\n");
    memset(text, 'n', sizeof text);
    memcpy(text, "GET / HTTP/1.1\r\nHost: h\r\n", 25);
    check(bytes_of(text, sizeof text), "431\n");
    memset(text, 'G', sizeof text);
    check(bytes_of(text, sizeof text), "400\n");
    CHECK("GET / HTTP/1.1\r\nHost: h\r\n1: \r\n2: \r\n3: \r\n4: \r\n5: \r\n6: \r\n7: \r\n\r\n",
          "GET /\n");
    CHECK("GET / HTTP/1.1\r\nHost: h\r\n1: \r\n2: \r\n3: \r\n4: \r\n5: \r\n6: \r\n7: \r\n8: \r\n"
          "\r\n",
          "431\n");
}

static void a_body_the_owner_refuses_ends_the_message(void **ctx)
{
    char text[2000];
    (void)ctx; /* no state */
    int head =
        snprintf(text, sizeof text, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");
    memset(text + head, 'b', 1001);
    check(bytes_of(text, (size_t)head + 1001), "413\n");
}

static void large_trailers_are_refused(void **ctx)
{
    char text[2000];
    (void)ctx; /* no state */
    int head = snprintf(text, sizeof text,
                        "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ");
    memset(text + head, 't', 500);
    check(bytes_of(text, (size_t)head + 500), "431\n");
}

static void hostile_framings_are_refused(void **ctx)
{
    (void)ctx; /* no state */
    char expected[16];
    for (size_t i = 0; i < ARRAY_LEN(hostile); i++) {
        (void)snprintf(expected, sizeof expected, "%d\n", hostile[i].status); /* fits */
        check(hostile[i].in, expected);
    }
}

static void a_smuggled_request_is_never_seen(void **ctx)
{
    (void)ctx; /* no state */
    CHECK("POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
          "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n",
          "400\n");
    CHECK("POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nabGET /2 HTTP/1.1\r\n"
          "Host: h\r\n\r\n",
          "POST /1 body=ab\nGET /2\n");
}

static void headers_are_found_in_any_case_and_trimmed(void **ctx)
{
    CLEANUP(http_head_done) struct http_head head = {0};
    struct http_parser parser = {.on_body = keep_body};
    struct bytes in = BYTES("GET / HTTP/1.1\r\nHost: h\r\nX-Token: \t a b \t\r\nx-token:c\r\n\r\n");
    struct bytes value;
    size_t used = 0, at = 0;
    (void)ctx; /* no state */
    http_parser_request(&parser, &limits, &head);
    assert_int_equal(http_parser_run(&parser, in, &used), EVENT_DONE);
    assert_int_equal(used, in.len);
    assert_true(http_head_next(&head, "X-TOKEN", &at, &value) && bytes_eq(value, BYTES("a b")));
    assert_true(http_head_next(&head, "X-TOKEN", &at, &value) && bytes_eq(value, BYTES("c")));
    assert_false(http_head_next(&head, "X-TOKEN", &at, &value));
    assert_true(bytes_eq(http_head_field(&head, 1).name, BYTES("x-token")));
}

/* What it kept may have been a token. */
static void a_head_that_is_reset_keeps_no_text(void **ctx)
{
    CLEANUP(http_head_done) struct http_head head = {0};
    struct http_parser parser = {.on_body = keep_body};
    struct bytes in = BYTES("GET /path HTTP/1.1\r\nHost: h\r\nX-Vault-Token: hvs.secret\r\n\r\n");
    struct bytes value;
    size_t used = 0, at = 0;
    (void)ctx;
    http_parser_request(&parser, &limits, &head);
    assert_int_equal(http_parser_run(&parser, in, &used), EVENT_DONE);
    size_t len = head.text.len;
    const uint8_t *kept = head.text.data;
    http_head_reset(&head);
    assert_ptr_equal(head.text.data, kept); /* the room is used again */
    assert_int_equal(head.text.len, 0);
    assert_int_equal(head.n_fields, 0);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(kept[i], 0);
    assert_false(http_head_next(&head, "x-vault-token", &at, &value));
    assert_int_equal(buf_reserve(&head.text, 20000), ST_OK);
    http_head_reset(&head);
    assert_null(head.text.data); /* much room is given back */
}

static void headers_that_frame_a_message_are_known(void **ctx)
{
    (void)ctx;
    static const char *const ours[] = {"content-length", "Transfer-Encoding", "CONNECTION",
                                       "Keep-Alive",     "upgrade",           "TE",
                                       "trailer",        "Proxy-Connection",  "expect"};
    static const char *const theirs[] = {
        "content-type", "t", "content-lengt", "content-length2", "host", "xexpect", "trailers", ""};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        assert_true(http_header_frames(bytes_str(ours[i])));
    for (size_t i = 0; i < ARRAY_LEN(theirs); i++)
        assert_false(http_header_frames(bytes_str(theirs[i])));
}

static void only_sound_headers_are_written(void **ctx)
{
    (void)ctx;
    static const struct http_header sound[] = {
        {{(const uint8_t *)"X-a_b.c!#$%&'*+^`|~09", 21}, {(const uint8_t *)"", 0}},
        {{(const uint8_t *)"x", 1}, {(const uint8_t *)" ~\t\xc3\xa4", 5}},
    };
    for (size_t i = 0; i < ARRAY_LEN(sound); i++)
        assert_true(http_header_sound(sound[i]));
    for (unsigned c = 0; c < 256; c++) {
        uint8_t text[3] = {'a', (uint8_t)c, 'b'};
        struct bytes odd = bytes_of(text, 3), plain = BYTES("x");
        bool in_name = c < 0x80 && c != 0 && (isalnum((int)c) || strchr("-_.!#$%&'*+^`|~", (int)c));
        bool in_value = c == '\t' || (c >= ' ' && c != 0x7f);
        assert_int_equal(http_header_sound((struct http_header){odd, plain}), in_name);
        assert_int_equal(http_header_sound((struct http_header){plain, odd}), in_value);
    }
    assert_false(http_header_sound((struct http_header){BYTES(""), BYTES("x")}));
}

static void a_byte_is_sound_or_not_wherever_it_stands_in_a_long_name(void **ctx)
{
    (void)ctx;
    for (size_t len = 14; len < 36; len++)
        for (size_t at = 0; at < len; at++)
            for (unsigned c = 0; c < 256; c++) {
                uint8_t name[36], one[1] = {(uint8_t)c};
                memset(name, 'N', sizeof name);
                name[at] = (uint8_t)c;
                bool alone = http_header_sound((struct http_header){bytes_of(one, 1), BYTES("")});
                assert_int_equal(
                    http_header_sound((struct http_header){bytes_of(name, len), BYTES("")}), alone);
            }
}

static enum http_event respond(struct http_parser *parser, struct http_head *head, struct bytes in,
                               bool no_body)
{
    enum http_event event;
    size_t at = 0;
    http_head_reset(head);
    parser->on_body = keep_body;
    http_parser_reply(parser, &limits, head, no_body);
    do {
        size_t used = 0;
        event = http_parser_run(parser, bytes_from(in, at), &used);
        at += used;
    } while (event == EVENT_HEAD);
    return event;
}

/* Long names are made lower case eight bytes at a time. */
static void names_are_kept_in_lower_case(void **ctx)
{
    (void)ctx;
    static const char mixed[] = "AZaz09!#$%&'*+-.^_`|~@[{BYby";
    for (size_t from = 0; from + 1 < sizeof mixed; from++) {
        CLEANUP(http_head_done) struct http_head head = {0};
        struct http_parser parser = {.on_body = keep_body};
        CLEANUP(buf_done) struct buf text = {0};
        char name[sizeof mixed], want[sizeof mixed];
        size_t used = 0, n = 0;
        for (size_t i = from; mixed[i] != '\0'; i++)
            if (strchr("@[{", mixed[i]) == NULL) { /* beside the letters, in no name */
                name[n] = mixed[i];
                want[n++] = (char)tolower((unsigned char)mixed[i]);
            }
        buf_add_format(&text, "GET / HTTP/1.1\r\nHost: h\r\n%.*s: v\r\n\r\n", (int)n, name);
        http_parser_request(&parser, &limits, &head);
        assert_int_equal(http_parser_run(&parser, buf_bytes(&text), &used), EVENT_DONE);
        assert_true(bytes_eq(http_head_field(&head, 1).name, bytes_of(want, n)));
    }
}

static void responses_need_a_version_and_a_length(void **ctx)
{
    static struct outcome o;
    CLEANUP(http_head_done) struct http_head head = {0};
    (void)ctx; /* no state */
#define RESPONSE(text, no_body) respond(&o.parser, &head, BYTES(text), no_body)
    assert_int_equal(RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", false), EVENT_DONE);
    assert_int_equal(head.status, 200);
    assert_true(head.keep_alive);
    assert_int_equal(RESPONSE("HTTP/1.1 204 \r\n\r\n", false), EVENT_DONE);
    assert_int_equal(RESPONSE("HTTP/1.1 304 \r\n\r\n", false), EVENT_DONE);
    assert_int_equal(RESPONSE("HTTP/1.1 304 \r\nContent-Length: 2\r\n\r\n", false), EVENT_DONE);
    assert_int_equal(RESPONSE("HTTP/1.1 305 \r\n\r\n", false), EVENT_REFUSED);
    assert_int_equal(RESPONSE("HTTP/1.1 100 Continue\r\n\r\nHTTP", false), EVENT_DONE);
    assert_int_equal(head.status, 100);
    assert_int_equal(RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", true), EVENT_DONE);
    assert_int_equal(RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", false), EVENT_MORE);
    assert_int_equal(
        RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", false),
        EVENT_DONE);
    assert_int_equal(RESPONSE("HTTP/1.1 200 OK\r\n\r\n", false), EVENT_REFUSED);
    assert_int_equal(RESPONSE("HTTP/1.1 101 Go\r\n\r\n", false), EVENT_REFUSED);
    assert_int_equal(RESPONSE("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
                     EVENT_REFUSED);
    assert_int_equal(
        RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", false),
        EVENT_REFUSED);
    assert_int_equal(RESPONSE("garbage", false), EVENT_REFUSED);
    buf_done(&o.body);
}

static void every_allocation_may_fail(void **ctx)
{
    static struct outcome o;
    struct bytes in = BYTES("GET / HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n");
    (void)ctx; /* no state */
    for (uint64_t i = 1; i <= 2; i++) {
        mem_fail_nth(i);
        parse(&o, in, SIZE_MAX);
        assert_true(mem_fail_nth(0));
        assert_string_equal(o.text, "503\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_requests_are_understood),
        cmocka_unit_test(a_target_is_sound_or_not_wherever_its_byte_stands),
        cmocka_unit_test(list_is_a_method_and_link_is_not),
        cmocka_unit_test(keeping_alive_follows_version_and_connection),
        cmocka_unit_test(an_offer_to_upgrade_is_ignored),
        cmocka_unit_test(expectations_are_known_or_refused),
        cmocka_unit_test(one_empty_line_before_a_request_is_skipped),
        cmocka_unit_test(a_header_is_found_by_its_name_however_long),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(a_body_the_owner_refuses_ends_the_message),
        cmocka_unit_test(large_trailers_are_refused),
        cmocka_unit_test(hostile_framings_are_refused),
        cmocka_unit_test(a_smuggled_request_is_never_seen),
        cmocka_unit_test(headers_are_found_in_any_case_and_trimmed),
        cmocka_unit_test(names_are_kept_in_lower_case),
        cmocka_unit_test(a_head_that_is_reset_keeps_no_text),
        cmocka_unit_test(headers_that_frame_a_message_are_known),
        cmocka_unit_test(only_sound_headers_are_written),
        cmocka_unit_test(a_byte_is_sound_or_not_wherever_it_stands_in_a_long_name),
        cmocka_unit_test(responses_need_a_version_and_a_length),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
