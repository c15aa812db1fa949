/* Replies that clients do not read: bounds, who is closed, and what is given back. */
#include "base/shared.h"
#include "http/counters.h"
#include "http/harness.h"
#include "http/unwritten.h"

#include <stdlib.h>

enum { TOTAL = 1024 * 1024, SMALL = 100, SECRET = TOTAL / 8, CROWD = 40 };

static struct http_unwritten unwritten;

static struct http_payer payer(uint8_t host, uint64_t token)
{
    const uint8_t bytes[4] = {10, 0, 0, host};
    return (struct http_payer){.address = ip_of(bytes, 4), .token = token};
}

static struct env *counting_env;

static void counting_open(void)
{
    assert_int_equal(loop_new(NULL, &counting_env), ST_OK);
    assert_int_equal(http_unwritten_init(&unwritten, counting_env, TOTAL), ST_OK);
}

static void counting_close(void)
{
    assert_int_equal(tally_get(&unwritten.used), 0);
    assert_int_equal(unwritten.anonymous, 0);
    loop_free(counting_env);
    http_unwritten_done(&unwritten);
}

static void each_bound_names_itself(void **ctx)
{
    static const struct {
        uint8_t host;
        uint64_t token;
        size_t held, more;
        enum unwritten_bound bound;
    } rows[] = {
        {1, 0, TOTAL / 4, 1, UNWRITTEN_ANONYMOUS}, {1, 7, TOTAL / 2, 1, UNWRITTEN_ADDRESS},
        {1, 7, TOTAL / 2 - 1, 1, UNWRITTEN_FITS},  {1, 0, 1, TOTAL / 4, UNWRITTEN_ANONYMOUS},
        {1, 7, 0, 2 * TOTAL, UNWRITTEN_FITS}, /* one reply longer than all: alone it is taken */
        {1, 7, 1, 2 * TOTAL, UNWRITTEN_ADDRESS},
    };
    (void)ctx; /* static */
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_payer who = payer(rows[i].host, rows[i].token);
        counting_open();
        if (rows[i].held != 0)
            assert_int_equal(http_unwritten_take(&unwritten, &who, rows[i].held), UNWRITTEN_FITS);
        assert_int_equal(http_unwritten_take(&unwritten, &who, rows[i].more), rows[i].bound);
        size_t held = rows[i].held + (rows[i].bound == UNWRITTEN_FITS ? rows[i].more : 0);
        assert_int_equal(tally_get(&unwritten.used), held);
        if (held != 0)
            http_unwritten_give(&unwritten, &who, held);
        counting_close();
    }
}

static void addresses_and_tokens_share_all(void **ctx)
{
    struct http_payer a = payer(1, 1), b = payer(1, 2), c = payer(1, 3), d = payer(2, 4),
                      e = payer(3, 5), f = payer(4, 6);
    (void)ctx; /* static */
    counting_open();
    assert_int_equal(http_unwritten_take(&unwritten, &a, TOTAL / 4), UNWRITTEN_FITS);
    assert_int_equal(http_unwritten_take(&unwritten, &b, TOTAL / 4), UNWRITTEN_FITS);
    assert_int_equal(http_unwritten_take(&unwritten, &c, 1), UNWRITTEN_ADDRESS);
    assert_int_equal(http_unwritten_take(&unwritten, &d, TOTAL / 4), UNWRITTEN_FITS);
    assert_int_equal(http_unwritten_take(&unwritten, &e, TOTAL / 4), UNWRITTEN_FITS);
    assert_int_equal(http_unwritten_take(&unwritten, &f, 1), UNWRITTEN_ALL);
    http_unwritten_give(&unwritten, &a, TOTAL / 4);
    http_unwritten_give(&unwritten, &b, TOTAL / 4);
    http_unwritten_give(&unwritten, &d, TOTAL / 4);
    http_unwritten_give(&unwritten, &e, TOTAL / 4);
    counting_close();
}

static unsigned n_closed;

static void on_close(struct http_owed *owed)
{
    assert_int_equal(owed->bytes, 0);
    n_closed++;
}

static void the_connection_that_waits_longest_makes_room(void **ctx)
{
    struct http_owed owed[5];
    struct http_payer who = payer(1, 9), other = payer(2, 8);
    (void)ctx; /* static */
    counting_open();
    n_closed = 0;
    for (unsigned i = 0; i < ARRAY_LEN(owed); i++) {
        owed[i] = (struct http_owed){.close = on_close};
        list_init(&owed[i].link);
    }
    assert_true(http_owed_wait(&unwritten, &owed[0], &other, TOTAL / 16));
    for (unsigned i = 1; i < 4; i++)
        assert_true(http_owed_wait(&unwritten, &owed[i], &who, TOTAL / 6));
    /* the share of the address is used up: the first of the address goes, not the first of all */
    assert_true(http_owed_wait(&unwritten, &owed[4], &who, TOTAL / 16));
    assert_int_equal(owed[0].bytes, TOTAL / 16);
    assert_int_equal(owed[1].bytes, 0);
    assert_int_equal(owed[2].bytes, TOTAL / 6);
    /* the one that waits longest grows: it goes itself */
    assert_false(http_owed_wait(&unwritten, &owed[2], &who, TOTAL / 3));
    assert_int_equal(owed[2].bytes, 0);
    assert_int_equal(tally_get(&unwritten.closed[UNWRITTEN_ADDRESS]), 2);
    assert_int_equal(n_closed, 0); /* never from inside the call */
    for (unsigned i = 0; i < ARRAY_LEN(owed); i++)
        if (i != 1)
            http_owed_clear(&unwritten, &owed[i]);
    loop_free(counting_env); /* runs what was posted */
    assert_int_equal(n_closed, 1);
    assert_int_equal(tally_get(&unwritten.used), 0);
    http_unwritten_done(&unwritten);
}

static void requests_that_wait_take_a_part_of_the_budget(void **ctx)
{
    enum { QUEUE = TOTAL / 8 };
    struct http_payer a = payer(1, 1), b = payer(2, 2), c = payer(3, 3), x = payer(4, 0),
                      y = payer(5, 0);
    (void)ctx; /* static */
    counting_open();
    assert_true(http_unwritten_queue(&unwritten, &a, QUEUE / 2));
    assert_false(http_unwritten_queue(&unwritten, &a, 1)); /* the part of one token */
    assert_true(http_unwritten_queue(&unwritten, &x, QUEUE / 4));
    assert_true(http_unwritten_queue(&unwritten, &y, QUEUE / 4));
    assert_false(http_unwritten_queue(&unwritten, &y, 1)); /* all without a token together */
    assert_false(http_unwritten_queue(&unwritten, &c, 1)); /* the part of all */
    assert_int_equal(tally_get(&unwritten.used), QUEUE);
    http_unwritten_unqueue(&unwritten, &a, QUEUE / 2);
    assert_true(http_unwritten_queue(&unwritten, &b, QUEUE / 2));
    http_unwritten_unqueue(&unwritten, &b, QUEUE / 2);
    http_unwritten_unqueue(&unwritten, &x, QUEUE / 4);
    http_unwritten_unqueue(&unwritten, &y, QUEUE / 4);
    counting_close();
}

/* A server */

static struct harness h;
static struct shared *document;
static atomic_uint made; /* requests that reached the handler */

static void on_request(void *ctx, struct http_request *req)
{
    struct http_reply reply = {.status = 200};
    struct buf body = {0};
    (void)ctx; /* stateless */
    atomic_fetch_add(&made, 1);
    if (bytes_eq(req->path, BYTES("/document"))) {
        http_keep_shared(req, shared_ref(document));
        reply.body = shared_bytes(document);
        http_respond(req, &reply);
        return;
    }
    size_t n = bytes_eq(req->path, BYTES("/small")) ? SMALL : SECRET;
    http_reply_payer(req, NULL, req->query.len != 0 ? req->query.data[0] : 0);
    if (http_reply_room(req) != ST_OK) {
        http_respond_status(req, ST_BUSY, NULL);
        return;
    }
    http_reply_hold(req, n);
    uint8_t *at = buf_extend(&body, n);
    assert_non_null(at);
    memset(at, 'x', n);
    http_keep(req, &body);
    reply.body = bytes_of(at, n);
    http_respond(req, &reply);
}

static const struct http_handler handler = {.request = on_request};

static void up(void)
{
    struct http_server_options options = {.handler = &handler, .unwritten = &unwritten};
    struct buf text = {0};
    uint8_t *at = buf_extend(&text, SECRET);
    assert_non_null(at);
    memset(at, 'd', SECRET);
    document = shared_new(&text);
    assert_non_null(document);
    harness_open(&h, &options);
}

/* The harness makes the env: the budget is made before the first connection. */
static void begin(void)
{
    up();
    assert_int_equal(http_unwritten_init(&unwritten, h.env, TOTAL), ST_OK);
}

static void down(void)
{
    harness_down(&h);
    assert_int_equal(tally_get(&unwritten.used), 0);
    http_unwritten_done(&unwritten);
    shared_unref(document);
}

static int dial_slow(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons(http_server_port(h.server))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), room = 4096;
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    assert_int_equal(TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&to, sizeof to)), 0);
    return fd;
}

static void ask(const char *path, int fds[static CROWD])
{
    char text[64];
    unsigned before = atomic_load(&made);
    (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path); /* fits */
    for (unsigned i = 0; i < CROWD; i++) {
        fds[i] = dial_slow();
        assert_int_equal(say(fds[i], bytes_str(text)), strlen(text));
    }
    while (atomic_load(&made) - before < CROWD)
        usleep(1000);
}

static void leave(int fds[static CROWD])
{
    for (unsigned i = 0; i < CROWD; i++)
        close(fds[i]);
}

static uint64_t closed_in_all(void)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < UNWRITTEN_BOUNDS; i++)
        n += tally_get(&unwritten.closed[i]);
    return n;
}

static void readers_of_a_shared_document_cost_no_copy(void **ctx)
{
    int fds[CROWD];
    (void)ctx; /* static */
    begin();
    ask("/document", fds);
    /* as copies they would be five times the budget */
    assert_int_equal(closed_in_all(), 0);
    assert_in_range(tally_get(&unwritten.used), 1, TOTAL / 4);
    leave(fds);
    down();
}

static void slow_readers_of_one_token_are_closed_and_others_served(void **ctx)
{
    static char reply[SECRET + 4096];
    int fds[CROWD];
    (void)ctx; /* static */
    begin();
    ask("/secret?t", fds);
    assert_in_range(tally_get(&unwritten.used), 1, TOTAL / 2 + SECRET);
    assert_in_range(closed_in_all(), 1, CROWD);
    int other = dial(&h);
    static const char text[] = "GET /secret?u HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_int_equal(say(other, bytes_str(text)), strlen(text));
    assert_in_range(hear(other, reply, sizeof reply, NULL), SECRET, sizeof reply);
    assert_non_null(strstr(reply, "200 OK"));
    close(other);
    leave(fds);
    down();
}

static void pipelined_requests_wait_until_the_replies_are_read(void **ctx)
{
    enum { REQUESTS = 20 };
    static char reply[REQUESTS * (SECRET + 1024)];
    static const char text[] = "GET /secret?t HTTP/1.1\r\nHost: a\r\n\r\n";
    unsigned before = atomic_load(&made);
    (void)ctx; /* static */
    begin();
    int fd = dial_slow();
    for (unsigned i = 0; i + 1 < REQUESTS; i++)
        assert_int_equal(say(fd, bytes_str(text)), strlen(text));
    static const char end[] = "GET /small HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_int_equal(say(fd, bytes_str(end)), strlen(end));
    while (tally_get(&unwritten.used) == 0)
        usleep(1000);
    assert_in_range(atomic_load(&made) - before, 1, 2);
    size_t n = hear(fd, reply, sizeof reply, NULL);
    assert_in_range(n, (REQUESTS - 1) * SECRET + SMALL, sizeof reply);
    assert_int_equal(atomic_load(&made) - before, REQUESTS);
    assert_int_equal(closed_in_all(), 0);
    close(fd);
    down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bound_names_itself),
        cmocka_unit_test(addresses_and_tokens_share_all),
        cmocka_unit_test(the_connection_that_waits_longest_makes_room),
        cmocka_unit_test(requests_that_wait_take_a_part_of_the_budget),
        cmocka_unit_test(readers_of_a_shared_document_cost_no_copy),
        cmocka_unit_test(slow_readers_of_one_token_are_closed_and_others_served),
        cmocka_unit_test(pipelined_requests_wait_until_the_replies_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
