/* Uploads into a file: complete, too long, broken off, and with a disk that fails. */
#include "front/stream_world.h"

#include "front/upload.h"

#include "front/front_request.h"

static struct upload up;
static struct front_request request; /* there is one request at a time */
static struct router_host host;
static enum status open_status;
static int pieces_with_room; /* negative: there is always room */

/* What came of it. */
static enum status told;
static uint64_t told_bytes;
static bool told_file, same;
static int told_pipe[2]; /* a byte for each */

static bool file_room(struct node *node)
{
    assert_ptr_equal(node, host.node);
    return pieces_with_room < 0 || pieces_with_room-- > 0;
}

static enum status file_open(struct node *node, struct fs_file **ret_file)
{
    assert_ptr_equal(node, host.node);
    return open_status != ST_OK
               ? open_status
               : fs_open(&disk->fs, "file", FS_READ | FS_WRITE | FS_CREATE, ret_file);
}

static void on_done(struct upload *u, enum status st)
{
    told = st;
    told_bytes = u->bytes;
    told_file = u->file != NULL;
    const struct mem_name *there = mem_find(&disk->now, "file");
    same = there != NULL && there->inode->size == u->bytes && u->bytes <= sizeof content &&
           (u->bytes == 0 || memcmp(there->inode->now, content, u->bytes) == 0);
    fs_close(u->file);
    http_respond_status(u->req, st == ST_OK ? ST_BUSY : st, "done");
    assert_int_equal(write(told_pipe[1], "x", 1), 1);
}

static void on_head(void *ctx, struct http_request *req)
{
    (void)ctx;
    http_limit_body(req, STREAM_LIMIT);
    http_stream_body(req, 0);
}

static void on_request(void *ctx, struct http_request *req)
{
    (void)ctx;
    up = (struct upload){.env = server.env, .req = req, .host = &host, .done = on_done};
    request = (struct front_request){.req = req, .upload = &up};
    req->user = &request;
    upload_start(&up);
}

static const struct http_handler handler = {.head = on_head, .request = on_request};

static int open_all(void **ctx)
{
    (void)ctx;
    static const struct node_ops ops = {.snapshot_room = file_room, .snapshot_file = file_open};
    host = (struct router_host){.node_ops = &ops};
    open_status = ST_OK;
    pieces_with_room = -1;
    assert_int_equal(pipe(told_pipe), 0);
    stream_open(&handler);
    return 0;
}

static int close_all(void **ctx)
{
    (void)ctx;
    stream_close();
    assert_int_equal(close(told_pipe[0]), 0);
    assert_int_equal(close(told_pipe[1]), 0);
    return 0;
}

static void await_told(void)
{
    char byte;
    assert_int_equal(read(told_pipe[0], &byte, 1), 1);
}

/* Say the head and what there is of a body, and stay until it came to something, or go. */
static void send_body(const char *headers, struct bytes body, bool goes)
{
    char head[200];
    int fd = dial(&server);
    (void)snprintf(head, sizeof head, "POST /x HTTP/1.1\r\n" HOST "%s\r\n\r\n", headers);
    assert_int_equal(say(fd, bytes_str(head)), strlen(head));
    (void)say(fd, body);
    if (goes)
        assert_int_equal(close(fd), 0);
    await_told();
    if (!goes)
        assert_int_equal(close(fd), 0);
}

static void send_length(size_t length, struct bytes body, bool goes)
{
    char header[64];
    (void)snprintf(header, sizeof header, "Content-Length: %zu", length);
    send_body(header, body, goes);
}

static void assert_told(enum status st, bool with_file)
{
    assert_status(told, st);
    assert_int_equal(told_file, with_file);
}

static void the_body_is_in_the_file(void **ctx)
{
    (void)ctx;
    send_length(sizeof content, bytes_of(content, sizeof content), false);
    assert_told(ST_OK, true);
    assert_int_equal(told_bytes, sizeof content);
    assert_true(same);
}

static void a_body_without_a_length_is_too(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf body = {0};
    for (size_t at = 0, n = 1; at < 5000; at += n, n = 1000) {
        buf_add_format(&body, "%zx\r\n", n);
        buf_add(&body, bytes_of(content + at, n));
        buf_add_str(&body, "\r\n");
    }
    buf_add_str(&body, "0\r\n\r\n");
    assert_status(buf_status(&body), ST_OK);
    send_body("Transfer-Encoding: chunked", buf_bytes(&body), false);
    assert_told(ST_OK, true);
    assert_int_equal(told_bytes, 5001);
    assert_true(same);
}

static void no_body_is_an_empty_file(void **ctx)
{
    (void)ctx;
    send_length(0, (struct bytes){0}, false);
    assert_told(ST_OK, true);
    assert_int_equal(told_bytes, 0);
    assert_true(same);
}

static void what_is_longer_than_the_route_takes_is_refused(void **ctx)
{
    (void)ctx;
    int fd = dial(&server);
    CLEANUP(buf_done) struct buf head = {0};
    buf_add_format(&head, "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n%x\r\n",
                   2 * STREAM_LIMIT);
    assert_int_equal(say(fd, buf_bytes(&head)), head.len);
    for (int i = 0; i < 4; i++)
        (void)say(fd, bytes_of(content, sizeof content));
    await_told();
    assert_int_equal(close(fd), 0);
    assert_told(ST_TOO_BIG, false);
}

static void a_body_that_breaks_off_leaves_nothing(void **ctx)
{
    (void)ctx;
    send_length(sizeof content, bytes_of(content, sizeof content / 2), true);
    assert_told(ST_CLOSED, false);
}

static void a_malformed_body_leaves_nothing(void **ctx)
{
    (void)ctx;
    send_body("Transfer-Encoding: chunked", BYTES("5\r\nhello\r\nno number\r\n"), false);
    assert_told(ST_INVALID, false);
}

static void a_failed_write_ends_it(void **ctx)
{
    (void)ctx;
    for (unsigned later = 2; later <= 3; later++) { /* the request after the opening, or the next */
        disk->fail_at = disk->calls + later;
        disk->fail_with = ST_IO;
        send_length(sizeof content, bytes_of(content, sizeof content), false);
        assert_told(ST_IO, false);
    }
    disk->room = 1000;
    send_length(sizeof content, bytes_of(content, sizeof content), false);
    assert_told(ST_NO_SPACE, false);
}

static void no_room_ends_it_before_the_disk_is_full(void **ctx)
{
    (void)ctx;
    for (int pieces = 0; pieces < 2; pieces++) {
        pieces_with_room = pieces;
        uint64_t writes = disk->writes;
        send_length(sizeof content, bytes_of(content, sizeof content), false);
        assert_told(ST_NO_SPACE, false);
        assert_int_equal(disk->writes - writes, (unsigned)pieces);
    }
}

static void a_file_that_cannot_be_made_is_said_before_anything_is_read(void **ctx)
{
    (void)ctx;
    open_status = ST_IO;
    send_length(sizeof content, (struct bytes){0}, false);
    assert_told(ST_IO, false);
    assert_int_equal(told_bytes, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_body_is_in_the_file),
        TEST(a_body_without_a_length_is_too),
        TEST(no_body_is_an_empty_file),
        TEST(what_is_longer_than_the_route_takes_is_refused),
        TEST(a_body_that_breaks_off_leaves_nothing),
        TEST(a_malformed_body_leaves_nothing),
        TEST(a_failed_write_ends_it),
        TEST(no_room_ends_it_before_the_disk_is_full),
        TEST(a_file_that_cannot_be_made_is_said_before_anything_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
