#include "router/world.h"

static const struct route_api *const apis[] = {&sys_api, &token_api, &kv_api};
static struct world w;

static int open_world(void **ctx)
{
    (void)ctx;
    world_open(&w, apis, ARRAY_LEN(apis));
    world_init(&w);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    world_close(&w);
    return 0;
}

static void put(const char *target, const char *body)
{
    struct test_call *t = world_call(&w, METHOD_PUT, target, body);
    if (t->http != 204)
        fail_msg("%s: %d %s", target, t->http, (const char *)t->body.data);
}

static void what_was_written_is_read(void **ctx)
{
    (void)ctx;
    put("/v1/kv/a/b",
        "{ \"n\" : 9007199254740993, \"f\": 1.10, \"s\":\"<\\u0000>\", \"o\":{\"x\":[]}}");
    struct test_call *t = world_call(&w, METHOD_GET, "/v1/kv/a/b", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(
        t, "\"data\":{\"n\":9007199254740993,\"f\":1.10,\"s\":\"<\\u0000>\",\"o\":{\"x\":[]}}");
    assert_body_has(t, "\"lease_id\":\"\",\"renewable\":false,\"lease_duration\":2764800");
    assert_body_has(t, "\"mount_type\":\"kv\"");
}

static void writing_replaces_the_whole_object(void **ctx)
{
    (void)ctx;
    put("/v1/kv/a", "{\"a\":1,\"b\":2}");
    put("/v1/kv/a", "{\"c\":3}");
    assert_body_has(world_call(&w, METHOD_GET, "/v1/kv/a", NULL), "\"data\":{\"c\":3}");
}

static void post_is_put(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_call(&w, METHOD_POST, "/v1/kv/a", "{\"a\":1}")->http, 204);
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/kv/a", NULL)->http, 200);
}

static void an_empty_object_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const bodies[] = {NULL, "", "{}", " \n", "{ }"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct test_call *t = world_call(&w, METHOD_PUT, "/v1/kv/a", bodies[i]);
        assert_int_equal(t->http, 400);
        assert_body(t, "{\"errors\":[\"missing data fields\"]}");
    }
}

static void an_absent_object_is_404_without_errors(void **ctx)
{
    (void)ctx;
    static const char *const targets[] = {"/v1/kv/none", "/v1/kv/none/", "/v1/kv/a/b"};
    put("/v1/kv/a", "{\"a\":1}");
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        struct test_call *t = world_call(&w, METHOD_GET, targets[i], NULL);
        assert_int_equal(t->http, 404);
        assert_body(t, "{\"errors\":[]}");
    }
}

static void the_lease_hint_comes_from_the_object(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *body, *lease;
    } cases[] = {
        {"{\"ttl\":\"1h30m\"}", "\"lease_duration\":5400,"},
        {"{\"ttl\":60,\"lease\":\"9\"}", "\"lease_duration\":60,"},
        {"{\"lease\":\"30\"}", "\"lease_duration\":30,"},
        {"{\"ttl\":\"soon\"}", "\"lease_duration\":2764800,"},
        {"{\"ttl\":-1}", "\"lease_duration\":2764800,"},
        {"{\"ttl\":[1]}", "\"lease_duration\":2764800,"},
        {"{\"o\":{\"ttl\":5}}", "\"lease_duration\":2764800,"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        put("/v1/kv/ttl", cases[i].body);
        assert_body_has(world_call(&w, METHOD_GET, "/v1/kv/ttl", NULL), cases[i].lease);
    }
}

static void deleting_is_idempotent(void **ctx)
{
    (void)ctx;
    put("/v1/kv/a", "{\"a\":1}");
    assert_int_equal(world_call(&w, METHOD_DELETE, "/v1/kv/a", NULL)->http, 204);
    assert_int_equal(world_call(&w, METHOD_DELETE, "/v1/kv/a", NULL)->http, 204);
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/kv/a", NULL)->http, 404);
}

static void a_listing_folds_folders(void **ctx)
{
    (void)ctx;
    static const char *const paths[] = {"l/a", "l/a/b", "l/a/c", "l/d/e/f", "l/z", "m", "l/a.b"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        char target[64];
        (void)snprintf(target, sizeof target, "/v1/kv/%s", paths[i]);
        put(target, "{\"x\":1}");
    }
    static const char wanted[] = "\"data\":{\"keys\":[\"a\",\"a.b\",\"a/\",\"d/\",\"z\"]}";
    assert_body_has(world_call(&w, METHOD_LIST, "/v1/kv/l", NULL), wanted);
    assert_body_has(world_call(&w, METHOD_LIST, "/v1/kv/l/", NULL), wanted);
    assert_body_has(world_call(&w, METHOD_GET, "/v1/kv/l?list=true", NULL), wanted);
    assert_body_has(world_call(&w, METHOD_GET, "/v1/kv/l/?list=1", NULL), wanted);
    assert_body_has(world_call(&w, METHOD_LIST, "/v1/kv", NULL), "{\"keys\":[\"l/\",\"m\"]}");
    assert_body_has(world_call(&w, METHOD_LIST, "/v1/kv/", NULL), "{\"keys\":[\"l/\",\"m\"]}");
    assert_body_has(world_call(&w, METHOD_LIST, "/v1/kv/l/d", NULL), "{\"keys\":[\"e/\"]}");
}

static void an_empty_folder_is_404(void **ctx)
{
    (void)ctx;
    put("/v1/kv/a", "{\"a\":1}");
    struct test_call *t = world_call(&w, METHOD_LIST, "/v1/kv/a", NULL);
    assert_int_equal(t->http, 404);
    assert_body(t, "{\"errors\":[]}");
}

static void a_long_listing_is_whole(void **ctx)
{
    (void)ctx;
    char target[64];
    for (int i = 0; i < 300; i++) {
        (void)snprintf(target, sizeof target, "/v1/kv/many/%03d", i);
        put(target, "{\"x\":1}");
    }
    struct test_call *t = world_call(&w, METHOD_LIST, "/v1/kv/many", NULL);
    unsigned n = 0;
    for (const char *p = (const char *)t->body.data; (p = strchr(p, ',')) != NULL; p++)
        n++;
    assert_true(n >= 299);
    assert_body_has(t, "\"000\",\"001\"");
    assert_body_has(t, "\"298\",\"299\"]");
}

static void a_value_above_one_mebibyte_is_413(void **ctx)
{
    (void)ctx;
    enum { MIB = 1 << 20 };
    CLEANUP(buf_done) struct buf body = {0};
    buf_add_str(&body, "{\"x\":\"");
    uint8_t *room = buf_extend(&body, MIB);
    memset(room, '<', MIB); /* escaped only in answers */
    buf_add(&body, bytes_of("\"}", 3));
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/kv/big", (const char *)body.data);
    assert_int_equal(t->http, 413);
    assert_body_has(t, "{\"errors\":[\"");
    memcpy(body.data + MIB - 8, "\"}", 3);
    put("/v1/kv/big", (const char *)body.data);
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/kv/big", NULL)->http, 200);
}

static void the_mount_itself_is_no_object(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/kv", NULL)->http, 405);
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/kv/", NULL)->http, 405);
    assert_int_equal(world_call(&w, METHOD_PUT, "/v1/kv", "{\"a\":1}")->http, 405);
    assert_int_equal(world_call(&w, METHOD_DELETE, "/v1/kv", NULL)->http, 405);
}

static void names_may_hold_what_shows(void **ctx)
{
    (void)ctx;
    put("/v1/kv/k%C3%A4se/a%20b%25+%22", "{\"x\":1}");
    assert_body_has(world_call(&w, METHOD_LIST, "/v1/kv/k%C3%A4se", NULL), "[\"a b%+\\\"\"]");
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/kv/k\xc3\xa4se/a b%25+\"", NULL)->http, 200);
}

static void the_longest_path_is_stored(void **ctx)
{
    (void)ctx;
    char target[3100] = "/v1/kv/";
    memset(target + 7, 'p', 2990);
    put(target, "{\"x\":1}");
    assert_int_equal(world_call(&w, METHOD_GET, target, NULL)->http, 200);
    memset(target + 7, 'p', 3050);
    assert_int_equal(world_call(&w, METHOD_PUT, target, "{\"x\":1}")->http, 400);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_written_is_read),
        TEST(writing_replaces_the_whole_object),
        TEST(post_is_put),
        TEST(an_empty_object_is_refused),
        TEST(an_absent_object_is_404_without_errors),
        TEST(the_lease_hint_comes_from_the_object),
        TEST(deleting_is_idempotent),
        TEST(a_listing_folds_folders),
        TEST(an_empty_folder_is_404),
        TEST(a_long_listing_is_whole),
        TEST(a_value_above_one_mebibyte_is_413),
        TEST(the_mount_itself_is_no_object),
        TEST(names_may_hold_what_shows),
        TEST(the_longest_path_is_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
