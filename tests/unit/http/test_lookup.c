/* Lookups by the system's resolver, of addresses in numbers and of names that /etc/hosts has or
 * nothing has. */
#include "support.h"

#include "http/lookup.h"
#include "loop/loop.h"

struct result {
    struct env *env;
    struct http_lookup *lookup;
    enum status st;
    struct http_addresses addresses;
    struct reason reason;
    unsigned calls;
};

static void on_result(void *ctx, struct http_lookup *lookup, enum status st,
                      const struct http_addresses *addresses, const struct reason *reason)
{
    struct result *r = ctx;
    assert_ptr_equal(lookup, r->lookup);
    r->st = st;
    r->addresses = *addresses;
    r->reason = *reason;
    r->calls++;
    loop_stop(r->env);
}

static struct result look_up(const char *address, bool hurry)
{
    struct result r = {.st = ST_INTERNAL};
    assert_status(loop_new(NULL, &r.env), ST_OK);
    assert_status(http_lookup_start(r.env, address, on_result, &r, &r.lookup), ST_OK);
    assert_int_equal(r.calls, 0);
    if (hurry)
        http_lookup_hurry(r.lookup);
    loop_run(r.env);
    loop_free(r.env);
    assert_int_equal(r.calls, 1);
    return r;
}

static void numbers_are_their_own_address(void **ctx)
{
    (void)ctx;
    struct result r = look_up("192.0.2.7:8201", false);
    assert_status(r.st, ST_OK);
    assert_int_equal(r.addresses.n, 1);
    assert_string_equal(r.addresses.text[0], "192.0.2.7:8201");
    r = look_up("[2001:db8::7]:65535", false);
    assert_status(r.st, ST_OK);
    assert_string_equal(r.addresses.text[0], "[2001:db8::7]:65535");
}

static void a_name_has_each_of_its_addresses_once(void **ctx)
{
    (void)ctx;
    struct result r = look_up("localhost:1", false);
    bool found = false;
    assert_status(r.st, ST_OK);
    for (unsigned i = 0; i < r.addresses.n; i++) {
        found |= strcmp(r.addresses.text[i], "127.0.0.1:1") == 0;
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(r.addresses.text[i], r.addresses.text[j]);
    }
    assert_true(found);
}

static void a_name_without_an_address_says_so(void **ctx)
{
    (void)ctx;
    struct result r = look_up("no-such-name.invalid:1", false);
    assert_status(r.st, ST_NOT_FOUND);
    assert_int_equal(r.addresses.n, 0);
    assert_true(r.reason.text[0] != '\0');
}

static void a_hurried_lookup_still_ends_once(void **ctx)
{
    (void)ctx;
    struct result r = look_up("192.0.2.7:8201", true);
    assert_true(r.st == ST_OK || r.st == ST_NOT_FOUND); /* it may have ended before */
}

static void what_is_no_address_is_refused_at_once(void **ctx)
{
    (void)ctx;
    static const char *const bad[] = {"",        "a",     "a:",    ":1", "a:0",
                                      "a:65536", "::1:1", "[::1]", "a:b"};
    struct env *env;
    struct http_lookup *lookup;
    assert_status(loop_new(NULL, &env), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_status(http_lookup_start(env, bad[i], on_result, NULL, &lookup), ST_INVALID);
    loop_free(env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_their_own_address),
        cmocka_unit_test(a_name_has_each_of_its_addresses_once),
        cmocka_unit_test(a_name_without_an_address_says_so),
        cmocka_unit_test(a_hurried_lookup_still_ends_once),
        cmocka_unit_test(what_is_no_address_is_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
