#include "api/api_world.h"
#include "base/mem.h"

static void mount(const char *path, int http)
{
    char target[1200];
    (void)snprintf(target, sizeof target, "/v1/sys/mounts/%s", path);
    (void)request(METHOD_POST, target, "{\"type\":\"kv\"}", http);
}

static void a_mount_serves_its_path_alone(void **ctx)
{
    (void)ctx;
    mount("a/b", 204);
    (void)request(METHOD_PUT, "/v1/a/b/c", "{\"x\":1}", 204);
    (void)request(METHOD_GET, "/v1/a/b/c", NULL, 200);
    (void)request(METHOD_GET, "/v1/a/bc", NULL, 404);
    (void)request(METHOD_GET, "/v1/a", NULL, 404);
    assert_body_has(request(METHOD_LIST, "/v1/a/b", NULL, 200), "[\"c\"]");
}

static void mounts_do_not_nest(void **ctx)
{
    (void)ctx;
    mount("a/b", 204);
    static const char *const taken[] = {"a", "a/b", "a/b/c", "a/b/c/d", "secret", "secret/x"};
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        mount(taken[i], 400);
    mount("a/bc", 204);
    mount("a/c", 204);
}

static void paths_are_bounded(void **ctx)
{
    (void)ctx;
    char longest[600];
    memset(longest, 'p', sizeof longest);
    longest[512] = '\0';
    mount(longest, 204);
    longest[512] = 'p';
    longest[513] = '\0';
    mount(longest, 400);
    mount("1/2/3/4/5/6/7/8", 204);
    mount("1/2/3/4/5/6/7/9/0", 400);
    mount("x%20", 400);
    mount("x/%20y", 400);
    mount("x%20y", 204);
    mount("tune", 204);
    mount("", 400);
}

static void what_an_engine_held_ends_with_it(void **ctx)
{
    (void)ctx;
    unsigned keys = count_keys();
    mount("a", 204);
    (void)request(METHOD_PUT, "/v1/a/x", "{\"x\":1}", 204);
    (void)request(METHOD_PUT, "/v1/a/y/z", "{\"x\":1}", 204);
    assert_int_equal(count_keys(), keys + 3);
    (void)request(METHOD_DELETE, "/v1/sys/mounts/a", NULL, 204);
    assert_int_equal(count_keys(), keys); /* nothing lies on under a name that nobody knows */
    (void)request(METHOD_GET, "/v1/a/x", NULL, 404);
    mount("a", 204);
    (void)request(METHOD_GET, "/v1/a/x", NULL, 404);
    (void)request(METHOD_DELETE, "/v1/sys/mounts/none", NULL, 204);
}

static void a_move_keeps_what_is_stored(void **ctx)
{
    (void)ctx;
    mount("a", 204);
    (void)request(METHOD_PUT, "/v1/a/x", "{\"x\":1}", 204);
    static const char *const moves[] = {
        "{\"from\":\"a\",\"to\":\"b/c\"}", "{\"from\":\"b/c/\",\"to\":\"/b\"}",
        "{\"from\":\"b\",\"to\":\"b/below\"}", "{\"from\":\"b/below\",\"to\":\"a\"}"};
    for (size_t i = 0; i < ARRAY_LEN(moves); i++)
        (void)request(METHOD_POST, "/v1/sys/remount", moves[i], 200);
    (void)request(METHOD_GET, "/v1/a/x", NULL, 200);
    static const char *const bad[] = {
        "{\"from\":\"a\",\"to\":\"a\"}",        "{\"from\":\"a\",\"to\":\"secret\"}",
        "{\"from\":\"a\",\"to\":\"secret/x\"}", "{\"from\":\"none\",\"to\":\"b\"}",
        "{\"from\":\"a\",\"to\":\"sys/x\"}",    "{\"from\":\"a\",\"to\":\"job\"}",
        "{\"from\":\"sys\",\"to\":\"b\"}",      "{\"from\":\"a\"}",
        "{\"from\":\"a\",\"to\":\"+\"}",        "{\"from\":\"a\",\"to\":\"b/*\"}"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        (void)request(METHOD_POST, "/v1/sys/remount", bad[i], 400);
    (void)request(METHOD_GET, "/v1/a/x", NULL, 200);
}

static void no_mount_has_the_name_of_a_pattern(void **ctx)
{
    (void)ctx;
    static const char *const bad[] = {"+", "*", "a/+", "+/a", "a*", "*a", "a/b*/c"};
    static const char *const good[] = {"a+", "b/+c", "c++/d"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        mount(bad[i], 400);
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        mount(good[i], 204);
}

static void records_of_moves_go_after_a_day(void **ctx)
{
    (void)ctx;
    char target[128];
    mount("a", 204);
    struct test_request *t =
        request(METHOD_POST, "/v1/sys/remount", "{\"from\":\"a\",\"to\":\"b\"}", 200);
    const char *id = strstr((const char *)t->body.data, "\"migration_id\":\"");
    (void)snprintf(target, sizeof target, "/v1/sys/remount/status/%.36s", id + 16);
    assert_body_has(request(METHOD_GET, target, NULL, 200),
                    "\"migration_info\":{\"source_mount\":\"a/\",\"target_mount\":\"b/\","
                    "\"status\":\"success\"}");
    w.later_ms += 24 * 3600 * 1000;
    (void)request(METHOD_POST, "/v1/sys/remount", "{\"from\":\"b\",\"to\":\"a\"}", 200);
    (void)request(METHOD_GET, target, NULL, 200);
    w.later_ms += 2;
    (void)request(METHOD_POST, "/v1/sys/remount", "{\"from\":\"a\",\"to\":\"b\"}", 200);
    (void)request(METHOD_GET, target, NULL, 404);
}

static void a_tune_changes_what_it_names(void **ctx)
{
    (void)ctx;
    static const char url[] = "/v1/sys/mounts/kv/tune";
    (void)request(METHOD_POST, url,
                  "{\"description\":\"d\",\"max_lease_ttl\":\"2h\","
                  "\"default_lease_ttl\":60}",
                  204);
    struct test_request *t = request(METHOD_GET, url, NULL, 200);
    assert_body_has(t, "\"default_lease_ttl\":60,\"max_lease_ttl\":7200,");
    (void)request(METHOD_PUT, "/v1/kv/a", "{\"a\":1}", 204);
    assert_body_has(request(METHOD_GET, "/v1/kv/a", NULL, 200), "\"lease_duration\":60,");
    (void)request(METHOD_POST, url, "{\"default_lease_ttl\":\"system\",\"max_lease_ttl\":\"\"}",
                  204);
    t = request(METHOD_GET, url, NULL, 200); /* an empty text means: not given */
    assert_body_has(t, "\"default_lease_ttl\":2764800,\"max_lease_ttl\":7200,");
    (void)request(METHOD_POST, url, "{\"max_lease_ttl\":\"system\"}", 204);
    t = request(METHOD_GET, url, NULL, 200);
    assert_body_has(t, "\"default_lease_ttl\":2764800,\"max_lease_ttl\":2764800,");
    assert_body_has(t, "\"description\":\"d\"");
    (void)request(METHOD_POST, url, "{\"default_lease_ttl\":\"769h\"}", 400);
    (void)request(METHOD_POST, url, "{\"default_lease_ttl\":\"768h\"}", 204);
    (void)request(METHOD_POST, url, "{\"default_lease_ttl\":\"2h\",\"max_lease_ttl\":\"2h\"}", 204);
    (void)request(METHOD_POST, url, "{\"default_lease_ttl\":7201}", 400);
    assert_body_has(request(METHOD_POST, url, "{\"token_type\":\"service\"}", 400),
                    "only be modified on auth mounts");
}

/* Tokens of auth/token are of the type that their requests name. */
static void the_mount_of_tokens_has_no_token_type(void **ctx)
{
    (void)ctx;
    static const char *const types[] = {"batch", "service", "default-service", "", "x"};
    char body[64];
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        (void)snprintf(body, sizeof body, "{\"token_type\":\"%s\"}", types[i]);
        struct test_request *t = request(METHOD_POST, "/v1/sys/auth/token/tune", body, 400);
        assert_body_has(t, "token_type");
        (void)request(METHOD_POST, "/v1/sys/mounts/auth/token/tune", body, 400);
    }
    (void)request(METHOD_POST, "/v1/sys/mounts/a",
                  "{\"type\":\"kv\",\"config\":{\"token_type\":\"batch\"}}", 200);
    struct test_request *t = request(METHOD_GET, "/v1/sys/mounts/a", NULL, 200);
    assert_null(strstr(text(t), "token_type"));
}

static void a_preflight_says_where_the_mount_stands(void **ctx)
{
    (void)ctx;
    assert_body_has(request(METHOD_GET, "/v1/sys/internal/ui/mounts/auth/token", NULL, 200),
                    "\"data\":{\"path\":\"token/\",\"type\":\"token\"");
    assert_body_has(request(METHOD_GET, "/v1/sys/internal/ui/mounts/kv/a", NULL, 200),
                    "\"data\":{\"path\":\"kv/\",");
}

/* Those that mean something here, and all others. */
static void options_are_kept_as_they_are_given(void **ctx)
{
    (void)ctx;
    static const char tune[] = "/v1/sys/mounts/a/tune";
    CLEANUP(buf_done) struct buf many = {0};
    (void)request(METHOD_POST, "/v1/sys/mounts/a",
                  "{\"type\":\"kv-v2\",\"options\":{\"version\":\"2\",\"type\":\"kv-v2\",\"n\":5}}",
                  204);
    assert_body_has(request(METHOD_GET, "/v1/sys/mounts/a", NULL, 200),
                    "\"options\":{\"version\":\"2\",\"type\":\"kv-v2\",\"n\":\"5\"}");
    (void)request(METHOD_POST, tune,
                  "{\"options\":{\"type\":\"x\",\"more\":\"y\",\"n\":\"\",\"none\":\"\"}}", 204);
    assert_body_has(request(METHOD_GET, tune, NULL, 200),
                    "\"options\":{\"version\":\"2\",\"type\":\"x\",\"more\":\"y\"}");
    (void)request(METHOD_POST, tune, "{\"options\":{\"version\":\"1\",\"type\":\"z\"}}", 400);
    (void)request(METHOD_POST, tune, "{\"options\":{\"version\":\"\"}}", 400);
    assert_body_has(request(METHOD_GET, tune, NULL, 200), "\"type\":\"x\"");
    mount("b", 204);
    (void)request(METHOD_POST, "/v1/sys/mounts/b/tune", "{\"options\":{\"version\":1,\"k\":\"v\"}}",
                  204);
    assert_body_has(request(METHOD_GET, "/v1/sys/mounts/b", NULL, 200),
                    "\"options\":{\"version\":\"1\",\"k\":\"v\"}");
    (void)request(METHOD_POST, "/v1/sys/mounts/b/tune", "{\"options\":{\"version\":\"2\"}}", 200);
    assert_body_has(request(METHOD_GET, "/v1/sys/mounts/b", NULL, 200),
                    "\"options\":{\"version\":\"2\",\"k\":\"v\"}");
    for (int n = 0; n < 300; n++)
        buf_add_format(&many, "%s\"o%d\":\"1\"", n == 0 ? "{\"options\":{" : ",", n);
    buf_add(&many, bytes_of("}}", 3));
    assert_body_has(request(METHOD_POST, tune, (const char *)many.data, 400), "options: more than");
    /* a record that repeats a name could not be read again */
    (void)request(METHOD_POST, "/v1/sys/mounts/twice",
                  "{\"type\":\"kv\",\"options\":[\"version=1\",\"k=v\",\"version=2\",\"k=w\"]}",
                  204);
    assert_body_has(request(METHOD_GET, "/v1/sys/mounts/twice", NULL, 200),
                    "\"options\":{\"version\":\"2\",\"k\":\"w\"}");
}

static void old_names_of_types_count(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_POST, "/v1/sys/mounts/a", "{\"type\":\"generic\"}", 204);
    (void)request(METHOD_PUT, "/v1/a/x", "{\"k\":1}", 204);
    assert_body_has(request(METHOD_GET, "/v1/a/x", NULL, 200), "\"data\":{\"k\":1}");
    assert_body_has(request(METHOD_GET, "/v1/sys/mounts/a", NULL, 200), "\"type\":\"generic\"");
    assert_body_has(request(METHOD_POST, "/v1/sys/mounts/b",
                            "{\"type\":\"generic\",\"options\":{\"version\":\"2\"}}", 400),
                    "does not allow setting a version");
    (void)request(METHOD_POST, "/v1/sys/mounts/b",
                  "{\"type\":\"plugin\",\"plugin_name\":\"kv-v2\"}", 204);
    assert_body_has(request(METHOD_GET, "/v1/sys/mounts/b", NULL, 200), "\"version\":\"2\"");
    (void)request(METHOD_POST, "/v1/sys/mounts/c", "{\"type\":\"plugin\"}", 400);
}

static void an_engine_has_a_version_that_there_is(void **ctx)
{
    (void)ctx;
    static const char *const bad[] = {"0", "3", "x", ""};
    char body[100];
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        (void)snprintf(body, sizeof body, "{\"type\":\"kv\",\"options\":{\"version\":\"%s\"}}",
                       bad[i]);
        assert_body_has(request(METHOD_POST, "/v1/sys/mounts/a", body, 400), "options: version");
    }
    static const char *const none[] = {"kv-v3", "cubbyhole", "token", "system", ""};
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        (void)snprintf(body, sizeof body, "{\"type\":\"%s\"}", none[i]);
        (void)request(METHOD_POST, "/v1/sys/mounts/a", body, 400);
    }
    assert_body_has(request(METHOD_GET, "/v1/sys/mounts/auth/token", NULL, 400),
                    "No secret engine");
    (void)request(METHOD_GET, "/v1/sys/auth/token", NULL, 200);
}

static void what_others_use_is_reserved(void **ctx)
{
    (void)ctx;
    static const char *const names[] = {
        "acl",         "agent",  "allocation", "allocations", "audit",       "auth",
        "catalog",     "client", "cubbyhole",  "deployment",  "deployments", "evaluation",
        "evaluations", "event",  "identity",   "job",         "jobs",        "namespace",
        "namespaces",  "node",   "nodes",      "operator",    "regions",     "search",
        "session",     "status", "sys",        "system",      "txn"};
    char path[64];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        mount(names[i], 400);
        (void)snprintf(path, sizeof path, "%s/x", names[i]);
        mount(path, 400);
        (void)snprintf(path, sizeof path, "%sx", names[i]);
        mount(path, 204);
    }
}

/* Without a token, only what was marked for everybody. */
static void what_is_listed_for_everybody_is_marked_so(void **ctx)
{
    (void)ctx;
    static const char list[] = "/v1/sys/internal/ui/mounts";
    mount("a", 204);
    mount("b", 204);
    (void)request(METHOD_POST, "/v1/sys/mounts/a/tune", "{\"listing_visibility\":\"unauth\"}", 204);
    (void)request(METHOD_POST, "/v1/sys/mounts/b/tune", "{\"listing_visibility\":\"hidden\"}", 204);
    w.token[0] = '\0';
    struct test_request *t = request(METHOD_GET, list, NULL, 200);
    assert_body_has(t,
                    "\"secret\":{\"a/\":{\"type\":\"kv\",\"description\":\"\",\"options\":null}},"
                    "\"auth\":{}");
}

static void what_every_request_reads_stays_short(void **ctx)
{
    (void)ctx;
    enum { LONG = 17000 };
    char *body = mem_zalloc(LONG + 100);
    (void)snprintf(body, LONG + 100, "{\"type\":\"kv\",\"description\":\"%0*d\"}", LONG, 0);
    (void)request(METHOD_POST, "/v1/sys/mounts/a", body, 413);
    (void)request(METHOD_POST, "/v1/sys/mounts/kv/tune", body, 413);
    (void)request(METHOD_GET, "/v1/sys/mounts/a", NULL, 400);
    mem_free(body);
}

static void a_long_listing_comes_in_pages(void **ctx)
{
    (void)ctx;
    char target[64];
    for (int i = 0; i < 40; i++) {
        (void)snprintf(target, sizeof target, "/v1/kv/p/%02d", i);
        (void)request(METHOD_PUT, target, "{\"x\":1}", 204);
        (void)snprintf(target, sizeof target, "/v1/kv/p/%02d/x", i);
        (void)request(METHOD_PUT, target, "{\"x\":1}", 204);
    }
    assert_body_has(request(METHOD_GET, "/v1/kv/p?list=1&limit=3", NULL, 200),
                    "{\"keys\":[\"00\",\"00/\",\"01\"]}");
    assert_body_has(request(METHOD_GET, "/v1/kv/p?list=1&limit=2&after=01", NULL, 200),
                    "{\"keys\":[\"01/\",\"02\"]}");
    assert_body_has(request(METHOD_LIST, "/v1/kv/p?limit=2&after=01/", NULL, 200),
                    "{\"keys\":[\"02\",\"02/\"]}");
    assert_body_has(request(METHOD_LIST, "/v1/kv/p?after=38/", NULL, 200),
                    "{\"keys\":[\"39\",\"39/\"]}");
    assert_body_has(request(METHOD_LIST, "/v1/kv/p?limit=0&after=385", NULL, 200),
                    "[\"39\",\"39/\"]");
    (void)request(METHOD_LIST, "/v1/kv/p?after=39/", NULL, 404);
    (void)request(METHOD_LIST, "/v1/kv/p?limit=1.5", NULL, 400);
}

static void the_catalog_has_the_engines_of_all_modules(void **ctx)
{
    (void)ctx;
    w.host.version = "1.2.3";
    assert_body_has(request(METHOD_GET, "/v1/sys/plugins/catalog", NULL, 200),
                    "{\"auth\":[],\"database\":[],\"secret\":[\"generic\",\"kv\"],\"detailed\":["
                    "{\"type\":\"secret\",\"name\":\"generic\",\"version\":\"1.2.3\","
                    "\"builtin\":true,\"deprecation_status\":\"supported\"},");
    assert_body_has(request(METHOD_LIST, "/v1/sys/plugins/catalog/secret", NULL, 200),
                    "{\"keys\":[\"generic\",\"kv\"]}");
    assert_body_has(request(METHOD_GET, "/v1/sys/plugins/catalog/secret/kv", NULL, 200),
                    "{\"name\":\"kv\",\"args\":[],\"command\":\"\",\"sha256\":\"\","
                    "\"builtin\":true,\"version\":\"1.2.3\"");
    assert_body_has(request(METHOD_GET, "/v1/sys/plugins/catalog/kv", NULL, 200), "\"kv\"");
    (void)request(METHOD_GET, "/v1/sys/plugins/catalog/secret/kv?version=1.2.3", NULL, 200);
    (void)request(METHOD_GET, "/v1/sys/plugins/catalog/secret/kv?version=1.2.4", NULL, 404);
    (void)request(METHOD_GET, "/v1/sys/plugins/catalog/auth/kv", NULL, 404);
    (void)request(METHOD_LIST, "/v1/sys/plugins/catalog/auth", NULL, 404);
}

static void the_catalog_knows_three_types_and_takes_no_plugin(void **ctx)
{
    (void)ctx;
    assert_body_has(request(METHOD_LIST, "/v1/sys/plugins/catalog/some", NULL, 400),
                    "not a supported plugin type");
    (void)request(METHOD_GET, "/v1/sys/plugins/catalog/some/kv", NULL, 400);
    (void)request(METHOD_POST, "/v1/sys/plugins/catalog/secret/kv", "{}", 405);
    (void)request(METHOD_DELETE, "/v1/sys/plugins/catalog/secret/kv", NULL, 405);
    assert_body_has(request(METHOD_POST, "/v1/sys/plugins/reload/backend", "{}", 404),
                    "Plugins from outside the program are not built in holdfast");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_catalog_has_the_engines_of_all_modules),
        TEST(the_catalog_knows_three_types_and_takes_no_plugin),
        TEST(a_mount_serves_its_path_alone),
        TEST(mounts_do_not_nest),
        TEST(paths_are_bounded),
        TEST(what_an_engine_held_ends_with_it),
        TEST(a_move_keeps_what_is_stored),
        TEST(no_mount_has_the_name_of_a_pattern),
        TEST(records_of_moves_go_after_a_day),
        TEST(a_tune_changes_what_it_names),
        TEST(the_mount_of_tokens_has_no_token_type),
        TEST(options_are_kept_as_they_are_given),
        TEST(old_names_of_types_count),
        TEST(a_preflight_says_where_the_mount_stands),
        TEST(an_engine_has_a_version_that_there_is),
        TEST(what_others_use_is_reserved),
        TEST(what_is_listed_for_everybody_is_marked_so),
        TEST(what_every_request_reads_stays_short),
        TEST(a_long_listing_comes_in_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
