#include "state/ns_key.h"
#include "support.h"
#include "text/random.h"

#include "auth/namespace.h"
#include "auth/token.h"
#include "state/fake_env.h"

static struct fake_env env;
static struct arena arena;

static int open_env(void **ctx)
{
    (void)ctx;
    fake_env_init(&env, 1);
    return 0;
}

static int wipe(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

static void random_text_uses_every_digit_equally(void **ctx)
{
    (void)ctx;
    enum { N = 62000 };
    static char text[N + 1];
    unsigned seen[256] = {0};
    text_random(&env.env, text, N);
    assert_int_equal(strlen(text), N);
    for (size_t i = 0; i < N; i++)
        seen[(uint8_t)text[i]]++;
    unsigned kinds = 0;
    for (size_t i = 0; i < 256; i++) {
        kinds += seen[i] != 0;
        assert_true(seen[i] == 0 || (seen[i] > 800 && seen[i] < 1200));
    }
    assert_int_equal(kinds, 62);
}

static void a_uuid_is_of_version_4(void **ctx)
{
    (void)ctx;
    char first[TEXT_UUID_LEN + 1], second[TEXT_UUID_LEN + 1];
    text_uuid(&env.env, first);
    text_uuid(&env.env, second);
    assert_string_not_equal(first, second);
    assert_int_equal(strlen(first), 36);
    assert_int_equal(first[14], '4');
    assert_non_null(strchr("89ab", first[19]));
    assert_int_equal(strspn(first, "0123456789abcdef-"), 36);
    assert_true(first[8] == '-' && first[13] == '-' && first[18] == '-' && first[23] == '-');
}

static void only_the_root_namespace_is_found(void **ctx)
{
    (void)ctx;
    static const char *const found[] = {"", "/", "root", "root/", "//root//"};
    static const char *const none[] = {"Root", "roo", "root/x", "x", "..", "root\xff"};
    const char *id = NULL;
    for (size_t i = 0; i < ARRAY_LEN(found); i++) {
        assert_status(auth_namespace_find(bytes_str(found[i]), &id), ST_OK);
        assert_string_equal(id, "root");
    }
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_status(auth_namespace_find(bytes_str(none[i]), &id), ST_NOT_FOUND);
}

static void a_key_is_in_the_namespace_whose_whole_id_it_names(void **ctx)
{
    (void)ctx;
    assert_true(state_ns_holds(BYTES("s/ns/root/token/x"), "root"));
    assert_true(state_ns_holds(BYTES("s/ns/root/"), "root"));
    assert_false(state_ns_holds(BYTES("s/ns/root"), "root"));
    assert_false(state_ns_holds(BYTES("s/ns/roots/token/x"), "root"));
    assert_false(state_ns_holds(BYTES("s/ns/roo/token/x"), "root"));
    assert_false(state_ns_holds(BYTES("x/ns/root/token/x"), "root"));
}

static void a_root_token_never_expires_and_has_no_parent(void **ctx)
{
    (void)ctx;
    struct auth_token token = auth_token_root(1700000000123);
    assert_int_equal(token.expire_ms, 0);
    assert_true(token.orphan);
    assert_string_equal(token.parent, "");
    assert_int_equal(token.created_ms, 1700000000123);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_env, wipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(random_text_uses_every_digit_equally),
        TEST(a_uuid_is_of_version_4),
        TEST(only_the_root_namespace_is_found),
        TEST(a_key_is_in_the_namespace_whose_whole_id_it_names),
        TEST(a_root_token_never_expires_and_has_no_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
