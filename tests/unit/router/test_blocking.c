/* Blocking requests: the index of a result. */
#include "router/blocking_world.h"

static uint64_t index_at(enum http_method method, const char *path)
{
    seen_index = 0;
    (void)world_request(&w, method, path, NULL); /* whether the key is there or absent */
    return seen_index;
}

static void put(const char *path)
{
    assert_int_equal(world_request(&w, METHOD_POST, path, "{}")->http, 204);
}

static void the_index_of_an_object_is_its_newest_version(void **ctx)
{
    (void)ctx;
    put("/v1/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/v1/blocking/key/a");
    assert_int_equal(index, w.m.version);
    put("/v1/blocking/key/b");
    assert_int_equal(index_at(METHOD_GET, "/v1/blocking/key/a"), index);
    put("/v1/blocking/key/a");
    assert_int_equal(index_at(METHOD_GET, "/v1/blocking/key/a"), w.m.version);
}

static void the_index_of_a_list_is_the_newest_below_its_prefix(void **ctx)
{
    (void)ctx;
    put("/v1/blocking/key/a");
    put("/v1/blocking/key/b");
    assert_int_equal(index_at(METHOD_LIST, "/v1/blocking/keys"), w.m.version);
    assert_int_equal(world_request(&w, METHOD_DELETE, "/v1/blocking/key/a", NULL)->http, 204);
    assert_int_equal(index_at(METHOD_LIST, "/v1/blocking/keys"), w.m.version);
}

static void an_absent_object_has_an_index_too(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/blocking/key/none", NULL)->http, 404);
    assert_true(seen_index != 0);
}

static void a_key_outside_of_the_state_cannot_be_watched(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/blocking/wrong", NULL)->http, 400);
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_index_of_an_object_is_its_newest_version),
        T(the_index_of_a_list_is_the_newest_below_its_prefix),
        T(an_absent_object_has_an_index_too),
        T(a_key_outside_of_the_state_cannot_be_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
