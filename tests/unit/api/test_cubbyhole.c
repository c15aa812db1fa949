#include "api/api_world.h"

static void what_was_written_is_read_listed_and_deleted(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_PUT, "/v1/cubbyhole/a/b", "{\"n\":9007199254740993,\"o\":{\"x\":[]}}",
                  204);
    (void)request(METHOD_POST, "/v1/cubbyhole/a", "{\"y\":1}", 204);
    struct test_request *t = request(METHOD_GET, "/v1/cubbyhole/a/b", NULL, 200);
    assert_body_has(t, "\"data\":{\"n\":9007199254740993,\"o\":{\"x\":[]}}");
    assert_body_has(t, "\"lease_duration\":0,");
    assert_body_has(request(METHOD_LIST, "/v1/cubbyhole", NULL, 200), "{\"keys\":[\"a\",\"a/\"]}");
    (void)request(METHOD_DELETE, "/v1/cubbyhole/a/b", NULL, 204);
    (void)request(METHOD_DELETE, "/v1/cubbyhole/a/b", NULL, 204);
    (void)request(METHOD_GET, "/v1/cubbyhole/a/b", NULL, 404);
    (void)request(METHOD_LIST, "/v1/cubbyhole/a", NULL, 404);
}

static void an_empty_object_is_refused(void **ctx)
{
    (void)ctx;
    assert_body_has(request(METHOD_PUT, "/v1/cubbyhole/a", "{}", 400), "missing data fields");
    (void)request(METHOD_PUT, "/v1/cubbyhole/", "{\"a\":1}", 400);
    (void)request(METHOD_GET, "/v1/cubbyhole", NULL, 405);
}

/* Each handler, asked by a token that is not stored. */
static void a_token_that_is_not_stored_has_none(void **ctx)
{
    (void)ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    const struct auth_token batch = {.id = "", .accessor = "", .type = "batch"};
    assert_true(cubbyhole_module.apis[0]->n > 0);
    for (size_t i = 0; i < cubbyhole_module.apis[0]->n; i++) {
        const struct route *route = &cubbyhole_module.apis[0]->routes[i];
        const struct text_value *data;
        assert_status(text_json_parse(&arena, BYTES("{\"a\":1}"), &data, NULL), ST_OK);
        struct req req = {.arena = &arena, .route = route, .token = &batch, .ns = "root"};
        req.data = data;
        req.params.items[0].name = BYTES("path");
        req.params.items[0].value = "x";
        req.params.n = 1;
        assert_status(route->handler(&req), ST_INVALID);
        assert_non_null(strstr(req_error(&req)->text, "only supported by \"service\" type tokens"));
        if (route->exists != NULL)
            assert_status(route->exists(&req), ST_INVALID);
    }
}

static void it_is_mounted_once(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_PUT, "/v1/sys/mounts/mine", "{\"type\":\"cubbyhole\"}", 400);
    (void)request(METHOD_DELETE, "/v1/sys/mounts/cubbyhole", NULL, 400);
    (void)request(METHOD_PUT, "/v1/sys/remount", "{\"from\":\"cubbyhole\",\"to\":\"mine\"}", 400);
    (void)request(METHOD_PUT, "/v1/sys/mounts/cubbyhole/tune", "{\"description\":\"x\"}", 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_written_is_read_listed_and_deleted),
        TEST(an_empty_object_is_refused),
        TEST(a_token_that_is_not_stored_has_none),
        TEST(it_is_mounted_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
