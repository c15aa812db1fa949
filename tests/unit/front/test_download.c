/* Downloads of files: a complete file, or a reply cut off so that the client notices. */
#include "front/stream_world.h"

#include "front/download.h"

static uint64_t file_bytes, said_bytes;

static void on_request(void *ctx, struct http_request *req)
{
    (void)ctx;
    struct fs_file *file = stream_file();
    http_respond_begin(req, &(struct http_reply){.status = 200}, said_bytes);
    download_start(req, (struct reply_file){file, said_bytes, server.env});
}

static const struct http_handler handler = {.request = on_request};

static int open_all(void **ctx)
{
    (void)ctx;
    stream_open(&handler);
    return 0;
}

static int close_all(void **ctx)
{
    (void)ctx;
    stream_close();
    return 0;
}

static void have_file(uint64_t bytes, uint64_t said)
{
    struct fs_file *file = stream_file();
    struct bytes all = bytes_of(content, bytes);
    assert_status(fs_set_size(file, 0), ST_OK);
    if (bytes != 0)
        assert_status(fs_write_at(file, &all, 1, 0), ST_OK);
    fs_close(file);
    file_bytes = bytes;
    said_bytes = said;
}

/* Two requests on one connection. How many of their bodies came whole; *ret_bytes: how much of the
 * one that did not, behind its head. */
static unsigned fetch(size_t *ret_bytes)
{
    static char out[2 * STREAM_BYTES + 4096];
    static const char ask[] =
        "GET /x HTTP/1.1\r\n" HOST "\r\nGET /x HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n";
    int fd = dial(&server);
    assert_int_equal(say(fd, bytes_str(ask)), strlen(ask));
    size_t n = hear(fd, out, sizeof out, NULL), at = 0;
    assert_int_equal(close(fd), 0);
    for (unsigned whole = 0;; whole++) {
        const char *body = memmem(out + at, n - at, "\r\n\r\n", 4);
        *ret_bytes = 0;
        if (body == NULL)
            return whole;
        at = (size_t)(body - out) + 4;
        *ret_bytes = n - at;
        assert_memory_equal(out + at, content, MIN(n - at, file_bytes));
        if (n - at < said_bytes)
            return whole;
        at += said_bytes;
    }
}

static void the_file_is_the_body(void **ctx)
{
    (void)ctx;
    static const uint64_t sizes[] = {0, 1, 128 * 1024, 128 * 1024 + 1, STREAM_BYTES};
    size_t cut;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        have_file(sizes[i], sizes[i]);
        assert_int_equal(fetch(&cut), 2);
    }
}

static void a_file_that_is_shorter_than_announced_cuts_the_reply(void **ctx)
{
    (void)ctx;
    size_t cut;
    have_file(STREAM_BYTES - 1, STREAM_BYTES);
    assert_int_equal(fetch(&cut), 0); /* and the second is not answered as if it were its rest */
    assert_true(cut < STREAM_BYTES);
    have_file(0, 1);
    assert_int_equal(fetch(&cut), 0);
    assert_int_equal(cut, 0);
}

static void a_failed_read_cuts_the_reply(void **ctx)
{
    (void)ctx;
    size_t cut;
    have_file(STREAM_BYTES, STREAM_BYTES);
    disk->fail_at = disk->calls + 3; /* behind the opening and the first piece */
    disk->fail_with = ST_IO;
    assert_int_equal(fetch(&cut), 0);
    assert_true(cut <= 128 * 1024);
}

/* A failed read says nothing about bytes: the length of the piece before may be left. */
static void a_failed_read_of_a_short_last_piece_cuts_the_reply(void **ctx)
{
    (void)ctx;
    size_t cut;
    have_file(128 * 1024 + 1, 128 * 1024 + 1);
    disk->fail_at = disk->calls + 3; /* behind the opening and the first piece */
    disk->fail_with = ST_IO;
    assert_int_equal(fetch(&cut), 0);
    assert_true(cut <= 128 * 1024);
}

static void a_client_that_goes_leaves_nothing(void **ctx)
{
    (void)ctx;
    static const char ask[] = "GET /x HTTP/1.1\r\n" HOST "\r\n";
    char out[200];
    size_t cut;
    have_file(STREAM_BYTES, STREAM_BYTES);
    int fd = dial(&server);
    assert_int_equal(say(fd, bytes_str(ask)), strlen(ask));
    assert_true(hear(fd, out, sizeof out, "\r\n\r\n") > 0);
    assert_int_equal(close(fd), 0); /* with unread bytes: the peer sees a reset */
    assert_int_equal(fetch(&cut), 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_file_is_the_body),
        TEST(a_file_that_is_shorter_than_announced_cuts_the_reply),
        TEST(a_failed_read_cuts_the_reply),
        TEST(a_failed_read_of_a_short_last_piece_cuts_the_reply),
        TEST(a_client_that_goes_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
