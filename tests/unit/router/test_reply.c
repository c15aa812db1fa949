#include "support.h"

#include "front/relay.h"
#include "front/secrets/secrets.h"
#include "router/request/reply.h"

static struct arena arena;

static int wipe(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

static void a_stored_reply_is_given_again(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf stored = {0};
    struct router_reply in = {.http = 200, .content_type = "application/json"}, out;
    buf_add_str(&in.body, "{\"a\":1}");
    assert_status(reply_encode(&in, &stored), ST_OK);
    assert_status(reply_decode(buf_bytes(&stored), &arena, &out), ST_OK);
    assert_int_equal(out.http, 200);
    assert_string_equal(out.content_type, "application/json");
    assert_bytes(buf_bytes(&out.body), buf_bytes(&in.body));
    reply_done(&in);
    reply_done(&out);
}

static void a_reply_without_a_body_stays_without(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf stored = {0};
    struct router_reply in = {.http = 204}, out;
    assert_status(reply_encode(&in, &stored), ST_OK);
    assert_status(reply_decode(buf_bytes(&stored), &arena, &out), ST_OK);
    assert_int_equal(out.http, 204);
    assert_null(out.content_type);
    assert_int_equal(out.body.len, 0);
    reply_done(&out);
}

static void what_is_no_stored_reply_is_corrupt(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf stored = {0};
    struct router_reply in = {.http = 200, .content_type = "t"}, out;
    buf_add_str(&in.body, "body");
    assert_status(reply_encode(&in, &stored), ST_OK);
    for (size_t n = 0; n < stored.len; n++)
        assert_status(reply_decode(bytes_of(stored.data, n), &arena, &out), ST_CORRUPT);
    stored.data[0] = 2; /* a later format */
    assert_status(reply_decode(buf_bytes(&stored), &arena, &out), ST_CORRUPT);
    static const int statuses[] = {0, 199, 600};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        buf_clear(&stored);
        in.http = statuses[i];
        assert_status(reply_encode(&in, &stored), ST_OK);
        assert_status(reply_decode(buf_bytes(&stored), &arena, &out), ST_CORRUPT);
    }
    reply_done(&in);
}

static void more_headers_than_there_is_room_for_are_left_out(void **ctx)
{
    (void)ctx;
    struct router_reply reply = {0};
    for (int i = 0; i < 2 * REPLY_HEADERS_MAX; i++)
        assert_int_equal(reply_add_header(&reply, &arena, BYTES("A"), bytes_of("b", (size_t)i % 2)),
                         i < REPLY_HEADERS_MAX);
    assert_int_equal(reply.n_headers, REPLY_HEADERS_MAX);
    for (size_t i = 0; i < REPLY_HEADERS_MAX; i++)
        assert_int_equal(reply.headers[i].value.len, i % 2);
    reply_done(&reply);
}

static void every_status_has_a_reply(void **ctx)
{
    (void)ctx;
    static const struct {
        enum status st;
        int http;
        const char *body;
    } cases[] = {
        {ST_NOT_FOUND, 404, "{\"errors\":[]}"},
        {ST_SEALED, 503, "{\"errors\":[\"Vault is sealed\"]}"},
        {ST_INVALID, 400, "{\"errors\":[\"invalid request\"]}"},
        {ST_TIMEOUT, 503, "{\"errors\":[\"timed out\"]}"},
        {ST_CONFLICT, 503, NULL}, /* others were faster, again and again */
        {ST_NO_LEADER, 503, "{\"errors\":[\"no active node\"]}"},
        {ST_TOO_BIG, 413, "{\"errors\":[\"too large\"]}"},
        {ST_NO_SPACE, 507, "{\"errors\":[\"no space left\"]}"},
        {ST_CORRUPT, 500, "{\"errors\":[\"stored data is corrupt\"]}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct router_reply reply = {0};
        reply_error(&reply, &secrets_dialect, cases[i].st, NULL);
        assert_int_equal(reply.http, cases[i].http);
        if (cases[i].body != NULL)
            assert_bytes(buf_bytes(&reply.body), bytes_str(cases[i].body));
        reply_done(&reply);
    }
    struct router_reply reply = {0};
    struct reason reason = {"a \"reason\""};
    reply_error(&reply, &secrets_dialect, ST_INVALID, &reason);
    assert_bytes(buf_bytes(&reply.body), BYTES("{\"errors\":[\"a \\\"reason\\\"\"]}"));
    reply_done(&reply);
}

static void request_ids_travel_as_text(void **ctx)
{
    (void)ctx;
    struct rlog_request_id in = {.issued = INT64_MAX}, out = {0};
    char text[RELAY_ID_TEXT];
    for (size_t i = 0; i < sizeof in.bytes; i++)
        in.bytes[i] = (uint8_t)(0xf0 + i);
    relay_id_put(&in, text);
    assert_status(relay_id_parse(bytes_str(text), &out), ST_OK);
    assert_memory_equal(&in, &out, sizeof in);
    static const char *const bad[] = {"",
                                      "-",
                                      "00112233445566778899aabbccddeeff",
                                      "00112233445566778899aabbccddeeff-",
                                      "00112233445566778899aabbccddeeff-x",
                                      "00112233445566778899aabbccddeeff--1",
                                      "00112233445566778899aabbccddeefg-1",
                                      "00112233445566778899aabbccddeeff+1"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_status(relay_id_parse(bytes_str(bad[i]), &out), ST_INVALID);
}

static void only_two_statuses_ask_for_another_try(void **ctx)
{
    (void)ctx;
    enum status retry = ST_INTERNAL;
    assert_status(relay_retry_parse((struct bytes){0}, &retry), ST_OK);
    assert_status(retry, ST_OK);
    assert_status(relay_retry_parse(BYTES("ST_NOT_LEADER"), &retry), ST_OK);
    assert_status(retry, ST_NOT_LEADER);
    assert_status(relay_retry_parse(BYTES("ST_UNKNOWN_OUTCOME"), &retry), ST_OK);
    assert_status(retry, ST_UNKNOWN_OUTCOME);
    assert_status(relay_retry_parse(BYTES("ST_OK"), &retry), ST_INVALID);
}

#define TEST(f) cmocka_unit_test_teardown(f, wipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_stored_reply_is_given_again),
        TEST(a_reply_without_a_body_stays_without),
        TEST(what_is_no_stored_reply_is_corrupt),
        TEST(more_headers_than_there_is_room_for_are_left_out),
        TEST(what_is_no_stored_reply_is_corrupt),
        TEST(every_status_has_a_reply),
        TEST(request_ids_travel_as_text),
        TEST(only_two_statuses_ask_for_another_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
