#include "support.h"

#include "cli/incoming.h"

#include <stdio.h>

/* The whole text at once, or a byte at a time. */
static enum status feed(struct incoming *in, const char *text, size_t piece, FILE *download)
{
    CLEANUP(buf_done) struct buf raw = {0};
    struct bytes all = bytes_str(text);
    incoming_init(in, download, 16);
    while (all.len != 0 && !incoming_over(in)) {
        struct bytes part = bytes_of(all.data, MIN(piece, all.len));
        buf_add(&raw, part);
        TRY(incoming_feed(in, &raw));
        all = bytes_from(all, part.len);
    }
    return incoming_over(in) ? ST_OK : incoming_end(in);
}

static void expect(const char *text, enum status wanted, int status, const char *body)
{
    static const size_t pieces[] = {1, 3, SIZE_MAX};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        CLEANUP(incoming_done) struct incoming in = {0};
        assert_status(feed(&in, text, pieces[i], NULL), wanted);
        if (wanted != ST_OK)
            continue;
        assert_int_equal(in.status, status);
        assert_bytes(buf_bytes(&in.body), bytes_str(body));
    }
}

static void a_body_has_a_length_or_chunks_or_the_end(void **ctx)
{
    (void)ctx;
    expect("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", ST_OK, 200, "abc");
    expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n1\r\nc\r\n0\r\nT: "
           "x\r\n\r\n",
           ST_OK, 200, "abc");
    expect("HTTP/1.0 403 No\r\n\r\nabc", ST_OK, 403, "abc");
    expect("HTTP/1.1 204 No Content\r\n\r\n", ST_OK, 204, "");
    expect("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", ST_OK, 304, "");
    expect("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ST_OK, 200,
           "");
}

static void what_is_cut_off_or_no_http_is_refused(void **ctx)
{
    (void)ctx;
    expect("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", ST_INVALID, 0, "");
    expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", ST_INVALID, 0, "");
    expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", ST_INVALID,
           0, "");
    expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", ST_INVALID, 0, "");
    expect("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", ST_INVALID, 0, "");
    expect("HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n", ST_INVALID, 0, "");
    expect("HTTP/1.1 2x0 OK\r\n\r\n", ST_INVALID, 0, "");
    expect("SSH-2.0-x\r\n\r\n", ST_INVALID, 0, "");
    expect("", ST_INVALID, 0, "");
}

static void a_body_beyond_the_bound_is_refused(void **ctx)
{
    (void)ctx;
    expect("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n1234567890123456", ST_OK, 200,
           "1234567890123456");
    expect("HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n12345678901234567", ST_TOO_BIG, 0, "");
    expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", ST_INVALID,
           0, "");
}

static void a_download_takes_good_replies_alone_and_has_no_bound(void **ctx)
{
    (void)ctx;
    char text[64] = "";
    FILE *file = tmpfile();
    CLEANUP(incoming_done) struct incoming good = {0};
    CLEANUP(incoming_done) struct incoming bad = {0};
    assert_non_null(file);
    assert_status(
        feed(&good, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n12345678901234567890", 7, file),
        ST_OK);
    assert_status(feed(&bad, "HTTP/1.1 403 No\r\nContent-Length: 3\r\n\r\nabc", 7, file), ST_OK);
    assert_int_equal(good.body.len, 0);
    assert_bytes(buf_bytes(&bad.body), BYTES("abc"));
    rewind(file);
    assert_int_equal(fread(text, 1, sizeof text, file), 20);
    assert_string_equal(text, "12345678901234567890");
    assert_int_equal(fclose(file), 0);
}

static void a_place_to_go_is_kept(void **ctx)
{
    (void)ctx;
    CLEANUP(incoming_done) struct incoming in = {0};
    assert_status(feed(&in,
                       "HTTP/1.1 307 Go\r\nLocation:  https://x/y\r\nContent-Length: 0\r\n\r\n", 1,
                       NULL),
                  ST_OK);
    assert_string_equal(in.location, "https://x/y");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_has_a_length_or_chunks_or_the_end),
        cmocka_unit_test(what_is_cut_off_or_no_http_is_refused),
        cmocka_unit_test(a_body_beyond_the_bound_is_refused),
        cmocka_unit_test(a_download_takes_good_replies_alone_and_has_no_bound),
        cmocka_unit_test(a_place_to_go_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
