/* Which addresses the rules for outgoing requests allow. */
#include "support.h"

#include "out/out_rules.h"

static struct cidr block(const char *text)
{
    struct cidr cidr;
    assert_status(cidr_parse(bytes_str(text), &cidr), ST_OK);
    return cidr;
}

static bool allowed(const struct out_rules *rules, const char *text)
{
    struct ip ip;
    struct reason reason = {""};
    assert_status(ip_parse(bytes_str(text), &ip), ST_OK);
    enum status st = out_rules_judge(rules, &ip, 443, &reason);
    assert_true(st == ST_OK || st == ST_REFUSED);
    assert_int_equal(st == ST_OK, reason.text[0] == '\0');
    return st == ST_OK;
}

static const struct out_rules empty;

static void link_local_and_unspecified_addresses_are_refused_by_default(void **ctx)
{
    (void)ctx; /* stateless */
    static const char *const refused[] = {
        "169.254.0.0",   "169.254.169.254", "169.254.255.255", "fe80::1", "febf:ffff::1",
        "fd00:ec2::254", "0.0.0.0",         "0.255.255.255",   "::",
    };
    static const char *const fine[] = {
        "169.253.255.255", "169.255.0.0", "127.0.0.1", "10.0.0.1",    "192.0.2.1", "::1", "::2",
        "fec0::1",         "fd00::1",     "1.0.0.0",   "2001:db8::1",
    };
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (allowed(&empty, refused[i]))
            fail_msg("%s is allowed", refused[i]);
    for (size_t i = 0; i < ARRAY_LEN(fine); i++)
        if (!allowed(&empty, fine[i]))
            fail_msg("%s is refused", fine[i]);
}

static void denied_blocks_are_refused_but_for_allowed_ones(void **ctx)
{
    (void)ctx; /* stateless */
    struct cidr deny[] = {block("10.0.0.0/8"), block("fd00::/8")};
    struct cidr allow[] = {block("10.1.0.0/16"), block("169.254.7.0/24"), block("0.0.0.0/8")};
    struct out_rules rules = {.deny = deny, .n_deny = 2, .allow = allow, .n_allow = 3};
    assert_false(allowed(&rules, "10.0.0.1"));
    assert_false(allowed(&rules, "10.2.0.1"));
    assert_true(allowed(&rules, "10.1.2.3"));
    assert_true(allowed(&rules, "11.0.0.1"));
    assert_false(allowed(&rules, "fd12::1"));
    assert_true(allowed(&rules, "169.254.7.1"));
    assert_false(allowed(&rules, "169.254.8.1"));
    assert_false(allowed(&rules, "0.0.0.0"));
}

static void only_allowed_blocks_pass_when_all_is_denied(void **ctx)
{
    (void)ctx; /* stateless */
    struct cidr deny[] = {block("0.0.0.0/0"), block("::/0")}, allow[] = {block("192.0.2.0/24")};
    struct out_rules rules = {.deny = deny, .n_deny = 2, .allow = allow, .n_allow = 1};
    assert_true(allowed(&rules, "192.0.2.200"));
    assert_false(allowed(&rules, "192.0.3.1"));
    assert_false(allowed(&rules, "2001:db8::1"));
}

static void an_ipv4_address_inside_an_ipv6_address_is_judged_too(void **ctx)
{
    (void)ctx; /* stateless */
    struct cidr deny[] = {block("127.0.0.0/8")};
    struct out_rules rules = {.deny = deny, .n_deny = 1};
    static const char *const refused[] = {
        "::ffff:127.0.0.1", "::127.0.0.1",       "64:ff9b::127.0.0.1",       "64:ff9b:1::127.0.0.1",
        "2002:7f00:1::1",   "2002:a9fe:a9fe::1", "64:ff9b::169.254.169.254", "::ffff:169.254.1.1",
    };
    static const char *const fine[] = {"64:ff9b::192.0.2.1", "2002:c000:0201::1", "::192.0.2.1"};
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (allowed(&rules, refused[i]))
            fail_msg("%s is allowed", refused[i]);
    for (size_t i = 0; i < ARRAY_LEN(fine); i++)
        if (!allowed(&rules, fine[i]))
            fail_msg("%s is refused", fine[i]);
}

static void only_listed_ports_pass(void **ctx)
{
    (void)ctx; /* stateless */
    static const uint16_t ports[] = {443, 8443};
    struct out_rules rules = {.ports = ports, .n_ports = 2};
    struct ip ip;
    struct reason reason = {""};
    assert_status(ip_parse(BYTES("192.0.2.1"), &ip), ST_OK);
    assert_status(out_rules_judge(&rules, &ip, 8443, &reason), ST_OK);
    assert_status(out_rules_judge(&rules, &ip, 25, &reason), ST_REFUSED);
    assert_string_equal(reason.text,
                        "the rules for outgoing requests refuse the port of 192.0.2.1:25");
    assert_status(out_rules_judge(&empty, &ip, 25, NULL), ST_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_local_and_unspecified_addresses_are_refused_by_default),
        cmocka_unit_test(denied_blocks_are_refused_but_for_allowed_ones),
        cmocka_unit_test(only_allowed_blocks_pass_when_all_is_denied),
        cmocka_unit_test(an_ipv4_address_inside_an_ipv6_address_is_judged_too),
        cmocka_unit_test(only_listed_ports_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
