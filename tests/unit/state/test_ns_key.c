#include "state/ns_key.h"
#include "support.h"

static void a_key_has_its_parts_in_order(void **ctx)
{
    (void)ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    struct bytes key;
    assert_status(state_ns_key(&arena, "root", "token", BYTES("a"), NULL, &key), ST_OK);
    assert_true(bytes_eq(key, BYTES("s/ns/root/token/a")));
    assert_status(state_ns_key(&arena, "root", "child", BYTES("a"), "b", &key), ST_OK);
    assert_true(bytes_eq(key, BYTES("s/ns/root/child/a/b")));
    assert_int_equal(key.data[key.len], 0);
    assert_status(state_ns_key(&arena, "root", "data", BYTES(""), "", &key), ST_OK);
    assert_true(bytes_eq(key, BYTES("s/ns/root/data//")));
}

static void keys_with_times_sort_by_time(void **ctx)
{
    (void)ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    static const int64_t times[] = {1, 15, 16, 1700000000000, TEXT_EXPIRY_END - 1};
    struct bytes before = {0}, key;
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        assert_status(state_ns_time_key(&arena, "root", "expire", times[i], "x", &key), ST_OK);
        assert_true(bytes_cmp(before, key) < 0);
        before = key;
    }
    assert_true(bytes_eq(key, BYTES("s/ns/root/expire/ffffffffffff/x")));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_its_parts_in_order),
        cmocka_unit_test(keys_with_times_sort_by_time),
        cmocka_unit_test(a_key_is_in_the_namespace_whose_whole_id_it_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
