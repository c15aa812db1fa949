#include "api/api_world.h"

static void put(const char *target, const char *body)
{
    struct test_request *t = world_request(&w, METHOD_PUT, target, body);
    if (t->http != 204)
        fail_msg("%s: %d %s", target, t->http, (const char *)t->body.data);
}

static void what_was_written_is_read(void **ctx)
{
    (void)ctx;
    put("/v1/kv/a/b",
        "{ \"n\" : 9007199254740993, \"f\": 1.10, \"s\":\"<\\u0000>\", \"o\":{\"x\":[]}}");
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/kv/a/b", NULL);
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
    assert_body_has(world_request(&w, METHOD_GET, "/v1/kv/a", NULL), "\"data\":{\"c\":3}");
}

static void post_is_put(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_request(&w, METHOD_POST, "/v1/kv/a", "{\"a\":1}")->http, 204);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/kv/a", NULL)->http, 200);
}

static void an_empty_object_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const bodies[] = {NULL, "", "{}", " \n", "{ }"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct test_request *t = world_request(&w, METHOD_PUT, "/v1/kv/a", bodies[i]);
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
        struct test_request *t = world_request(&w, METHOD_GET, targets[i], NULL);
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
        assert_body_has(world_request(&w, METHOD_GET, "/v1/kv/ttl", NULL), cases[i].lease);
    }
}

static void deleting_is_idempotent(void **ctx)
{
    (void)ctx;
    put("/v1/kv/a", "{\"a\":1}");
    assert_int_equal(world_request(&w, METHOD_DELETE, "/v1/kv/a", NULL)->http, 204);
    assert_int_equal(world_request(&w, METHOD_DELETE, "/v1/kv/a", NULL)->http, 204);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/kv/a", NULL)->http, 404);
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
    assert_body_has(world_request(&w, METHOD_LIST, "/v1/kv/l", NULL), wanted);
    assert_body_has(world_request(&w, METHOD_LIST, "/v1/kv/l/", NULL), wanted);
    assert_body_has(world_request(&w, METHOD_GET, "/v1/kv/l?list=true", NULL), wanted);
    assert_body_has(world_request(&w, METHOD_GET, "/v1/kv/l/?list=1", NULL), wanted);
    assert_body_has(world_request(&w, METHOD_LIST, "/v1/kv", NULL), "{\"keys\":[\"l/\",\"m\"]}");
    assert_body_has(world_request(&w, METHOD_LIST, "/v1/kv/", NULL), "{\"keys\":[\"l/\",\"m\"]}");
    assert_body_has(world_request(&w, METHOD_LIST, "/v1/kv/l/d", NULL), "{\"keys\":[\"e/\"]}");
}

static void a_scan_gives_all_that_is_below(void **ctx)
{
    (void)ctx;
    static const char *const paths[] = {"l/a", "l/a/b", "l/d/e/f", "l/z", "m"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        char target[64];
        (void)snprintf(target, sizeof target, "/v1/kv/%s", paths[i]);
        put(target, "{\"x\":1}");
    }
    static const char all[] = "\"data\":{\"keys\":[\"a\",\"a/b\",\"d/e/f\",\"z\"]}";
    assert_body_has(world_request(&w, METHOD_SCAN, "/v1/kv/l", NULL), all);
    assert_body_has(world_request(&w, METHOD_SCAN, "/v1/kv/l/", NULL), all);
    assert_body_has(world_request(&w, METHOD_GET, "/v1/kv/l?scan=true", NULL), all);
    assert_body_has(world_request(&w, METHOD_SCAN, "/v1/kv/l?after=a&limit=2", NULL),
                    "[\"a/b\",\"d/e/f\"]");
    assert_body_has(world_request(&w, METHOD_SCAN, "/v1/kv/l?after=a/", NULL), "[\"d/e/f\",\"z\"]");
    assert_body_has(world_request(&w, METHOD_SCAN, "/v1/kv", NULL), "\"l/z\",\"m\"]");
    assert_body_has(world_request(&w, METHOD_SCAN, "/v1/kv/l?limit=-1", NULL), all);
    assert_int_equal(world_request(&w, METHOD_SCAN, "/v1/kv/none", NULL)->http, 404);
    CLEANUP(buf_done) struct buf long_name = {0};
    buf_add_str(&long_name, "/v1/kv/l?after=");
    for (int i = 0; i < STATE_KEY_MAX; i++)
        buf_add_u8(&long_name, 'a');
    buf_add_u8(&long_name, 0);
    struct test_request *far = world_request(&w, METHOD_SCAN, (const char *)long_name.data, NULL);
    assert_int_equal(far->http, 400);
    assert_body_has(far, "after: too long");
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/kv/l?scan=true&list=true", NULL)->http,
                     400);
    struct test_request *t = world_request(&w, METHOD_SCAN, "/v1/sys/policies/acl", NULL);
    assert_int_equal(t->http, 405);
}

/* Keys as a log would bring them; a listing does not look at values. */
static void apply_keys(const char *uuid, int first, int n)
{
    CLEANUP(buf_done) struct buf entry = {0};
    CLEANUP(buf_done) struct buf encoded = {0};
    struct rlog_txn_builder b = {0};
    char key[100];
    for (int i = first; i < first + n; i++) {
        (void)snprintf(key, sizeof key, "s/ns/root/data/%s/k/big/%06d", uuid, i);
        rlog_txn_put(&b, bytes_str(key), BYTES("x"));
    }
    assert_status(rlog_txn_encode(&b, &encoded), ST_OK);
    struct bytes txn = buf_bytes(&encoded);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &txn, 1, &entry), ST_OK);
    rlog_machine_apply(&w.m, ++w.index, buf_bytes(&entry), NULL, NULL);
    rlog_txn_done(&b);
}

static void a_scan_says_how_to_go_on(void **ctx)
{
    (void)ctx;
    char uuid[37];
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/sys/mounts/kv", NULL);
    const char *at = strstr((const char *)t->body.data, "\"uuid\":\"");
    assert_non_null(at);
    (void)snprintf(uuid, sizeof uuid, "%s", at + 8);
    for (int i = 0; i < REQ_SCAN_MAX; i += 10000)
        apply_keys(uuid, i, 10000);
    t = world_request(&w, METHOD_SCAN, "/v1/kv/big", NULL);
    assert_body_has(t, "\"099999\"]");
    assert_body_has(t, "\"warnings\":null");
    apply_keys(uuid, REQ_SCAN_MAX, 5);
    t = world_request(&w, METHOD_SCAN, "/v1/kv/big", NULL);
    assert_body_has(t, "\"099999\"]");
    assert_body_has(t, "after=099999");
    t = world_request(&w, METHOD_SCAN, "/v1/kv/big?after=099999", NULL);
    assert_body_has(t, "[\"100000\",\"100001\",\"100002\",\"100003\",\"100004\"]");
    t = world_request(&w, METHOD_SCAN, "/v1/kv/big?limit=2", NULL);
    assert_body_has(t, "[\"000000\",\"000001\"]},\"wrap_info\":null,\"warnings\":null");
}

static void an_empty_folder_is_404(void **ctx)
{
    (void)ctx;
    put("/v1/kv/a", "{\"a\":1}");
    struct test_request *t = world_request(&w, METHOD_LIST, "/v1/kv/a", NULL);
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
    struct test_request *t = world_request(&w, METHOD_LIST, "/v1/kv/many", NULL);
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
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/kv/big", (const char *)body.data);
    assert_int_equal(t->http, 413);
    assert_body_has(t, "{\"errors\":[\"");
    memcpy(body.data + MIB - 8, "\"}", 3);
    put("/v1/kv/big", (const char *)body.data);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/kv/big", NULL)->http, 200);
}

static void assert_only_lists(const struct test_request *t)
{
    assert_int_equal(t->http, 405);
    assert_string_equal(t->allow, "LIST, SCAN");
}

static void the_mount_itself_is_no_object(void **ctx)
{
    (void)ctx;
    assert_only_lists(world_request(&w, METHOD_GET, "/v1/kv", NULL));
    assert_only_lists(world_request(&w, METHOD_GET, "/v1/kv/", NULL));
    assert_only_lists(world_request(&w, METHOD_PUT, "/v1/kv", "{\"a\":1}"));
    assert_only_lists(world_request(&w, METHOD_DELETE, "/v1/kv", NULL));
}

static void names_may_hold_what_shows(void **ctx)
{
    (void)ctx;
    put("/v1/kv/k%C3%A4se/a%20b%25+%22", "{\"x\":1}");
    assert_body_has(world_request(&w, METHOD_LIST, "/v1/kv/k%C3%A4se", NULL), "[\"a b%+\\\"\"]");
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/kv/k\xc3\xa4se/a b%25+\"", NULL)->http,
                     200);
}

static void the_longest_path_is_stored(void **ctx)
{
    (void)ctx;
    char target[3100] = "/v1/kv/";
    memset(target + 7, 'p', 2990);
    put(target, "{\"x\":1}");
    assert_int_equal(world_request(&w, METHOD_GET, target, NULL)->http, 200);
    memset(target + 7, 'p', 3050);
    assert_int_equal(world_request(&w, METHOD_PUT, target, "{\"x\":1}")->http, 400);
}

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
        TEST(a_scan_gives_all_that_is_below),
        TEST(a_scan_says_how_to_go_on),
        TEST(an_empty_folder_is_404),
        TEST(a_long_listing_is_whole),
        TEST(a_value_above_one_mebibyte_is_413),
        TEST(the_mount_itself_is_no_object),
        TEST(names_may_hold_what_shows),
        TEST(the_longest_path_is_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
