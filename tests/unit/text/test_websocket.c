#include "support.h"

#include "text/websocket.h"

struct heard {
    unsigned n;
    struct buf last;
};

static void on_message(void *ctx, struct bytes message)
{
    struct heard *heard = ctx;
    heard->n++;
    buf_clear(&heard->last);
    buf_add(&heard->last, message);
}

struct pair {
    struct heard of_server, of_client;
    struct websocket *server, *client;
};

static int set_up(void **ctx)
{
    static struct pair pair;
    pair = (struct pair){{0}, {0}, NULL, NULL};
    assert_status(websocket_new(true, on_message, &pair.of_server, &pair.server), ST_OK);
    assert_status(websocket_new(false, on_message, &pair.of_client, &pair.client), ST_OK);
    *ctx = &pair;
    return 0;
}

static int tear_down(void **ctx)
{
    struct pair *pair = *ctx;
    websocket_free(pair->server);
    websocket_free(pair->client);
    buf_done(&pair->of_server.last);
    buf_done(&pair->of_client.last);
    return 0;
}

/* Give the output of one side to the other, `step` bytes at a time. */
static enum status pass(struct websocket *from, struct websocket *to, size_t step)
{
    struct buf *out = websocket_out(from);
    while (out->len != 0) {
        struct bytes part = bytes_of(out->data, MIN(step, out->len));
        enum status st = websocket_feed(to, part);
        buf_consume(out, part.len);
        TRY(st);
    }
    return ST_OK;
}

static void a_message_arrives_however_its_bytes_are_cut(void **ctx)
{
    struct pair *pair = *ctx;
    for (size_t step = 1; step <= 8; step++) {
        assert_status(websocket_send(pair->client, BYTES("to the server")), ST_OK);
        assert_status(pass(pair->client, pair->server, step), ST_OK);
        assert_true(bytes_eq(buf_bytes(&pair->of_server.last), BYTES("to the server")));
        assert_status(websocket_send(pair->server, BYTES("to the client")), ST_OK);
        assert_status(pass(pair->server, pair->client, step), ST_OK);
        assert_true(bytes_eq(buf_bytes(&pair->of_client.last), BYTES("to the client")));
    }
    assert_int_equal(pair->of_server.n, 8);
}

static void a_close_ends_both_sides(void **ctx)
{
    struct pair *pair = *ctx;
    assert_status(websocket_close(pair->server, WEBSOCKET_POLICY, BYTES("no")), ST_OK);
    assert_status(pass(pair->server, pair->client, 64), ST_CLOSED);
    assert_status(websocket_send(pair->server, BYTES("late")), ST_CLOSED);
}

static void a_frame_that_breaks_the_rules_ends_the_connection(void **ctx)
{
    struct pair *pair = *ctx;
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {
        {"\x81\x02hi", 4},                                         /* a client must mask */
        {"\xc1\x80\0\0\0\0", 6},                                   /* a reserved bit */
        {"\x83\x80\0\0\0\0", 6},                                   /* an unknown opcode */
        {"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0a", 15}, /* longer than allowed */
        {"\x81\x82\0\0\0\0\xff\xfe", 8},                           /* no UTF-8 */
        {"\x09\x80\0\0\0\0", 6},                                   /* a ping in fragments */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct websocket *server;
        assert_status(websocket_new(true, on_message, &pair->of_server, &server), ST_OK);
        enum status st = websocket_feed(server, bytes_of(rows[i].bytes, rows[i].len));
        if (st != ST_CLOSED)
            fail_msg("row %zu: %s", i, status_name(st));
        websocket_free(server);
    }
    assert_int_equal(pair->of_server.n, 0);
}

static void the_text_of_a_lone_close_frame_is_cut_at_a_character(void **ctx)
{
    CLEANUP(buf_done) struct buf out = {0};
    char text[200];
    (void)ctx;
    memset(text, 'a', sizeof text);
    memcpy(text + WEBSOCKET_REASON_MAX - 1, "\xc3\xa4", 2);
    websocket_put_close(&out, WEBSOCKET_INTERNAL, bytes_of(text, sizeof text));
    assert_int_equal(out.len, 4 + WEBSOCKET_REASON_MAX - 1);
    assert_memory_equal(out.data, "\x88\x7c\x03\xf3", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_message_arrives_however_its_bytes_are_cut, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_close_ends_both_sides, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_frame_that_breaks_the_rules_ends_the_connection, set_up,
                                        tear_down),
        cmocka_unit_test(the_text_of_a_lone_close_frame_is_cut_at_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
