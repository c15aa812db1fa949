#include "support.h"

#include "http/proxy.h"

/* Feeds as a socket would that gives all that is asked for, or one byte at a time. What was taken
 * goes to *ret_used. */
static enum proxy_result feed(struct proxy *p, struct bytes in, bool slowly, size_t *ret_used)
{
    enum proxy_result result = PROXY_MORE;
    size_t used = 0;
    *p = (struct proxy){0};
    while (result == PROXY_MORE && used < in.len) {
        size_t n = slowly ? 1 : MIN(proxy_want(p), in.len - used);
        memcpy(p->bytes + p->len, in.data + used, n);
        used += n;
        result = proxy_feed(p, n);
    }
    *ret_used = used;
    return result;
}

static void assert_fed(struct bytes in, enum proxy_result wanted, size_t used, const char *client)
{
    static struct proxy p;
    for (unsigned slowly = 0; slowly < 2; slowly++) {
        char text[IP_PORT_TEXT];
        size_t taken;
        assert_int_equal(feed(&p, in, slowly != 0, &taken), wanted);
        if (wanted == PROXY_CLIENT || wanted == PROXY_NONE)
            assert_int_equal(taken, used);
        if (wanted != PROXY_CLIENT)
            continue;
        ip_port_put(&p.ip, p.port, text);
        assert_string_equal(text, client);
    }
}

static void a_line_names_the_client_and_nothing_behind_it_is_taken(void **ctx)
{
    (void)ctx;
#define V4 "PROXY TCP4 203.0.113.7 10.0.0.1 56324 8200\r\n"
#define V6 "PROXY TCP6 fd00::7 fd00::1 1 65535\r\n"
    assert_fed(BYTES(V4 "GET / HTTP/1.1\r\n"), PROXY_CLIENT, sizeof V4 - 1, "203.0.113.7:56324");
    assert_fed(BYTES(V6 "PROXY"), PROXY_CLIENT, sizeof V6 - 1, "[fd00::7]:1");
    assert_fed(BYTES("PROXY UNKNOWN\r\nGET"), PROXY_NONE, 15, NULL);
    assert_fed(BYTES("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\nGET"), PROXY_NONE, 35, NULL);
    char longest[PROXY_LINE_MAX + 2];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "PROXY UNKNOWN ", 14);
    memcpy(longest + PROXY_LINE_MAX - 2, "\r\n", 2);
    assert_fed(bytes_of(longest, PROXY_LINE_MAX), PROXY_NONE, PROXY_LINE_MAX, NULL);
    memcpy(longest + PROXY_LINE_MAX - 2, "x\r\n", 3);
    assert_fed(bytes_of(longest, PROXY_LINE_MAX + 1), PROXY_BAD, 0, NULL);
}

static void a_line_that_is_not_exact_is_bad(void **ctx)
{
    (void)ctx;
    static const char *const bad[] = {
        "PROXY TCP4 203.0.113.7 10.0.0.1 56324\r\n",
        "PROXY TCP4 203.0.113.7 10.0.0.1 56324 8200 \r\n",
        "PROXY TCP4  203.0.113.7 10.0.0.1 56324 8200\r\n",
        "PROXY TCP4 203.0.113.7 10.0.0.1 056324 8200\r\n",
        "PROXY TCP4 203.0.113.7 10.0.0.1 65536 8200\r\n",
        "PROXY TCP4 203.0.113.7 10.0.0.1 +1 8200\r\n",
        "PROXY TCP4 203.0.113.256 10.0.0.1 1 2\r\n",
        "PROXY TCP4 203.0.113.7 10.0.0.256 1 2\r\n",
        "PROXY TCP4 203.0.113.7 10.0.0.1 -1 2\r\n",
        "PROXY TCP4 203.0.113.7 10.0.0.1 1 65536\r\n",
        "PROXY TCP4 203.0.113.7 10.0.0.1 1 02\r\n",
        "PROXY TCP4 203.0.113.7 10.0.0.1 1 -2\r\n",
        "PROXY TCP6 ::1 1.2.3.x 1 2\r\n",
        "PROXY TCP4 fd00::1 fd00::2 1 2\r\n",
        "PROXY TCP6 1.2.3.4 1.2.3.5 1 2\r\n",
        "PROXY UDP4 1.2.3.4 1.2.3.5 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.5 1 2\n",
        "PROXY TCP4 1.2.3.4 1.2.3.5 1 2 3\r\n",
        "PROXY \r\n        ",
        ("PROXY TCP4 1.2.3.4 1.2.3.5 1 2                                                           "
         " "
         "                                          \r\n"),
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_fed(bytes_str(bad[i]), PROXY_BAD, 0, NULL);
}

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

static void a_binary_head_names_the_client(void **ctx)
{
    (void)ctx;
    assert_fed(BYTES(SIGNATURE "\x21\x11\0\x0c\xcb\0\x71\x07\x0a\0\0\x01\xdc\x04\x20\x08GET"),
               PROXY_CLIENT, 28, "203.0.113.7:56324");
    assert_fed(BYTES(SIGNATURE "\x21\x11\0\x0f\xcb\0\x71\x07\x0a\0\0\x01\xdc\x04\x20\x08\x04\0\0G"),
               PROXY_CLIENT, 31, "203.0.113.7:56324");
    assert_fed(BYTES(SIGNATURE "\x21\x21\0\x24\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07"
                               "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb\x20\x08"),
               PROXY_CLIENT, 52, "[fd00::7]:443");
}

static void a_proxy_that_speaks_for_itself_names_nobody(void **ctx)
{
    (void)ctx;
    assert_fed(BYTES(SIGNATURE "\x20\0\0\0GET"), PROXY_NONE, 16, NULL);
    assert_fed(BYTES(SIGNATURE "\x21\0\0\0GET"), PROXY_NONE, 16, NULL);
    assert_fed(BYTES(SIGNATURE "\x21\x31\0\x02\x01\x02GET"), PROXY_NONE, 18, NULL);
    assert_fed(BYTES(SIGNATURE "\x20\x11\0\x0c\xcb\0\x71\x07\x0a\0\0\x01\xdc\x04\x20\x08GET"),
               PROXY_NONE, 28, NULL);
}

static void a_binary_head_that_is_not_exact_is_bad(void **ctx)
{
    (void)ctx;
    assert_fed(BYTES(SIGNATURE "\x11\x11\0\x0c"), PROXY_BAD, 0, NULL);
    assert_fed(BYTES(SIGNATURE "\x22\x11\0\x0c"), PROXY_BAD, 0, NULL);
    assert_fed(BYTES(SIGNATURE "\x21\x41\0\x0c"), PROXY_BAD, 0, NULL);
    assert_fed(BYTES(SIGNATURE "\x21\x11\xff\xff"), PROXY_BAD, 0, NULL);
    assert_fed(BYTES(SIGNATURE "\x21\x11\0\x0b\xcb\0\x71\x07\x0a\0\0\x01\xdc\x04\x20"), PROXY_BAD,
               0, NULL);
    assert_fed(BYTES(SIGNATURE "\x21\x12\0\x0c\xcb\0\x71\x07\x0a\0\0\x01\xdc\x04\x20\x08"),
               PROXY_BAD, 0, NULL);
    assert_fed(BYTES(SIGNATURE "\x21\x13\0\x0c"), PROXY_BAD, 0, NULL);
    /* The addresses of the smaller family do not do for the larger. */
    assert_fed(BYTES(SIGNATURE "\x21\x21\0\x0c\xcb\0\x71\x07\x0a\0\0\x01\xdc\x04\x20\x08"),
               PROXY_BAD, 0, NULL);
    assert_fed(BYTES(SIGNATURE "\x21\0\x08\x01"), PROXY_BAD, 0, NULL);
    assert_fed(BYTES(SIGNATURE "\x21\0\x08\0"), PROXY_MORE, 0, NULL);
}

static void what_is_something_else_is_told_early(void **ctx)
{
    (void)ctx;
    static struct proxy p;
    size_t used;
    assert_int_equal(feed(&p, BYTES("GET / HTTP/1.1\r\n"), true, &used), PROXY_ABSENT);
    assert_int_equal(used, 1);
    assert_int_equal(feed(&p, BYTES("POST / HTTP/1.1\r\n"), true, &used), PROXY_ABSENT);
    assert_int_equal(used, 2);
    assert_int_equal(
        feed(&p, BYTES("\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\x11\x22"), false, &used),
        PROXY_ABSENT);
    assert_int_equal(used, PROXY_HEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_names_the_client_and_nothing_behind_it_is_taken),
        cmocka_unit_test(a_line_that_is_not_exact_is_bad),
        cmocka_unit_test(a_binary_head_names_the_client),
        cmocka_unit_test(a_proxy_that_speaks_for_itself_names_nobody),
        cmocka_unit_test(a_binary_head_that_is_not_exact_is_bad),
        cmocka_unit_test(what_is_something_else_is_told_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
