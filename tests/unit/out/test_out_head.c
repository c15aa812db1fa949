/* The head of a reply, in lines: libcurl's versions differ in which of these lines they let
 * through.
 */
#include "support.h"

#include "out/out_internal.h"

/* Feed lines, which end with '\n', until one is refused. */
static enum status feed(const char *lines, struct out_head *head, struct out_reply *reply)
{
    static const char *const wanted[] = {"X"};
    static const struct out_request request = {.wanted = wanted, .n_wanted = 1};
    enum status st = ST_OK;
    *head = (struct out_head){.request = &request, .reply = reply};
    while (*lines != '\0' && st == ST_OK) {
        size_t n = strcspn(lines, "\n") + 1;
        st = out_head_line(head, bytes_of(lines, n));
        lines += n;
    }
    return st;
}

static void the_end_of_a_line_may_lack_its_cr(void **ctx)
{
    (void)ctx; /* stateless */
    struct out_head head;
    struct out_reply reply = {0};
    assert_status(feed("HTTP/1.1 200\nX: a\n\n", &head, &reply), ST_OK);
    assert_int_equal(head.phase, OUT_HEAD_BODY);
    assert_bytes(out_reply_header(&reply, 0), BYTES("a"));
    out_reply_done(&reply);
}

static void headers_that_parsers_read_differently_are_refused(void **ctx)
{
    (void)ctx; /* stateless */
    static const struct {
        const char *lines, *fault;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n", "has a folded header"},
        {"HTTP/1.1 200 OK\r\nX: a\r\n\tY: b\r\n", "has a folded header"},
        {"HTTP/1.1 200 OK\r\nX : a\r\n", "has a malformed header"},
        {"HTTP/1.1 200 OK\r\n: a\r\n", "has a malformed header"},
        {"HTTP/1.1 200 OK\r\nno colon\r\n", "has a malformed header"},
        {"HTTP/1.1 200 OK\r\nX: a\rY: b\r\n", "has a control character in a header"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n", "has two lengths"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n",
         "is encoded in a way that was not asked for"},
        {"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n",
         "is encoded in a way that was not asked for"},
        {"HTTP/3 200 OK\r\n", "is not HTTP/1"},
        {"HTTP/1.1 20\r\n", "is not HTTP/1"},
        {"HTTP/1.1 2x0 OK\r\n", "has a malformed status"},
        {"HTTP/1.1 099 OK\r\n", "has a status that it may not have"},
        {"HTTP/1.1 600 OK\r\n", "has a status that it may not have"},
        {"HTTP/1.1 101 OK\r\n", "has a status that it may not have"},
        {"\r\n", "is not HTTP/1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct out_head head;
        struct out_reply reply = {0};
        assert_status(feed(cases[i].lines, &head, &reply), ST_BAD_GATEWAY);
        assert_string_equal(head.fault, cases[i].fault);
        out_reply_done(&reply);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_line_may_lack_its_cr),
        cmocka_unit_test(headers_that_parsers_read_differently_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
