/* Replies of a DR primary in sync mode: the pipeline keeps them until a secondary has the write. */
#include "router/world.h"

enum { TIMEOUT_MS = 1000 };

static struct world w;
static struct dr_holds holds;
static struct test_request request;
static unsigned asked;
static const struct module *const modules[] = {&token_module, SYS_MODULES, &kv_module};

static bool hold(struct node *node, struct dr_hold *item, uint64_t now_ms)
{
    (void)node;
    asked++;
    return dr_hold_begin(&holds, item, now_ms);
}

static int open_world(void **ctx)
{
    (void)ctx;
    request = (struct test_request){0};
    holds = (struct dr_holds){0};
    asked = 0;
    world_open(&w, modules, ARRAY_LEN(modules));
    w.node_ops.dr_hold = hold;
    assert_status(dr_holds_init(&holds), ST_OK);
    world_init(&w);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    dr_hold_set(&holds, false, 0);
    test_request_done(&request);
    world_close(&w);
    dr_holds_done(&holds);
    return 0;
}

static void sync_mode(void)
{
    w.node.dr_sync = true;
    dr_hold_set(&holds, true, TIMEOUT_MS);
}

/* Hand the request in, and run what does not wait for the secondary. */
static void start(enum http_method method, const char *target, const char *body)
{
    test_request_done(&request);
    test_request_init(&request, method, target, body);
    test_request_header(&request, "x-secrets-token", w.token);
    world_take(&w, &request);
    clock_run(&w.env);
}

static void assert_reply(int http, const char *told)
{
    clock_run(&w.env);
    assert_int_equal(request.replies, 1);
    assert_int_equal(request.http, http);
    if (told == NULL)
        assert_null(strstr(request.told, "X-Replication-Confirmed"));
    else
        assert_non_null(strstr(request.told, told));
    assert_int_equal(router_worker_running(w.worker), 0);
}

static void without_sync_mode_nothing_is_asked(void **ctx)
{
    (void)ctx;
    start(METHOD_PUT, "/v1/kv/a", "{\"x\":1}");
    assert_reply(204, NULL);
    assert_int_equal(asked, 0);
}

static void a_write_is_held_until_it_is_confirmed(void **ctx)
{
    (void)ctx;
    sync_mode();
    start(METHOD_PUT, "/v1/kv/a", "{\"x\":1}");
    assert_int_equal(request.replies, 0);
    assert_int_equal(router_worker_running(w.worker), 1);
    dr_hold_confirm(&holds, w.m.version - 1, 0);
    clock_run(&w.env);
    assert_int_equal(request.replies, 0);
    dr_hold_confirm(&holds, w.m.version, 0);
    assert_reply(204, "X-Replication-Confirmed: true\n");
    assert_int_equal(asked, 1);
}

static void a_read_is_not_held_while_a_write_is(void **ctx)
{
    (void)ctx;
    sync_mode();
    start(METHOD_PUT, "/v1/kv/a", "{\"x\":1}");
    struct test_request *read = NULL;
    static struct test_request other;
    read = &other;
    test_request_init(read, METHOD_GET, "/v1/kv/a", NULL);
    test_request_header(read, "x-secrets-token", w.token);
    world_take(&w, read);
    clock_run(&w.env);
    assert_int_equal(read->replies, 1);
    assert_int_equal(read->http, 200);
    assert_int_equal(request.replies, 0);
    test_request_done(read);
    dr_hold_confirm(&holds, w.m.version, 0);
    assert_reply(204, "X-Replication-Confirmed: true\n");
}

static void after_the_timeout_the_write_is_acknowledged(void **ctx)
{
    (void)ctx;
    sync_mode();
    start(METHOD_PUT, "/v1/kv/a", "{\"x\":1}");
    assert_int_equal(request.replies, 0);
    dr_hold_tick(&holds, w.m.version, w.env.now_ms + TIMEOUT_MS + 1, 1);
    assert_reply(204, "X-Replication-Confirmed: false\n");
    start(METHOD_PUT, "/v1/kv/b", "{\"x\":1}");
    assert_reply(204, "X-Replication-Confirmed: false\n");
}

static void a_superseded_primary_tells_that_the_outcome_is_unknown(void **ctx)
{
    (void)ctx;
    sync_mode();
    start(METHOD_PUT, "/v1/kv/a", "{\"x\":1}");
    dr_hold_supersede(&holds);
    assert_reply(status_http(ST_UNKNOWN_OUTCOME), NULL);
    assert_non_null(strstr((const char *)request.body.data, "taken the place of this one"));
}

static void a_refused_write_is_not_held(void **ctx)
{
    (void)ctx;
    sync_mode();
    start(METHOD_PUT, "/v1/nowhere/a", "{\"x\":1}");
    clock_run(&w.env);
    assert_int_equal(request.replies, 1);
    assert_true(request.http >= 400);
    assert_int_equal(asked, 0);
}

/* The client was told meanwhile that the outcome is unknown; the late reply harms nothing. */
static void a_held_request_that_was_given_up_ends(void **ctx)
{
    (void)ctx;
    sync_mode();
    start(METHOD_PUT, "/v1/kv/a", "{\"x\":1}");
    assert_status(router_give_up(&request.request), ST_UNKNOWN_OUTCOME);
    dr_hold_confirm(&holds, w.m.version, 0);
    clock_run(&w.env);
    assert_int_equal(request.replies, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_sync_mode_nothing_is_asked),
        TEST(a_write_is_held_until_it_is_confirmed),
        TEST(a_read_is_not_held_while_a_write_is),
        TEST(after_the_timeout_the_write_is_acknowledged),
        TEST(a_superseded_primary_tells_that_the_outcome_is_unknown),
        TEST(a_refused_write_is_not_held),
        TEST(a_held_request_that_was_given_up_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
