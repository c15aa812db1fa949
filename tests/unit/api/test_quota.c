#include "api/api_world.h"

#include "router/quota.h"

/* A worker that has a table to count in. */
static int open_counting(void **ctx)
{
    const struct router *router = &w.router;
    (void)open_world(ctx);
    router_worker_free(w.worker);
    assert_status(quota_table_new((uint64_t[2]){1, 2}, &w.host.quotas), ST_OK);
    assert_status(router_worker_new(router, &w.env.env, w.state, &w.worker), ST_OK);
    return 0;
}

static int close_counting(void **ctx)
{
    struct quota_table *table = w.host.quotas;
    (void)close_world(ctx);
    quota_table_free(table);
    return 0;
}

static int from_as(const char *peer, const char *path, bool forwarded)
{
    static struct test_request t;
    char target[200];
    (void)snprintf(target, sizeof target, "/v1/%s", path);
    test_request_done(&t);
    test_request_init(&t, METHOD_GET, target, NULL);
    test_request_header(&t, "x-secrets-token", root);
    t.request.peer = peer;
    t.request.forwarded = forwarded;
    world_handle(&w, &t);
    return t.http;
}

static int from(const char *peer, const char *path)
{
    return from_as(peer, path, false);
}

/* Until the next request looks at the settings again. */
static void wait_ms(uint64_t ms)
{
    w.env.now_ms += ms;
    clock_run(&w.env);
}

static void set(const char *name, const char *body)
{
    char target[100];
    (void)snprintf(target, sizeof target, "/v1/sys/quotas/rate-limit/%s", name);
    (void)request(METHOD_POST, target, body, 204);
    wait_ms(QUOTA_PATIENCE_MS);
}

static void a_quota_is_written_read_listed_and_deleted(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_LIST, "/v1/sys/quotas/rate-limit", NULL, 404);
    set("one", "{\"path\":\"kv/\",\"rate\":100.5,\"interval\":\"1m\",\"block_interval\":5}");
    assert_body_has(request(METHOD_GET, "/v1/sys/quotas/rate-limit/one", NULL, 200),
                    "{\"name\":\"one\",\"type\":\"rate-limit\",\"path\":\"kv/\",\"rate\":100.5,"
                    "\"interval\":60,\"block_interval\":5,\"role\":\"\",\"inheritable\":false}");
    assert_body_has(request(METHOD_LIST, "/v1/sys/quotas/rate-limit", NULL, 200), "[\"one\"]");
    (void)request(METHOD_POST, "/v1/sys/quotas/rate-limit/one", "{\"path\":\"kv/\",\"rate\":\"7\"}",
                  204);
    assert_body_has(
        request(METHOD_POST, "/v1/sys/quotas/rate-limit/two", "{\"path\":\"kv/\",\"rate\":7}", 400),
        "similar properties exists under the name \\\"one\\\"");
    (void)request(METHOD_DELETE, "/v1/sys/quotas/rate-limit/one", NULL, 204);
    (void)request(METHOD_GET, "/v1/sys/quotas/rate-limit/one", NULL, 404);
    static const char *const bodies[] = {
        "{}",
        "{\"rate\":0}",
        "{\"rate\":-1}",
        "{\"rate\":\"1e3\"}",
        "{\"rate\":\"01\"}",
        "{\"rate\":\"1.\"}",
        "{\"rate\":\"0.0\"}",
        "{\"rate\":1000000001}",
        "{\"rate\":1,\"interval\":0}",
        "{\"rate\":1,\"role\":\"r\"}",
        "{\"rate\":1,\"path\":\"none/\"}",
        "{\"rate\":1,\"path\":\"kvx\"}",
        "{\"rate\":1,\"path\":\"kv//a\"}",
        "{\"rate\":1,\"path\":\"*\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
        (void)request(METHOD_POST, "/v1/sys/quotas/rate-limit/bad", bodies[i], 400);
}

static void a_rate_is_rounded_up(void **ctx)
{
    (void)ctx;
    uint64_t limit = 0;
    assert_status(quota_rate("0.5", &limit), ST_OK);
    assert_int_equal(limit, 1);
    assert_status(quota_rate("2.000", &limit), ST_OK);
    assert_int_equal(limit, 2);
    assert_status(quota_rate("2.0001", &limit), ST_OK);
    assert_int_equal(limit, 3);
}

static void each_client_has_its_own_count(void **ctx)
{
    (void)ctx;
    set("all", "{\"rate\":2,\"interval\":10}");
    assert_int_equal(from("198.51.100.1:1", "kv/x"), 404);
    assert_int_equal(from("198.51.100.1:2", "kv/y"), 404);
    assert_int_equal(from("198.51.100.1:3", "kv/x"), 429);
    assert_int_equal(from("198.51.100.2:1", "kv/x"), 404);
    assert_int_equal(from("[2001:db8::1]:1", "kv/x"), 404);
    assert_int_equal(from("[2001:db8::2]:1", "kv/x"), 404);
    assert_int_equal(from("[2001:db8::3]:1", "kv/x"), 429); /* one network */
    assert_int_equal(from("[2001:db8:0:1::3]:1", "kv/x"), 404);
    wait_ms(10000);
    assert_int_equal(from("198.51.100.1:3", "kv/x"), 404);
}

/* Asked once each; the first one uses up the quota. */
static void assert_one_count(const char *path, const char *const *spellings, size_t n)
{
    char body[200];
    (void)snprintf(body, sizeof body, "{\"path\":\"%s\",\"rate\":1,\"interval\":10}", path);
    set("one", body);
    for (size_t i = 0; i < n; i++) {
        int http = from("198.51.100.7:1", spellings[i]);
        if ((http == 429) != (i != 0))
            fail_msg("%s below the quota of %s: %d", spellings[i], path, http);
    }
    wait_ms(10000);
}

static void a_path_has_one_quota_however_it_is_written(void **ctx)
{
    (void)ctx;
    static const char *const self[] = {"auth/token/lookup-self",       "auth/token/lookup-self/",
                                       "auth//token/lookup-self//",    "auth/token/lookup%2Dself",
                                       "auth%2ftoken/lookup-self",     "auth/token/lookup-self%2F",
                                       "auth/token/lookup-self?help=1"};
    static const char *const policy[] = {"sys/policies/acl/default", "sys/policies/acl/Default",
                                         "sys/policies/acl/%44EFAULT/"};
    static const char *const folder[] = {"kv/a?list=true", "kv/a/?list=true", "kv/a/?scan=true",
                                         "kv/a"};
    static const char *const mount[] = {"kv/x", "kv", "kv/", "kv?list=true", "%6bv"};
    assert_one_count("auth/token/lookup-self", self, ARRAY_LEN(self));
    assert_one_count("sys/policies/acl/default", policy, ARRAY_LEN(policy));
    assert_one_count("kv/a", folder, ARRAY_LEN(folder));
    assert_one_count("kv/", mount, ARRAY_LEN(mount));
}

static void the_refusal_says_which_path(void **ctx)
{
    (void)ctx;
    set("all", "{\"rate\":1,\"interval\":10}");
    struct test_request *t = request(METHOD_GET, "/v1/kv/x", NULL, 404);
    t = request(METHOD_GET, "/v1/kv/x", NULL, 429);
    assert_body(t, "{\"errors\":[\"request path \\\"kv/x\\\": rate limit quota exceeded\"]}");
    assert_string_equal(t->told, "");
}

static void health_and_unsealing_have_no_quota(void **ctx)
{
    (void)ctx;
    set("all", "{\"rate\":1,\"interval\":10}");
    (void)request(METHOD_GET, "/v1/kv/x", NULL, 404);
    (void)request(METHOD_GET, "/v1/kv/x", NULL, 429);
    (void)request(METHOD_GET, "/v1/sys/health", NULL, 200);
    (void)request(METHOD_GET, "/v1/sys/seal-status", NULL, 200);
    (void)request(METHOD_PUT, "/v1/sys/unseal", "{}", 400); /* no share, and not one too many */
    (void)request(METHOD_GET, "/v1/sys/leader", NULL, 429);
    assert_int_equal(from_as("192.0.2.1:4711", "kv/x", true), 404); /* counted where it came in */
}

static void the_longest_path_counts(void **ctx)
{
    (void)ctx;
    set("all", "{\"rate\":1000}");
    set("mount", "{\"path\":\"kv/\",\"rate\":3,\"interval\":10}");
    set("some", "{\"path\":\"/kv/a*\",\"rate\":2,\"interval\":10}");
    set("one", "{\"path\":\"kv/abc\",\"rate\":1,\"interval\":10}");
    static const struct {
        const char *path;
        int limit;
    } cases[] = {{"kv/abc", 1}, {"kv/ab", 2}, {"kv/x", 3}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (int n = 0; n < cases[i].limit; n++)
            assert_int_equal(from("198.51.100.9:1", cases[i].path), 404);
        assert_int_equal(from("198.51.100.9:1", cases[i].path), 429);
    }
    assert_int_equal(from("198.51.100.9:1", "sys/leader"), 200);
}

static void who_asked_too_often_may_be_blocked_for_longer(void **ctx)
{
    (void)ctx;
    set("all", "{\"rate\":1,\"interval\":1,\"block_interval\":30}");
    assert_int_equal(from("198.51.100.1:1", "kv/x"), 404);
    assert_int_equal(from("198.51.100.1:1", "kv/x"), 429);
    wait_ms(29000);
    assert_int_equal(from("198.51.100.1:1", "kv/x"), 429);
    wait_ms(1000);
    assert_int_equal(from("198.51.100.1:1", "kv/x"), 404);
}

/* A path means itself alone, a folder what is in it. */
static void a_quota_on_a_mount_needs_no_slash(void **ctx)
{
    (void)ctx;
    set("bare", "{\"path\":\"kv\",\"rate\":1,\"interval\":1000,\"inheritable\":true}");
    assert_body_has(request(METHOD_GET, "/v1/sys/quotas/rate-limit/bare", NULL, 200),
                    "\"path\":\"kv/\"");
    assert_body_has(request(METHOD_GET, "/v1/sys/quotas/rate-limit/bare", NULL, 200),
                    "\"inheritable\":true");
    assert_int_equal(from("198.51.100.2:1", "kv/a"), 404);
    assert_int_equal(from("198.51.100.2:1", "kv/b"), 429);
    set("all", "{\"rate\":1000}");
    assert_body_has(request(METHOD_GET, "/v1/sys/quotas/rate-limit/all", NULL, 200),
                    "\"inheritable\":true");
}

static void a_quota_is_about_what_it_names(void **ctx)
{
    (void)ctx;
    set("path", "{\"path\":\"kv/a\",\"rate\":1,\"interval\":1000}");
    assert_int_equal(from("198.51.100.1:1", "kv/a"), 404);
    assert_int_equal(from("198.51.100.1:1", "kv/a"), 429);
    assert_int_equal(from("198.51.100.1:1", "kv/ab"), 404);
    assert_int_equal(from("198.51.100.1:1", "kv/ab"), 404);
    assert_int_equal(from("198.51.100.1:1", "kv/a/b"), 404);
    assert_int_equal(from("198.51.100.1:1", "kv/a/b"), 404);
}

static void settings_are_bounded(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf body = {0};
    for (size_t over = 0; over < 2; over++) {
        buf_clear(&body);
        buf_add_str(&body, "{\"rate\":1,\"path\":\"kv/");
        for (size_t i = 3; i < QUOTA_PATH_MAX + over; i++)
            buf_add_u8(&body, 'p');
        buf_add(&body, bytes_of("\"}", 3));
        (void)request(METHOD_POST, "/v1/sys/quotas/rate-limit/long", (const char *)body.data,
                      over ? 400 : 204);

        buf_clear(&body);
        buf_add_str(&body, "{\"rate_limit_exempt_paths\":[\"p\"");
        for (size_t i = 1; i < 100 + over; i++)
            buf_add_format(&body, ",\"p%zu\"", i);
        buf_add(&body, bytes_of("]}", 3));
        (void)request(METHOD_POST, "/v1/sys/quotas/config", (const char *)body.data,
                      over ? 400 : 204);
    }
    (void)request(METHOD_DELETE, "/v1/sys/quotas/rate-limit/long", NULL, 204);
    for (unsigned i = 0; i < QUOTA_MAX; i++) {
        char path[64], quota[64];
        (void)snprintf(path, sizeof path, "/v1/sys/quotas/rate-limit/q%u", i);
        (void)snprintf(quota, sizeof quota, "{\"path\":\"kv/x%u\",\"rate\":1}", i);
        (void)request(METHOD_POST, path, quota, 204);
    }
    assert_body_has(request(METHOD_POST, "/v1/sys/quotas/rate-limit/one-more",
                            "{\"path\":\"kv/y\",\"rate\":1}", 400),
                    "more than 1000 quotas");
    (void)request(METHOD_POST, "/v1/sys/quotas/rate-limit/q7", "{\"path\":\"kv/y\",\"rate\":1}",
                  204);
}

static void headers_tell_what_is_left_where_that_is_set(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_POST, "/v1/sys/quotas/config",
                  "{\"enable_rate_limit_response_headers\":true,"
                  "\"rate_limit_exempt_paths\":[\"sys/quotas/*\",\"sys/leader\"]}",
                  204);
    assert_body_has(request(METHOD_GET, "/v1/sys/quotas/config", NULL, 200),
                    "{\"enable_rate_limit_audit_logging\":false,"
                    "\"enable_rate_limit_response_headers\":true,"
                    "\"rate_limit_exempt_paths\":[\"sys/quotas/*\",\"sys/leader\"]}");
    set("all", "{\"rate\":1,\"interval\":10}");
    struct test_request *t = request(METHOD_GET, "/v1/kv/x", NULL, 404);
    assert_string_equal(t->told,
                        "X-Ratelimit-Limit: 1\nX-Ratelimit-Remaining: 0\nX-Ratelimit-Reset: 10\n");
    t = request(METHOD_GET, "/v1/kv/x", NULL, 429);
    assert_non_null(strstr(t->told, "Retry-After: 10\n"));
    wait_ms(8001); /* what is left of a second is one yet */
    t = request(METHOD_GET, "/v1/kv/x", NULL, 429);
    assert_non_null(strstr(t->told, "X-Ratelimit-Reset: 2\nRetry-After: 2\n"));
    t = request(METHOD_GET, "/v1/sys/leader", NULL, 200);
    assert_string_equal(t->told, "");
    set("all", "{\"rate\":1,\"interval\":10,\"block_interval\":60}");
    (void)request(METHOD_GET, "/v1/kv/x", NULL, 404);
    for (int i = 0; i < 2; i++) {
        t = request(METHOD_GET, "/v1/kv/x", NULL, 429);
        assert_non_null(strstr(t->told, "Retry-After: 60\n"));
    }
    (void)request(METHOD_DELETE, "/v1/sys/quotas/rate-limit/all", NULL, 204);
    wait_ms(QUOTA_PATIENCE_MS);
    (void)request(METHOD_GET, "/v1/kv/x", NULL, 404);
}

static void a_table_that_is_full_forgets_the_oldest(void **ctx)
{
    (void)ctx;
    const struct quota_window window = {.limit = 1, .interval_ms = 1000000};
    struct quota_table *table = w.host.quotas;
    struct quota_count count;
    uint32_t first = UINT32_MAX;
    struct bytes key = bytes_of((const uint8_t *)&first, sizeof first);
    assert_true(quota_table_take(table, key, &window, 1, &count));
    assert_false(quota_table_take(table, key, &window, 2, &count));
    unsigned refused = 0;
    for (uint32_t i = 0; i < 100000; i++)
        refused += !quota_table_take(table, bytes_of((const uint8_t *)&i, sizeof i), &window,
                                     10 + i, &count);
    assert_int_equal(refused, 0);                     /* no two are taken for one */
    for (uint32_t i = 100000 - 4096; i < 100000; i++) /* about one a group: none is forgotten */
        assert_false(quota_table_take(table, bytes_of((const uint8_t *)&i, sizeof i), &window,
                                      200000, &count));
    assert_true(quota_table_take(table, key, &window, 200000, &count));
}

/* Two workers read the clock and then wait for the same lock: the later time may come first. */
static void an_earlier_time_does_not_begin_another_window(void **ctx)
{
    (void)ctx;
    const struct quota_window window = {.limit = 2, .interval_ms = 1000};
    struct quota_count count;
    struct bytes key = BYTES("client");
    assert_true(quota_table_take(w.host.quotas, key, &window, 5000, &count));
    assert_true(quota_table_take(w.host.quotas, key, &window, 4999, &count));
    assert_int_equal(count.reset_ms, 1000);
    assert_false(quota_table_take(w.host.quotas, key, &window, 4999, &count));
}

#define COUNTING(f) cmocka_unit_test_setup_teardown(f, open_counting, close_counting)

int main(void)
{
    const struct CMUnitTest tests[] = {
        COUNTING(a_quota_is_written_read_listed_and_deleted),
        COUNTING(a_rate_is_rounded_up),
        COUNTING(each_client_has_its_own_count),
        COUNTING(a_path_has_one_quota_however_it_is_written),
        COUNTING(the_refusal_says_which_path),
        COUNTING(health_and_unsealing_have_no_quota),
        COUNTING(the_longest_path_counts),
        COUNTING(who_asked_too_often_may_be_blocked_for_longer),
        COUNTING(a_quota_is_about_what_it_names),
        COUNTING(a_quota_on_a_mount_needs_no_slash),
        COUNTING(settings_are_bounded),
        COUNTING(headers_tell_what_is_left_where_that_is_set),
        COUNTING(a_table_that_is_full_forgets_the_oldest),
        COUNTING(an_earlier_time_does_not_begin_another_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
