#include "router/world.h"

static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                               &kv_module};
static struct world w;

#define SITE "https://app.example"

static int open_initialised(void **ctx)
{
    (void)ctx;
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    world_close(&w);
    return 0;
}

static struct test_request *request_from(const char *origin, enum http_method method,
                                         const char *target)
{
    static struct test_request t;
    test_request_done(&t);
    test_request_init(&t, method, target, NULL);
    test_request_header(&t, "origin", origin);
    if (method == METHOD_OPTIONS)
        test_request_header(&t, "access-control-request-method", "PUT");
    else
        test_request_header(&t, "x-vault-token", w.token);
    world_handle(&w, &t);
    return &t;
}

static struct test_request *set(const char *body)
{
    return world_request(&w, METHOD_POST, "/v1/sys/config/cors", body);
}

static void nothing_is_said_until_it_is_set(void **ctx)
{
    (void)ctx;
    struct test_request *t = request_from(SITE, METHOD_GET, "/v1/sys/leader");
    assert_int_equal(t->http, 200);
    assert_string_equal(t->told, "");
    assert_int_equal(request_from(SITE, METHOD_OPTIONS, "/v1/kv/a")->http, 403);
    t = world_request(&w, METHOD_GET, "/v1/sys/config/cors", NULL);
    assert_body_has(t, "\"data\":{\"enabled\":false},");
}

static void an_allowed_origin_may_read_replies_and_errors(void **ctx)
{
    (void)ctx;
    assert_int_equal(set("{\"allowed_origins\":\"" SITE ",https://b\"}")->http, 204);
    struct test_request *t = request_from(SITE, METHOD_GET, "/v1/sys/leader");
    assert_int_equal(t->http, 200);
    assert_string_equal(t->told, "Vary: Origin\nAccess-Control-Allow-Origin: " SITE "\n");
    t = request_from("https://b", METHOD_GET, "/v1/kv/none");
    assert_int_equal(t->http, 404);
    assert_string_equal(t->told, "Vary: Origin\nAccess-Control-Allow-Origin: https://b\n");
}

static void another_origin_is_refused_everywhere(void **ctx)
{
    (void)ctx;
    static const char *const others[] = {"https://app.example.evil", "http://app.example", "null",
                                         "https://APP.example", "*"};
    assert_int_equal(set("{\"allowed_origins\":[\"" SITE "\"]}")->http, 204);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        struct test_request *t = request_from(others[i], METHOD_GET, "/v1/sys/health");
        assert_int_equal(t->http, 403);
        assert_body(t, "{\"errors\":[\"origin not allowed\"]}");
        assert_string_equal(t->told, "Vary: Origin\n");
    }
    unsigned proposals = w.proposals;
    assert_int_equal(request_from("https://evil", METHOD_DELETE, "/v1/kv/a")->http, 403);
    assert_int_equal(w.proposals, proposals);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/sys/leader", NULL)->http, 200);
}

static void a_preflight_gets_its_reply_without_a_token(void **ctx)
{
    (void)ctx;
    assert_int_equal(set("{\"allowed_origins\":\"*\",\"allowed_headers\":[\"X-Mine\"]}")->http,
                     204);
    struct test_request *t = request_from("https://any", METHOD_OPTIONS, "/v1/kv/a");
    assert_int_equal(t->http, 200);
    assert_body(t, "");
    assert_non_null(strstr(t->told, "Access-Control-Allow-Origin: https://any\n"));
    assert_non_null(strstr(t->told, "Access-Control-Max-Age: 300\n"));
    assert_non_null(strstr(t->told, "DELETE, GET, OPTIONS, POST, PUT, LIST"));
    assert_non_null(strstr(t->told, "X-Vault-Token"));
    assert_non_null(strstr(t->told, ", X-Mine\n"));
    assert_null(strstr(t->told, "Credentials"));
}

static void a_preflight_for_a_strange_method_is_405(void **ctx)
{
    (void)ctx;
    static struct test_request t;
    assert_int_equal(set("{\"allowed_origins\":\"*\"}")->http, 204);
    test_request_init(&t, METHOD_OPTIONS, "/v1/kv/a", NULL);
    test_request_header(&t, "origin", SITE);
    test_request_header(&t, "access-control-request-method", "TRACE");
    world_handle(&w, &t);
    assert_int_equal(t.http, 405);
    assert_null(strstr(t.told, "Allow-Methods"));
    test_request_done(&t);
}

static void what_is_no_setting_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const bodies[] = {
        "{}",
        "{\"allowed_origins\":[]}",
        "{\"allowed_origins\":[\"*\",\"https://a\"]}",
        "{\"allowed_origins\":[\"https://a\\r\\nX: y\"]}",
        "{\"allowed_origins\":[\"a b\"]}",
        "{\"allowed_origins\":[\"https://a\"],\"allowed_headers\":[\"A: b\"]}",
        "{\"allowed_origins\":[\"https://a\"],\"allowed_headers\":[\"A\\nB\"]}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
        if (set(bodies[i])->http != 400)
            fail_msg("%s is taken", bodies[i]);
    assert_int_equal(set("{\"allowed_origins\":[\"https://a,https://b\"]}")->http, 400);
    assert_int_equal(request_from(SITE, METHOD_GET, "/v1/sys/leader")->http, 200);
}

static void settings_are_bounded(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf body = {0};
    for (size_t over = 0; over < 2; over++) {
        buf_clear(&body);
        buf_add_str(&body, "{\"allowed_origins\":[\"https://a\"");
        for (size_t i = 1; i < 100 + over; i++)
            buf_add_format(&body, ",\"https://a%zu\"", i);
        buf_add(&body, bytes_of("]}", 3));
        assert_int_equal(set((const char *)body.data)->http, over ? 400 : 204);

        buf_clear(&body);
        buf_add_str(&body, "{\"allowed_origins\":[\"https://");
        for (size_t i = 8; i < 255 + over; i++)
            buf_add_u8(&body, 'a');
        buf_add(&body, bytes_of("\"]}", 4));
        assert_int_equal(set((const char *)body.data)->http, over ? 400 : 204);
    }
}

static void it_ends_when_it_is_deleted(void **ctx)
{
    (void)ctx;
    assert_int_equal(set("{\"allowed_origins\":\"" SITE "\"}")->http, 204);
    assert_int_equal(world_request(&w, METHOD_DELETE, "/v1/sys/config/cors", NULL)->http, 204);
    assert_int_equal(request_from("https://evil", METHOD_GET, "/v1/sys/leader")->http, 200);
}

static void what_another_node_sends_on_was_judged_there(void **ctx)
{
    (void)ctx;
    assert_int_equal(set("{\"allowed_origins\":\"" SITE "\"}")->http, 204);
    static struct test_request t;
    test_request_init(&t, METHOD_GET, "/v1/sys/leader", NULL);
    test_request_header(&t, "origin", "https://evil");
    t.request.forwarded = true;
    world_handle(&w, &t);
    assert_int_equal(t.http, 200);
    assert_string_equal(t.told, "");
    test_request_done(&t);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_initialised, close_world)
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_said_until_it_is_set),
        TEST(an_allowed_origin_may_read_replies_and_errors),
        TEST(another_origin_is_refused_everywhere),
        TEST(a_preflight_gets_its_reply_without_a_token),
        TEST(a_preflight_for_a_strange_method_is_405),
        TEST(what_is_no_setting_is_refused),
        TEST(settings_are_bounded),
        TEST(it_ends_when_it_is_deleted),
        TEST(what_another_node_sends_on_was_judged_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
