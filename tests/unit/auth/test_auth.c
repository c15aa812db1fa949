#include "support.h"

#include "auth/namespace.h"
#include "auth/token.h"

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

static void a_root_token_never_expires_and_has_no_parent(void **ctx)
{
    (void)ctx;
    struct auth_token token = auth_token_root(1700000000123);
    assert_int_equal(token.expire_ms, 0);
    assert_true(token.orphan);
    assert_string_equal(token.parent, "");
    assert_int_equal(token.created_ms, 1700000000123);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_root_namespace_is_found),
        cmocka_unit_test(a_root_token_never_expires_and_has_no_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
