#include "router/world.h"

#include "auth/token_tree.h"

static const struct route_api *const apis[] = {&sys_api, &token_api, &kv_api};
static struct world w;
static char root[64];

static int open_world(void **ctx)
{
    (void)ctx;
    world_open(&w, apis, ARRAY_LEN(apis));
    world_init(&w);
    (void)snprintf(root, sizeof root, "%s", w.token);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    world_close(&w);
    return 0;
}

/* `token` and `ttl` may be NULL: then there is no such header. */
static struct test_call *call(const char *token, const char *ttl, enum http_method method,
                              const char *target, const char *body)
{
    static struct test_call t;
    test_call_done(&t);
    test_call_init(&t, method, target, body);
    if (token != NULL)
        test_call_header(&t, "x-secrets-token", token);
    if (ttl != NULL)
        test_call_header(&t, "x-vault-wrap-ttl", ttl);
    world_handle(&w, &t);
    return &t;
}

static void expect(struct test_call *t, int http, const char *part)
{
    if (t->http != http || (part != NULL && strstr((const char *)t->body.data, part) == NULL))
        fail_msg("wanted %d %s, have %d %s", http, part != NULL ? part : "", t->http,
                 (const char *)t->body.data);
}

static const char *about(const char *token)
{
    static char body[200];
    (void)snprintf(body, sizeof body, "{\"token\":\"%s\"}", token);
    return body;
}

/* The wrapping token an answer tells of. */
static void take_token(struct test_call *t, char out[64])
{
    const char *at = strstr((const char *)t->body.data, "\"wrap_info\":{\"token\":\"");
    if (t->http != 200 || at == NULL)
        fail_msg("no wrapping token in %d %s", t->http, (const char *)t->body.data);
    else
        (void)snprintf(out, 64, "%.28s", at + strlen("\"wrap_info\":{\"token\":\""));
}

static void wrap_a_secret(char out[64])
{
    assert_int_equal(call(root, NULL, METHOD_PUT, "/v1/kv/a", "{\"n\":1.10}")->http, 204);
    take_token(call(root, "60s", METHOD_GET, "/v1/kv/a", NULL), out);
}

static void an_answer_is_kept_for_whoever_has_the_token(void **ctx)
{
    (void)ctx;
    char token[64];
    struct test_call *t = call(root, "60s", METHOD_GET, "/v1/kv/none", NULL);
    expect(t, 404, "{\"errors\":[]}"); /* a failure is told as it is */
    wrap_a_secret(token);
    t = call(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL);
    expect(t, 200, "\"data\":{\"n\":1.10}");
    assert_string_equal(t->type, "application/json");
    expect(call(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL), 400,
           "wrapping token is not valid or does not exist");
}

static void wrap_info_says_what_it_is(void **ctx)
{
    (void)ctx;
    struct test_call *t = call(root, "5m", METHOD_POST, "/v1/auth/token/create", "{\"ttl\":60}");
    expect(t, 200,
           "{\"request_id\":\"\",\"lease_id\":\"\",\"renewable\":false,"
           "\"lease_duration\":0,\"data\":null,\"wrap_info\":{\"token\":\"hvs.");
    expect(t, 200,
           "\"ttl\":300,\"creation_time\":\"2023-11-14T22:13:20Z\","
           "\"creation_path\":\"auth/token/create\",\"wrapped_accessor\":\"");
    assert_null(strstr((const char *)t->body.data, "client_token"));
}

static void the_token_in_the_body_is_taken_too(void **ctx)
{
    (void)ctx;
    char token[64];
    wrap_a_secret(token);
    expect(call(root, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(token)), 200,
           "\"n\":1.10");
    wrap_a_secret(token);
    expect(call(NULL, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(token)), 200,
           "\"n\":1.10");
}

static void looking_it_up_does_not_use_it(void **ctx)
{
    (void)ctx;
    char token[64];
    wrap_a_secret(token);
    for (int i = 0; i < 3; i++)
        expect(call(NULL, NULL, METHOD_POST, "/v1/sys/wrapping/lookup", about(token)), 200,
               "\"data\":{\"creation_path\":\"kv/a\",\"creation_time\":\"2023-11-14T22:13:20Z\","
               "\"creation_ttl\":60}");
    expect(call(token, NULL, METHOD_GET, "/v1/sys/wrapping/lookup", NULL), 200, "kv/a");
    expect(call(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL), 200, NULL);
}

static void a_wrapped_answer_is_wrapped_again(void **ctx)
{
    (void)ctx;
    char first[64], second[64];
    wrap_a_secret(first);
    w.later_ms = 59000;
    struct test_call *t = call(NULL, NULL, METHOD_POST, "/v1/sys/wrapping/rewrap", about(first));
    expect(t, 200,
           "\"ttl\":60,\"creation_time\":\"2023-11-14T22:14:19Z\","
           "\"creation_path\":\"kv/a\"}");
    take_token(t, second);
    expect(call(NULL, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(first)), 400, NULL);
    expect(call(NULL, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(second)), 200, "1.10");
}

static void saved(struct state_commit *c, enum status st)
{
    (void)c;
    assert_status(st, ST_OK);
}

/* One round of the active node's background work; false: there was nothing to do. */
static bool upkeep(void)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct state_commit commit = {.done = saved};
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(token_tree_upkeep(&txn, 1700000000000 + w.later_ms), ST_OK);
    bool due = state_staged(&txn);
    if (due)
        assert_status(state_commit(&txn, &commit), ST_OK);
    state_end(&txn);
    clock_run(&w.env);
    if (due)
        state_commit_done(&commit);
    arena_done(&arena);
    return due;
}

static void it_ends_with_its_time_and_leaves_nothing(void **ctx)
{
    (void)ctx;
    char token[64];
    struct store_pin pin;
    struct store_iter *iter = mem_alloc(sizeof *iter);
    wrap_a_secret(token);
    w.later_ms = 60000;
    expect(call(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL), 400, NULL);
    for (int i = 0; upkeep(); i++)
        assert_true(i < 10);
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    store_iter_init(iter, &pin, BYTES("s/ns/root/cubby/"), BYTES(""));
    assert_false(store_iter_next(iter));
    store_unpin(&pin);
    mem_free(iter);
}

static void what_is_said_may_be_wrapped(void **ctx)
{
    (void)ctx;
    char token[64];
    expect(call(root, NULL, METHOD_POST, "/v1/sys/wrapping/wrap", "{\"a\":[1]}"), 400,
           "endpoint requires response wrapping to be used");
    take_token(call(root, "60", METHOD_POST, "/v1/sys/wrapping/wrap", "{\"a\":[1]}"), token);
    expect(call(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL), 200,
           "\"data\":{\"a\":[1]}");
}

static void what_is_no_wrapping_token_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const targets[] = {"/v1/sys/wrapping/unwrap", "/v1/sys/wrapping/lookup",
                                          "/v1/sys/wrapping/rewrap"};
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        expect(call(root, NULL, METHOD_POST, targets[i], NULL), 400, "not valid");
        expect(call(NULL, NULL, METHOD_POST, targets[i], about("hvs.none")), 400, "not valid");
        expect(call(NULL, NULL, METHOD_POST, targets[i], NULL), 400, "missing");
    }
    assert_int_equal(call(root, NULL, METHOD_GET, "/v1/auth/token/lookup-self", NULL)->http, 200);
}

static void what_cannot_be_wrapped_is_not_given_bare(void **ctx)
{
    (void)ctx;
    static const char *const ttls[] = {"soon", "-1", "1ms", "1000h", "-5m"};
    char token[64];
    for (size_t i = 0; i < ARRAY_LEN(ttls); i++)
        expect(call(root, ttls[i], METHOD_GET, "/v1/kv/a", NULL), 400, "X-Secrets-Wrap-TTL");
    expect(call(root, "60", METHOD_GET, "/v1/sys/health", NULL), 400, "cannot be wrapped");
    expect(call(root, "60", METHOD_GET, "/v1/sys/metrics", NULL), 400, "cannot be wrapped");
    wrap_a_secret(token);
    expect(call(NULL, "60", METHOD_POST, "/v1/sys/wrapping/lookup", about(token)), 400,
           "cannot be wrapped");
    expect(call(NULL, "60", METHOD_POST, "/v1/sys/wrapping/unwrap", about(token)), 400,
           "cannot be wrapped");
    expect(call(NULL, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(token)), 200, "1.10");
    expect(call(root, "60", METHOD_PUT, "/v1/kv/b", "{\"a\":1}"), 204, NULL);
    expect(call(root, "0", METHOD_GET, "/v1/kv/b", NULL), 200, "\"data\":{\"a\":1}");
}

static void a_standby_forwards_what_is_to_be_wrapped(void **ctx)
{
    (void)ctx;
    char token[64];
    wrap_a_secret(token);
    world_standby(&w, true);
    expect(call(root, "60", METHOD_GET, "/v1/kv/a", NULL), 299, NULL);
    expect(call(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL), 299, NULL);
    expect(call(token, NULL, METHOD_POST, "/v1/sys/wrapping/lookup", NULL), 200, NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_answer_is_kept_for_whoever_has_the_token),
        TEST(wrap_info_says_what_it_is),
        TEST(the_token_in_the_body_is_taken_too),
        TEST(looking_it_up_does_not_use_it),
        TEST(a_wrapped_answer_is_wrapped_again),
        TEST(it_ends_with_its_time_and_leaves_nothing),
        TEST(what_is_said_may_be_wrapped),
        TEST(what_is_no_wrapping_token_is_refused),
        TEST(what_cannot_be_wrapped_is_not_given_bare),
        TEST(a_standby_forwards_what_is_to_be_wrapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
