#include "base/mem.h"
#include "router/world.h"

static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                               &kv_module};
static struct world w;
static struct join_request asked;
static char asked_address[300], asked_server[300];
static unsigned joins;
static enum status join_result;

static enum status fake_join(struct node *node, const struct join_request *how, struct reason *why)
{
    (void)node;
    joins++;
    asked = *how;
    (void)snprintf(asked_address, sizeof asked_address, "%s", how->address);
    (void)snprintf(asked_server, sizeof asked_server, "%s",
                   how->server_name != NULL ? how->server_name : "(any)");
    if (join_result != ST_OK)
        reason_set(why, "because");
    return join_result;
}

/* A node before it is of any cluster: its worker has no state. */
static int open_waiting(void **ctx)
{
    (void)ctx;
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    router_worker_free(w.worker);
    assert_status(router_worker_new(&w.router, &w.env.env, NULL, &w.worker), ST_OK);
    w.node = (struct node_status){.name = "node4", .sealed = true, .waits = true};
    w.node_ops.join = fake_join;
    joins = 0;
    join_result = ST_OK;
    return 0;
}

static int close_waiting(void **ctx)
{
    (void)ctx;
    world_close(&w);
    return 0;
}

static void join(const char *body, int http, const char *part)
{
    struct test_request *t = world_request(&w, METHOD_POST, "/v1/sys/storage/raft/join", body);
    assert_int_equal(t->http, http);
    assert_body_has(t, part);
}

static void without_a_state_a_node_replies_about_itself_alone(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/sys/health", NULL)->http, 501);
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/sys/seal-status", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"initialized\":false");
    static const struct {
        enum http_method method;
        const char *path;
    } others[] = {{METHOD_GET, "/v1/kv/a"},        {METHOD_PUT, "/v1/kv/a"},
                  {METHOD_PUT, "/v1/sys/init"},    {METHOD_GET, "/v1/sys/mounts"},
                  {METHOD_GET, "/v1/sys/metrics"}, {METHOD_GET, "/v1/sys/internal/specs/openapi"}};
    w.node.waits = true;
    /* Whatever the node says of itself meanwhile. */
    for (unsigned i = 0; i < 4; i++) {
        w.node.initialized = w.node.active = i > 0;
        w.node.sealed = i == 0;
        (void)snprintf(w.node.leader_name, sizeof w.node.leader_name, "%s",
                       i == 2   ? "node4"
                       : i == 3 ? "node1"
                                : "");
        for (size_t j = 0; j < ARRAY_LEN(others); j++) {
            t = world_request(&w, others[j].method, others[j].path, NULL);
            assert_int_equal(t->http, 503);
            assert_body_has(t, "in no cluster yet");
        }
    }
    assert_int_equal(w.forwards, 0);
}

static void the_origin_of_a_page_means_nothing_without_a_state(void **ctx)
{
    (void)ctx;
    struct test_request t;
    test_request_init(&t, METHOD_GET, "/v1/sys/health", NULL);
    test_request_header(&t, "origin", "https://app.example");
    world_handle(&w, &t);
    assert_int_equal(t.http, 501);
    test_request_done(&t);
}

static void a_long_body_is_refused_without_a_state(void **ctx)
{
    (void)ctx;
    struct test_request t;
    test_request_init(&t, METHOD_PUT, "/v1/kv/a", NULL);
    t.request.streamed = true;
    world_handle(&w, &t);
    assert_int_equal(t.http, 503);
    assert_int_equal(t.collects, 0);
    test_request_done(&t);
}

static void it_serves_once_it_has_its_state(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/kv/a", "{\"a\":1}")->http, 503);
    router_worker_begin(w.worker, w.state);
    w.node = (struct node_status){.name = "node4",
                                  .leader_name = "node4",
                                  .has_leader = true,
                                  .initialized = true,
                                  .active = true};
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/kv/a", "{\"a\":1}")->http, 204);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/kv/a", NULL)->http, 200);
}

/* The node is a member already, and its workers are about to get the state. */
static void a_write_is_held_until_the_state_is_there(void **ctx)
{
    (void)ctx;
    struct test_request t;
    w.node.waits = false;
    struct test_request *other = world_request(&w, METHOD_GET, "/v1/kv/a", NULL);
    assert_int_equal(other->http, 503);
    assert_body_has(other, "this node is starting");
    test_request_init(&t, METHOD_PUT, "/v1/sys/init", "{}");
    world_take(&w, &t);
    assert_int_equal(t.replies, 0);
    router_worker_begin(w.worker, w.state);
    w.node = (struct node_status){.name = "node4",
                                  .leader_name = "node4",
                                  .has_leader = true,
                                  .initialized = true,
                                  .active = true};
    w.env.now_ms += 100; /* it looks again every 25 ms */
    clock_run(&w.env);
    assert_int_equal(t.replies, 1);
    assert_int_equal(t.http, 400);
    test_request_done(&t);
}

static void a_request_to_join_says_whom_to_ask(void **ctx)
{
    (void)ctx;
    join("{\"leader_api_addr\":\"https://a.example/\",\"join_token\":\"t\"}", 200,
         "{\"joined\":true}");
    assert_string_equal(asked_address, "a.example:443");
    assert_string_equal(asked_server, "(any)");
    assert_int_equal(asked.ca.len, 0);
    join("{\"leader_api_addr\":\"HTTPS://[::1]:8200\",\"join_token\":\"t\","
         "\"leader_ca_cert\":\"ca\",\"retry\":true}",
         200, "{\"joined\":true}");
    assert_string_equal(asked_address, "[::1]:8200");
    assert_string_equal(asked_server, "::1");
    assert_true(asked.retry);
    join("{\"leader_api_addr\":\"https://h:1\",\"join_token\":\"t\",\"leader_ca_cert\":\"ca\","
         "\"leader_tls_servername\":\"s\"}",
         200, "{\"joined\":true}");
    assert_string_equal(asked_server, "s");
    assert_int_equal(asked.token.len, 1);
    join("{\"leader_api_addr\":\"https://h:1\"}", 200, "{\"joined\":true}");
    assert_string_equal(asked_server, "h"); /* only a token tells another way to believe it */
    assert_int_equal(asked.token.len, 0);
    assert_false(asked.non_voter);
    join("{\"leader_api_addr\":\"https://h:1\",\"non_voter\":true}", 200, "{\"joined\":true}");
    assert_true(asked.non_voter);
    assert_int_equal(joins, 5);
}

static void a_request_to_join_that_cannot_be_meant_asks_nobody(void **ctx)
{
    (void)ctx;
    join("{}", 400, "leader_api_addr: missing");
    static const char *const bad[] = {
        "http://h:1",    "h:1",           "https://",        "https://h:0",  "https://h/x",
        "https://u@h:1", "https://h:1?q", "https://h\\\\:1", "https://h:1:2"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char body[200];
        (void)snprintf(body, sizeof body, "{\"leader_api_addr\":\"%s\",\"join_token\":\"t\"}",
                       bad[i]);
        join(body, 400, "leader_api_addr: https://HOST:PORT");
    }
    w.node.waits = false;
    join("{}", 400, "already joined");
    assert_int_equal(joins, 0);
}

static void the_result_of_joining_is_the_reply(void **ctx)
{
    (void)ctx;
    static const char body[] = "{\"leader_api_addr\":\"https://h:1\",\"join_token\":\"t\"}";
    static const struct {
        enum status st;
        int http;
        const char *part;
    } ends[] = {{ST_TIMEOUT, 200, "{\"joined\":false}"},
                {ST_EXISTS, 400, "already joined"},
                {ST_INVALID, 400, "because"},
                {ST_BUSY, 503, "because"},
                {ST_IO, 500, "because"},
                {ST_CLOSED, 503, "because"}};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        join_result = ends[i].st;
        join(body, ends[i].http, ends[i].part);
    }
}

static void every_failed_allocation_of_joining_gets_a_reply(void **ctx)
{
    (void)ctx;
    for (uint64_t n = 1;; n++) {
        struct test_request t;
        test_request_init(&t, METHOD_POST, "/v1/sys/storage/raft/join",
                          "{\"leader_api_addr\":\"https://h\",\"join_token\":\"t\"}");
        (void)mem_fail_nth(n);
        world_take(&w, &t);
        clock_run(&w.env);
        bool used = mem_fail_nth(0);
        assert_int_equal(t.replies, 1);
        if (!used || t.http != 500) /* some are for what a reply can do without */
            assert_int_equal(t.http, 200);
        test_request_done(&t);
        if (!used)
            break;
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_waiting, close_waiting)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_state_a_node_replies_about_itself_alone),
        TEST(the_origin_of_a_page_means_nothing_without_a_state),
        TEST(a_long_body_is_refused_without_a_state),
        TEST(it_serves_once_it_has_its_state),
        TEST(a_write_is_held_until_the_state_is_there),
        TEST(a_request_to_join_says_whom_to_ask),
        TEST(a_request_to_join_that_cannot_be_meant_asks_nobody),
        TEST(the_result_of_joining_is_the_reply),
        TEST(every_failed_allocation_of_joining_gets_a_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
