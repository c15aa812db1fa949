/* TLS connections: bytes in and out. */
#include "crypto/tls_world.h"

#include "base/mem.h"

#include <openssl/err.h>

static void write_str(struct tls_conn *conn, const char *text)
{
    struct bytes part = bytes_str(text);
    assert_status(tls_write(conn, &part, 1), ST_OK);
}

static void assert_got(struct buf *got, const char *text)
{
    assert_int_equal(got->len, strlen(text));
    assert_memory_equal(got->data, text, got->len);
    buf_clear(got);
}

/* A client of TLS 1.2, which names no newer version. */
static const char hello_12[] = "\x16\x03\x01\x00\x45\x01\x00\x00\x41\x03\x03"
                               "0123456789abcdef0123456789abcdef"
                               "\x00\x00\x02\xc0\x2b\x01\x00" /* ECDHE-ECDSA-AES128-GCM */
                               "\x00\x16"
                               "\x00\x0a\x00\x04\x00\x02\x00\x17"  /* P-256 */
                               "\x00\x0b\x00\x02\x01\x00"          /* uncompressed */
                               "\x00\x0d\x00\x04\x00\x02\x04\x03"; /* ECDSA, SHA-256 */

static void tls_12_is_for_clients_only(void **ctx)
{
    struct tls_options server = own(&pki.server, NULL);
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    for (int strict = 0; strict < 2; strict++) {
        struct ends e;
        server.tls13_only = strict == 1;
        ends_init(&e, server, own(NULL, &pki.ca), &localhost);
        assert_status(tls_feed(e.server, bytes_of(hello_12, sizeof hello_12 - 1)), ST_OK);
        assert_status(drain(e.server, &got), strict ? ST_CRYPTO : ST_OK);
        assert_string_equal(tls_error(e.server), strict ? "unsupported protocol" : "");
        ends_done(&e);
    }
}

static void plaintext_passes_both_ways(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    assert_open(&e);
    assert_string_equal(tls_version(e.client), "TLSv1.3");
    write_str(e.client, "question");
    assert_status(carry(e.client, e.server, 1000, &got), ST_OK);
    assert_got(&got, "question");
    write_str(e.server, "answer");
    assert_status(carry(e.server, e.client, 1000, &got), ST_OK);
    assert_got(&got, "answer");
    ends_done(&e);
}

static void the_handshake_may_be_split_at_every_byte(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, 1);
    assert_open(&e);
    write_str(e.client, "question");
    assert_status(carry(e.client, e.server, 1, &got), ST_OK);
    assert_got(&got, "question");
    ends_done(&e);
}

static void records_that_come_together_are_all_read(void **ctx)
{
    struct ends e;
    enum { RECORDS = 300 };
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    assert_status(drain(e.server, &got), ST_OK); /* nothing waits */
    for (unsigned i = 0; i < RECORDS; i++)
        write_str(e.client, "a line and another\n");
    tls_close_notify(e.client);
    assert_status(carry(e.client, e.server, SIZE_MAX / 2, &got), ST_CLOSED);
    assert_int_equal(got.len, RECORDS * strlen("a line and another\n"));
    ends_done(&e);
}

/* What another use of the library left behind is not taken for a failure of the connection. */
static void errors_of_others_do_not_count(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    write_str(e.client, "question");
    CLEANUP(buf_done) struct buf out = {0};
    tls_take_out(e.client, &out);
    assert_status(tls_feed(e.server, bytes_of(out.data, 3)), ST_OK); /* half a record */
    ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
    assert_status(drain(e.server, &got), ST_OK);
    assert_int_equal(got.len, 0);
    assert_status(tls_feed(e.server, bytes_of(out.data + 3, out.len - 3)), ST_OK);
    ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
    assert_status(drain(e.server, &got), ST_OK);
    assert_got(&got, "question");
    ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
    write_str(e.server, "answer");
    ERR_clear_error();
    got.len = 0;
    assert_status(carry(e.server, e.client, SIZE_MAX / 2, &got), ST_OK);
    assert_got(&got, "answer");
    ends_done(&e);
}

/* What is lent may be written over as soon as tls_keep was called. */
static void lent_input_is_kept_where_it_was_not_read(void **ctx)
{
    struct ends e;
    uint8_t place[4096], plain[100];
    size_t n = 0, half;
    CLEANUP(buf_done) struct buf out = {0}, got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    write_str(e.client, "one ");
    write_str(e.client, "two ");
    write_str(e.client, "three");
    tls_take_out(e.client, &out);
    assert_true(out.len < sizeof place);
    half = out.len / 2;
    for (unsigned part = 0; part < 2; part++) { /* nothing is read of the first */
        struct bytes from = bytes_from(buf_bytes(&out), part * half);
        from.len = part == 0 ? half : from.len;
        memcpy(place, from.data, from.len);
        assert_status(tls_lend(e.server, bytes_of(place, from.len)), ST_OK);
        if (part == 1)
            assert_status(tls_read(e.server, plain, sizeof plain, &n), ST_OK);
        assert_status(tls_keep(e.server), ST_OK);
        memset(place, 0xff, sizeof place);
    }
    buf_add(&got, bytes_of(plain, n));
    assert_status(drain(e.server, &got), ST_OK);
    assert_got(&got, "one two three");
    ends_done(&e);
}

static void input_may_be_lent_byte_by_byte(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf out = {0}, got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    write_str(e.client, "first");
    write_str(e.client, " second");
    tls_close_notify(e.client);
    tls_take_out(e.client, &out);
    enum status st = ST_OK;
    for (size_t i = 0; i < out.len; i++) {
        uint8_t byte = out.data[i];
        assert_status(st, ST_OK);
        assert_status(tls_lend(e.server, bytes_of(&byte, 1)), ST_OK);
        st = drain(e.server, &got);
        assert_status(tls_keep(e.server), ST_OK);
        byte = 0xff;
    }
    assert_status(st, ST_CLOSED);
    assert_got(&got, "first second");
    ends_done(&e);
}

static void lent_input_is_bounded_too(void **ctx)
{
    struct ends e;
    static uint8_t zeroes[TLS_INPUT_MAX + 1];
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    assert_status(tls_lend(e.server, bytes_of(zeroes, TLS_INPUT_MAX + 1)), ST_TOO_BIG);
    assert_status(tls_lend(e.server, bytes_of(zeroes, TLS_INPUT_MAX)), ST_OK);
    assert_status(tls_keep(e.server), ST_OK);
    assert_status(tls_lend(e.server, bytes_of(zeroes, 1)), ST_TOO_BIG);
    ends_done(&e);
}

static void output_goes_to_lent_room(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf spare = {0}, out = {0}, got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    assert_status(buf_reserve(&spare, 1000), ST_OK);
    const uint8_t *room = spare.data;
    tls_lend_out(e.client, &spare);
    assert_null(spare.data);
    assert_int_equal(tls_out_len(e.client), 0);
    write_str(e.client, "there");
    assert_status(buf_reserve(&spare, 1000), ST_OK);
    tls_lend_out(e.client, &spare); /* some waits already */
    assert_non_null(spare.data);
    tls_take_out(e.client, &out);
    assert_ptr_equal(out.data, room);
    assert_status(tls_feed(e.server, buf_bytes(&out)), ST_OK);
    assert_status(drain(e.server, &got), ST_OK);
    assert_got(&got, "there");
    ends_done(&e);
}

/* Also with a record of which some bytes have come: the head alone, or a part of it. */
static void a_connection_rests_between_records(void **ctx)
{
    (void)ctx;
    struct ends e;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    assert_false(tls_rest(e.server)); /* the handshake is not over */
    shake(&e, SIZE_MAX / 2);
    assert_open(&e);
    assert_true(tls_rest(e.server));
    for (size_t first = 1; first <= 40; first++) {
        CLEANUP(buf_done) struct buf cipher = {0};
        uint8_t plain[64];
        size_t n = 0;
        write_str(e.client, "some words");
        tls_take_out(e.client, &cipher);
        struct bytes whole = buf_bytes(&cipher);
        size_t split = MIN(first, whole.len);
        assert_status(tls_feed(e.server, bytes_of(whole.data, split)), ST_OK);
        assert_status(tls_read(e.server, plain, sizeof plain, &n), ST_OK);
        assert_int_equal(tls_rest(e.server), split == whole.len);
        if (split < whole.len) {
            assert_int_equal(n, 0);
            assert_status(tls_feed(e.server, bytes_from(whole, split)), ST_OK);
            assert_status(tls_read(e.server, plain, sizeof plain, &n), ST_OK);
        }
        assert_memory_equal(plain, "some words", n);
        assert_int_equal(n, strlen("some words"));
        assert_true(tls_rest(e.server));
    }
    ends_done(&e);
}

/* An idle connection may write between two rests and read nothing. */
static void a_connection_rests_twice_without_reading(void **ctx)
{
    (void)ctx;
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, SIZE_MAX / 2);
    write_str(e.client, "question");
    assert_status(carry(e.client, e.server, 1000, &got), ST_OK);
    assert_got(&got, "question");
    for (int i = 0; i < 3; i++) {
        assert_true(tls_rest(e.server));
        assert_true(tls_rest(e.server));
        write_str(e.server, "answer");
        assert_status(carry(e.server, e.client, 1000, &got), ST_OK);
        assert_got(&got, "answer");
    }
    assert_true(tls_rest(e.server));
    write_str(e.client, "question");
    assert_status(carry(e.client, e.server, 1000, &got), ST_OK);
    assert_got(&got, "question");
    ends_done(&e);
}

static void many_parts_share_records(void **ctx)
{
    struct ends e;
    enum { LARGE = 3 * TLS_RECORD_MAX + 100 };
    static uint8_t large[LARGE];
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, 100);
    memset(large, 'x', sizeof large);
    struct bytes parts[] = {BYTES("a"), {0}, BYTES("bc"), bytes_of(large, LARGE), BYTES("d")};
    assert_status(tls_write(e.client, parts, ARRAY_LEN(parts)), ST_OK);
    assert_true(tls_out_len(e.client) < LARGE + 4 + 4 * 30);
    assert_status(carry(e.client, e.server, 777, &got), ST_OK);
    assert_int_equal(got.len, LARGE + 4);
    assert_memory_equal(got.data, "abcxxx", 6);
    assert_memory_equal(got.data + LARGE, "xxxd", 4);
    ends_done(&e);
}

static void writing_waits_for_the_handshake_and_for_room(void **ctx)
{
    struct ends e;
    static uint8_t large[TLS_OUTPUT_MAX];
    struct bytes part = bytes_of(large, sizeof large);
    CLEANUP(buf_done) struct buf out = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    assert_status(tls_write(e.server, &part, 1), ST_BUSY);
    shake(&e, 1000);
    assert_status(tls_write(e.server, &part, 1), ST_OK);
    assert_status(tls_write(e.server, &part, 1), ST_BUSY);
    tls_take_out(e.server, &out);
    assert_status(tls_write(e.server, &part, 1), ST_OK);
    ends_done(&e);
}

static void input_beyond_the_bound_is_refused(void **ctx)
{
    struct ends e;
    static uint8_t zeroes[TLS_INPUT_MAX];
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    assert_status(tls_feed(e.server, bytes_of(zeroes, TLS_INPUT_MAX)), ST_OK);
    assert_status(tls_feed(e.server, bytes_of(zeroes, 1)), ST_TOO_BIG);
    ends_done(&e);
}

static void close_notify_ends_reading_cleanly(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, 1000);
    write_str(e.client, "last");
    tls_close_notify(e.client);
    tls_close_notify(e.client);
    assert_status(carry(e.client, e.server, 1000, &got), ST_CLOSED);
    assert_got(&got, "last");
    tls_feed_end(e.server);
    assert_status(drain(e.server, &got), ST_CLOSED);
    write_str(e.server, "still heard"); /* half-closed */
    assert_status(carry(e.server, e.client, 1000, &got), ST_OK);
    assert_got(&got, "still heard");
    ends_done(&e);
}

static void a_cut_connection_is_told_from_a_closed_one(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, 1000);
    write_str(e.client, "cut short");
    assert_status(carry(e.client, e.server, 1000, &got), ST_OK);
    tls_feed_end(e.server);
    assert_status(drain(e.server, &got), ST_IO);
    assert_string_equal(tls_error(e.server), "the connection was cut");
    ends_done(&e);
}

static void a_flipped_bit_fails_the_connection(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0}, out = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    shake(&e, 1000);
    write_str(e.client, "important");
    tls_take_out(e.client, &out);
    out.data[out.len - 3] ^= 1;
    assert_status(tls_feed(e.server, buf_bytes(&out)), ST_OK);
    assert_status(drain(e.server, &got), ST_CRYPTO);
    assert_int_equal(got.len, 0);
    assert_true(tls_out_len(e.server) > 0); /* the alert */
    assert_status(drain(e.server, &got), ST_CRYPTO);
    ends_done(&e);
}

static void garbage_fails_the_handshake(void **ctx)
{
    struct ends e;
    CLEANUP(buf_done) struct buf got = {0};
    (void)ctx;
    ends_init(&e, own(&pki.server, NULL), own(NULL, &pki.ca), &localhost);
    assert_status(tls_feed(e.server, BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n")), ST_OK);
    assert_status(drain(e.server, &got), ST_CRYPTO);
    assert_string_equal(tls_error(e.server), "http request");
    ends_done(&e);
}

/* One exchange in which every step may run out of memory. */
static bool exchange(struct ends *e)
{
    struct tls_options server = own(&pki.server, NULL), client = own(NULL, &pki.ca);
    struct bytes part = BYTES("x");
    struct buf out = {0};
    uint8_t plain[10];
    size_t n = 0;
    *e = (struct ends){0};
    server.server = true;
    bool ok = tls_ctx_new(&server, &e->server_ctx, NULL) == ST_OK &&
              tls_ctx_new(&client, &e->client_ctx, NULL) == ST_OK &&
              tls_conn_new(e->server_ctx, NULL, &e->server) == ST_OK &&
              tls_conn_new(e->client_ctx, &localhost, &e->client) == ST_OK;
    for (int i = 0; ok && i < 6; i++) {
        struct tls_conn *from = i % 2 == 0 ? e->client : e->server;
        struct tls_conn *to = i % 2 == 0 ? e->server : e->client;
        tls_take_out(from, &out);
        ok = tls_lend(to, buf_bytes(&out)) == ST_OK && tls_read(to, plain, 10, &n) == ST_OK &&
             tls_keep(to) == ST_OK;
        buf_done(&out);
    }
    return ok && tls_write(e->client, &part, 1) == ST_OK;
}

static void running_out_of_memory_is_survived_anywhere(void **ctx)
{
    bool used = true;
    (void)ctx;
    for (uint64_t n = 1; used; n++) {
        struct ends e;
        assert_true(n < 1000);
        (void)mem_fail_nth(n); /* nothing was requested before */
        bool ok = exchange(&e);
        used = mem_fail_nth(0);
        assert_int_equal(ok, !used);
        ends_done(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tls_12_is_for_clients_only),
        cmocka_unit_test(plaintext_passes_both_ways),
        cmocka_unit_test(the_handshake_may_be_split_at_every_byte),
        cmocka_unit_test(records_that_come_together_are_all_read),
        cmocka_unit_test(errors_of_others_do_not_count),
        cmocka_unit_test(lent_input_is_kept_where_it_was_not_read),
        cmocka_unit_test(input_may_be_lent_byte_by_byte),
        cmocka_unit_test(lent_input_is_bounded_too),
        cmocka_unit_test(output_goes_to_lent_room),
        cmocka_unit_test(a_connection_rests_between_records),
        cmocka_unit_test(a_connection_rests_twice_without_reading),
        cmocka_unit_test(many_parts_share_records),
        cmocka_unit_test(writing_waits_for_the_handshake_and_for_room),
        cmocka_unit_test(input_beyond_the_bound_is_refused),
        cmocka_unit_test(close_notify_ends_reading_cleanly),
        cmocka_unit_test(a_cut_connection_is_told_from_a_closed_one),
        cmocka_unit_test(a_flipped_bit_fails_the_connection),
        cmocka_unit_test(garbage_fails_the_handshake),
        cmocka_unit_test(running_out_of_memory_is_survived_anywhere),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
