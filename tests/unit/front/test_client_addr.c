#include "support.h"

#include "front/client_addr.h"

#include <stdio.h>

static struct cidr trusted;

static int trust(void **ctx)
{
    (void)ctx;
    return cidr_parse(BYTES("10.0.0.0/8"), &trusted) == ST_OK ? 0 : -1;
}

static const char *choose(struct client_rule rule, const char *peer, const char *first,
                          const char *second)
{
    static char text[HTTP_PEER_TEXT];
    struct bytes values[2] = {bytes_str(first != NULL ? first : ""),
                              bytes_str(second != NULL ? second : "")};
    struct reason why = {0};
    rule.authorized = &trusted;
    rule.n = 1;
    (void)snprintf(text, sizeof text, "%s", peer);
    size_t n = first == NULL ? 0 : second == NULL ? 1 : 2;
    if (client_addr_choose(&rule, values, n, text, &why) == ST_OK)
        return text;
    assert_string_not_equal(why.text, "");
    return "refused";
}

static void the_last_entry_is_the_client(void **ctx)
{
    (void)ctx;
    const struct client_rule rule = {0};
    assert_string_equal(choose(rule, "10.0.0.1:5", "1.1.1.1", NULL), "1.1.1.1:5");
    assert_string_equal(choose(rule, "10.0.0.1:5", "2.2.2.2,1.1.1.1", NULL), "1.1.1.1:5");
    assert_string_equal(choose(rule, "10.0.0.1:5", "2.2.2.2", " 1.1.1.1:99\t"), "1.1.1.1:99");
    assert_string_equal(choose(rule, "10.0.0.1:5", "[fd00::1]:7", NULL), "[fd00::1]:7");
    assert_string_equal(choose(rule, "10.0.0.1:5", "fd00::1", NULL), "[fd00::1]:5");
}

static void hops_are_counted_from_the_end_over_all_headers(void **ctx)
{
    (void)ctx;
    const struct client_rule rule = {.hop_skips = 2};
    assert_string_equal(choose(rule, "10.0.0.1:5", "3.3.3.3,2.2.2.2,1.1.1.1", NULL), "3.3.3.3:5");
    assert_string_equal(choose(rule, "10.0.0.1:5", "4.4.4.4,3.3.3.3", "2.2.2.2,1.1.1.1"),
                        "3.3.3.3:5");
    assert_string_equal(choose(rule, "10.0.0.1:5", "2.2.2.2", "1.1.1.1"), "refused");
}

static void entries_that_are_no_address_are_refused(void **ctx)
{
    (void)ctx;
    static const char *const bad[] = {
        "", ",", "1.1.1.1,", "unknown", "1.1.1.1 2.2.2.2", "1.1.1.1:", "[1.1.1.1"};
    const struct client_rule rule = {0};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_string_equal(choose(rule, "10.0.0.1:5", bad[i], NULL), "refused");
}

static void others_are_ignored_or_refused(void **ctx)
{
    (void)ctx;
    struct client_rule rule = {0};
    assert_string_equal(choose(rule, "11.0.0.1:5", "1.1.1.1", NULL), "11.0.0.1:5");
    assert_string_equal(choose(rule, "", "1.1.1.1", NULL), "");
    assert_string_equal(choose(rule, "11.0.0.1:5", NULL, NULL), "11.0.0.1:5");
    rule.reject_not_authorized = true;
    assert_string_equal(choose(rule, "11.0.0.1:5", "1.1.1.1", NULL), "refused");
    assert_string_equal(choose(rule, "11.0.0.1:5", NULL, NULL), "11.0.0.1:5");
    rule.reject_not_present = true;
    assert_string_equal(choose(rule, "10.0.0.1:5", NULL, NULL), "refused");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_entry_is_the_client),
        cmocka_unit_test(hops_are_counted_from_the_end_over_all_headers),
        cmocka_unit_test(entries_that_are_no_address_are_refused),
        cmocka_unit_test(others_are_ignored_or_refused),
    };
    return cmocka_run_group_tests(tests, trust, NULL);
}
