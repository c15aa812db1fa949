#include "support.h"

#include "text/cidr.h"

static bool holds(const char *block, const char *address)
{
    struct cidr cidr;
    struct ip ip;
    assert_status(cidr_parse(bytes_str(block), &cidr), ST_OK);
    assert_status(ip_parse(bytes_str(address), &ip), ST_OK);
    return cidr_holds(&cidr, &ip);
}

static void a_block_holds_what_shares_its_bits(void **ctx)
{
    (void)ctx;
    assert_true(holds("10.0.0.0/8", "10.255.0.1"));
    assert_false(holds("10.0.0.0/8", "11.0.0.1"));
    assert_true(holds("10.0.0.4/30", "10.0.0.7"));
    assert_false(holds("10.0.0.4/30", "10.0.0.8"));
    assert_true(holds("0.0.0.0/0", "203.0.113.9"));
    assert_false(holds("0.0.0.0/0", "::1"));
    assert_true(holds("::/0", "fd00::1"));
    assert_true(holds("fd00::/15", "fd01::1"));
    assert_false(holds("fd00::/16", "fd01::1"));
    assert_true(holds("10.0.0.1/32", "10.0.0.1"));
    assert_false(holds("10.0.0.1/32", "10.0.0.0"));
    assert_true(holds("fd00::1/128", "fd00::1"));
    assert_false(holds("fd00::1/128", "fd00::"));
    assert_true(holds("128.0.0.0/1", "255.0.0.1"));
    assert_false(holds("128.0.0.0/1", "127.0.0.1"));
}

static void an_address_is_a_block_of_one(void **ctx)
{
    (void)ctx;
    assert_true(holds("127.0.0.1", "127.0.0.1"));
    assert_false(holds("127.0.0.1", "127.0.0.2"));
    assert_true(holds("127.0.0.1", "::ffff:127.0.0.1"));
}

static void what_is_no_block_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const bad[] = {"",
                                      "10",
                                      "10.0.0.0/",
                                      "10.0.0.0/33",
                                      "10.0.0.1/8",
                                      "10.0.0.3/31",
                                      "fd00::1/16",
                                      "fd00::1/127",
                                      "/8",
                                      "::/129",
                                      "10.0.0.0/-1",
                                      "a.b.c.d/8",
                                      "10.0.0.0/8 ",
                                      "fe80::1%lo",
                                      "::ffff:10.0.0.0/104"};
    struct cidr cidr;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_status(cidr_parse(bytes_str(bad[i]), &cidr), ST_INVALID);
}

static void an_address_comes_with_a_port_or_without(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *text, *shown;
    } good[] = {{"10.0.0.1:80", "10.0.0.1:80"},       {"10.0.0.1", "10.0.0.1:0"},
                {"10.0.0.1:65535", "10.0.0.1:65535"}, {"[fd00::1]:443", "[fd00::1]:443"},
                {"[fd00::1]", "[fd00::1]:0"},         {"fd00::1", "[fd00::1]:0"}};
    static const char *const bad[] = {"",          ":80",        "10.0.0.1:",   "10.0.0.1:65536",
                                      "[fd00::1",  "[fd00::1]x", "[fd00::1]:",  "10.0.0.1:-1",
                                      "[10.0.0.1", "unknown",    "10.0.0.1:80x"};
    char text[IP_PORT_TEXT];
    struct ip ip;
    uint16_t port;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_status(ip_port_parse(bytes_str(good[i].text), &ip, &port), ST_OK);
        ip_port_put(&ip, port, text);
        assert_string_equal(text, good[i].shown);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_status(ip_port_parse(bytes_str(bad[i]), &ip, &port), ST_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_holds_what_shares_its_bits),
        cmocka_unit_test(an_address_is_a_block_of_one),
        cmocka_unit_test(what_is_no_block_is_refused),
        cmocka_unit_test(an_address_comes_with_a_port_or_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
