#include "crypto/crypto.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define assert_status(expression, expected) \
    assert_string_equal(status_name(expression), status_name(expected))

static int setup(void **ctx)
{
    (void)ctx;
    return crypto_init(NULL) == ST_OK ? 0 : -1;
}

static void starting_twice_changes_nothing(void **ctx)
{
    bool first, second;
    (void)ctx;
    assert_status(crypto_init(&first), ST_OK);
    assert_status(crypto_init(&second), ST_OK);
    assert_int_equal(first, second);
}

static void random_bytes_differ(void **ctx)
{
    uint8_t a[32] = {0}, b[32] = {0};
    (void)ctx;
    assert_status(crypto_random(a, sizeof a), ST_OK);
    assert_status(crypto_random(b, sizeof b), ST_OK);
    assert_memory_not_equal(a, b, sizeof a);
    assert_status(crypto_random(NULL, 0), ST_OK);
}

static void a_secret_holds_a_copy_until_it_is_done(void **ctx)
{
    struct secret s = {0}, other = {0};
    (void)ctx;
    assert_status(secret_dup(BYTES("key"), &s), ST_OK);
    assert_true(bytes_eq_secret(secret_bytes(&s), BYTES("key")));
    assert_status(secret_random(32, &other), ST_OK);
    assert_int_equal(other.len, 32);
    secret_done(&s);
    secret_done(&s);
    secret_done(&other);
    assert_null(s.data);
    assert_int_equal(s.len, 0);
}

static void a_secret_is_bounded(void **ctx)
{
    struct secret s = {0};
    (void)ctx;
    assert_status(secret_new(SECRET_BYTES_MAX, &s), ST_OK);
    secret_done(&s);
    assert_status(secret_new(SECRET_BYTES_MAX + 1, &s), ST_TOO_BIG);
    assert_null(s.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starting_twice_changes_nothing),
        cmocka_unit_test(random_bytes_differ),
        cmocka_unit_test(a_secret_holds_a_copy_until_it_is_done),
        cmocka_unit_test(a_secret_is_bounded),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
