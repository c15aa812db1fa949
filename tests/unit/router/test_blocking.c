/* Blocking requests: the index of a result. */
#include "router/blocking_world.h"

#include "base/mem.h"
#include "http/budget.h"
#include "state/watch.h"

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
    put("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    assert_int_equal(index, w.m.version);
    put("/b/blocking/key/b");
    assert_int_equal(index_at(METHOD_GET, "/b/blocking/key/a"), index);
    put("/b/blocking/key/a");
    assert_int_equal(index_at(METHOD_GET, "/b/blocking/key/a"), w.m.version);
}

static void the_index_of_a_list_is_the_newest_below_its_prefix(void **ctx)
{
    (void)ctx;
    put("/b/blocking/key/a");
    put("/b/blocking/key/b");
    assert_int_equal(index_at(METHOD_LIST, "/b/blocking/keys"), w.m.version);
    assert_int_equal(world_request(&w, METHOD_DELETE, "/b/blocking/key/a", NULL)->http, 204);
    assert_int_equal(index_at(METHOD_LIST, "/b/blocking/keys"), w.m.version);
}

static void an_absent_object_has_an_index_too(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_request(&w, METHOD_GET, "/b/blocking/key/none", NULL)->http, 404);
    assert_true(seen_index != 0);
}

static void a_key_that_is_read_and_watched_at_once_has_the_same_index(void **ctx)
{
    (void)ctx;
    put("/b/blocking/key/a");
    assert_int_equal(world_request(&w, METHOD_GET, "/b/blocking/read/a", NULL)->http, 204);
    uint64_t index = seen_index;
    assert_int_equal(index, w.m.version);
    put("/b/blocking/key/b");
    assert_int_equal(world_request(&w, METHOD_GET, "/b/blocking/read/a", NULL)->http, 204);
    assert_int_equal(seen_index, index);
    assert_int_equal(world_request(&w, METHOD_GET, "/b/blocking/read/none", NULL)->http, 404);
    assert_true(seen_index != 0);
}

static void a_key_outside_of_the_state_cannot_be_watched(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_request(&w, METHOD_GET, "/b/blocking/wrong", NULL)->http, 400);
}

/* Parking */

static void publish(void)
{
    w.env.now_ms += WATCH_PAUSE_MS;
    router_worker_published(w.worker);
    clock_run(&w.env);
}

/* A write, as the raft thread makes it known. */
static void change(const char *path)
{
    put(path);
    publish();
}

/* Begin a request that has the result of `index`. */
static unsigned fail_nth; /* allocation of the request that fails; 0: none */
static bool has_failed;

static void ask_with(struct test_request *t, const char *token, const char *path, uint64_t index,
                     const char *wait)
{
    static char texts[64][24];
    static unsigned n;
    char *text = texts[n++ % ARRAY_LEN(texts)];
    (void)snprintf(text, sizeof texts[0], "%llu", (unsigned long long)index);
    bool list = strcmp(path, "/b/blocking/keys") == 0;
    test_request_init(t, list ? METHOD_LIST : METHOD_GET, path, NULL);
    test_request_header(t, "x-secrets-token", token);
    test_request_header(t, "x-index", text);
    if (wait != NULL)
        test_request_header(t, "x-wait", wait);
    (void)mem_fail_nth(fail_nth);
    world_take(&w, t);
    clock_run(&w.env);
    has_failed = mem_fail_nth(0);
}

static void ask(struct test_request *t, const char *path, uint64_t index)
{
    ask_with(t, w.token, path, index, NULL);
}

static void pass_ms(uint64_t ms)
{
    for (uint64_t end = w.env.now_ms + ms; w.env.now_ms < end;) {
        w.env.now_ms += MIN((uint64_t)50, end - w.env.now_ms);
        w.later_ms += 50;
        clock_run(&w.env);
    }
}

static void assert_parked(const struct test_request *t)
{
    struct store_stats stats;
    assert_int_equal(t->replies, 0);
    assert_non_null(t->parked);
    assert_int_equal(router_worker_running(w.worker), 0);
    store_stats(w.m.store, &stats);
    assert_int_equal(stats.pins, 0);
    assert_null(t->arena.blocks);
}

static void assert_replied(struct test_request *t, int http)
{
    assert_int_equal(t->replies, 1);
    assert_int_equal(t->http, http);
    test_request_done(t);
}

static struct router_parked_counters counted(void)
{
    struct router_counters counters;
    router_worker_counters(w.worker, &counters);
    return counters.parked;
}

static void a_request_waits_for_a_newer_result(void **ctx)
{
    struct test_request t;
    (void)ctx;
    change("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    ask(&t, "/b/blocking/key/a", index);
    assert_parked(&t);
    change("/b/blocking/key/b");
    pass_ms(1000);
    assert_parked(&t);
    unsigned reads = w.reads;
    change("/b/blocking/key/a");
    assert_true(seen_index > index);
    assert_int_equal(w.reads, reads); /* the newest version needs no confirmation */
    assert_replied(&t, 200);
    assert_int_equal(counted().changed, 1);
    assert_int_equal(counted().now, 0);
}

static void a_newer_result_is_given_at_once(void **ctx)
{
    struct test_request t;
    (void)ctx;
    change("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    ask(&t, "/b/blocking/key/a", index - 1);
    assert_replied(&t, 200);
    ask(&t, "/b/blocking/keys", 0);
    assert_replied(&t, 200);
    ask_with(&t, "wrong", "/b/blocking/key/a", index, NULL);
    assert_replied(&t, 403);
}

static void a_list_waits_for_any_change_below(void **ctx)
{
    struct test_request t;
    (void)ctx;
    change("/b/blocking/key/a");
    ask(&t, "/b/blocking/keys", index_at(METHOD_LIST, "/b/blocking/keys"));
    assert_parked(&t);
    assert_int_equal(world_request(&w, METHOD_DELETE, "/b/blocking/key/a", NULL)->http, 204);
    publish();
    assert_replied(&t, 404); /* an empty listing of this dialect */
}

static void at_the_end_of_the_wait_the_present_result_is_given(void **ctx)
{
    struct test_request t, none;
    (void)ctx;
    change("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    ask_with(&t, w.token, "/b/blocking/key/a", index, "1600");
    ask_with(&none, w.token, "/b/blocking/key/none", 1000000, "1600");
    assert_parked(&t);
    pass_ms(1590);
    assert_int_equal(t.replies + none.replies, 0);
    unsigned reads = w.reads;
    pass_ms(120);                         /* up to a sixteenth later */
    assert_int_equal(w.reads, reads + 2); /* the end of a wait is confirmed as every read */
    assert_replied(&t, 200);
    assert_replied(&none, 404);
    assert_int_equal(counted().timeouts, 2);
}

/* The nearest ancestor moves with every other key; the object stays absent. */
static void what_is_absent_is_waited_for(void **ctx)
{
    struct test_request t;
    (void)ctx;
    change("/b/blocking/key/a");
    change("/b/blocking/key/b");
    (void)index_at(METHOD_GET, "/b/blocking/key/none");
    ask(&t, "/b/blocking/key/none", seen_index);
    assert_parked(&t);
    change("/b/blocking/key/a");
    change("/b/blocking/key/c");
    assert_parked(&t);
    change("/b/blocking/key/none");
    assert_replied(&t, 200);
}

static void change_a(void)
{
    someone_else_puts(&w, "s/watched/a");
}

static void a_change_between_read_and_parking_is_not_lost(void **ctx)
{
    struct test_request t;
    (void)ctx;
    change("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    after_read = change_a;
    w.env.now_ms += 10;
    ask(&t, "/b/blocking/key/a", index);
    assert_int_equal(t.parks, 1);
    assert_true(seen_index > index);
    assert_replied(&t, 200);
}

static void make_token(char ret_token[64], const char *body)
{
    struct test_request *t = world_request(&w, METHOD_POST, "/v1/auth/token/create", body);
    const char *at = strstr((const char *)t->body.data, "\"client_token\":\"");
    assert_non_null(at);
    at += strlen("\"client_token\":\"");
    (void)snprintf(ret_token, 64, "%.*s", (int)strcspn(at, "\""), at);
}

static void a_request_ends_with_its_token(void **ctx)
{
    struct test_request t;
    char token[64], body[128];
    (void)ctx;
    change("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    make_token(token, "{}");
    ask_with(&t, token, "/b/blocking/key/a", index, NULL);
    assert_parked(&t);
    (void)snprintf(body, sizeof body, "{\"token\":\"%s\"}", token);
    assert_int_equal(world_request(&w, METHOD_POST, "/v1/auth/token/revoke", body)->http, 204);
    publish();
    assert_replied(&t, 403);
}

static void a_request_ends_with_an_ancestor_of_its_token(void **ctx)
{
    struct test_request t, *made;
    char parent[64], child[64], body[128], root[64];
    (void)ctx;
    change("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    (void)snprintf(root, sizeof root, "%s", w.token);
    make_token(parent, "{}");
    (void)snprintf(w.token, sizeof w.token, "%s", parent);
    make_token(child, "{}");
    (void)snprintf(w.token, sizeof w.token, "%s", root);
    ask_with(&t, child, "/b/blocking/key/a", index, NULL);
    assert_parked(&t);
    (void)snprintf(body, sizeof body, "{\"token\":\"%s\"}", parent);
    made = world_request(&w, METHOD_POST, "/v1/auth/token/revoke", body);
    assert_int_equal(made->http, 204);
    publish();
    assert_replied(&t, 403);
}

static void a_request_ends_when_its_token_expires(void **ctx)
{
    struct test_request t;
    char token[64];
    (void)ctx;
    change("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    make_token(token, "{\"ttl\":\"5s\"}");
    ask_with(&t, token, "/b/blocking/key/a", index, NULL);
    assert_parked(&t);
    pass_ms(4500);
    assert_parked(&t);
    pass_ms(1000);
    assert_replied(&t, 403);
}

static void a_node_that_leaves_gives_the_present_result(void **ctx)
{
    struct test_request t, late;
    (void)ctx;
    change("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    ask(&t, "/b/blocking/key/a", index);
    assert_parked(&t);
    w.host.leaving = true;
    w.read_status = ST_NO_LEADER; /* whatever becomes of the cluster */
    pass_ms(300);
    assert_replied(&t, 200);
    w.read_status = ST_OK;
    w.host.leaving = false;
    ask(&t, "/b/blocking/key/a", index);
    router_worker_leave(w.worker);
    clock_run(&w.env);
    assert_replied(&t, 200);
    ask(&late, "/b/blocking/key/a", index);
    assert_replied(&late, 200);
}

static void a_sealed_node_refuses_what_was_parked(void **ctx)
{
    struct test_request t;
    (void)ctx;
    change("/b/blocking/key/a");
    ask(&t, "/b/blocking/key/a", index_at(METHOD_GET, "/b/blocking/key/a"));
    w.node.sealed = true;
    w.node.active = false;
    pass_ms(300);
    assert_replied(&t, 503);
}

static void without_a_leader_a_parked_request_ends(void **ctx)
{
    struct test_request t;
    (void)ctx;
    world_standby(&w, true);
    change_a();
    (void)index_at(METHOD_GET, "/b/blocking/key/a");
    ask(&t, "/b/blocking/key/a", seen_index);
    assert_parked(&t);
    w.node.perf_standby = w.node.has_leader = false;
    w.read_status = ST_NO_LEADER;
    pass_ms(9000);
    assert_parked(&t);
    pass_ms(2000);
    assert_int_equal(t.replies, 1);
    assert_true(t.http >= 500);
    test_request_done(&t);
}

static void a_short_loss_of_the_leader_ends_nothing(void **ctx)
{
    struct test_request t;
    (void)ctx;
    world_standby(&w, true);
    change_a();
    (void)index_at(METHOD_GET, "/b/blocking/key/a");
    ask_with(&t, w.token, "/b/blocking/key/a", seen_index, "60000");
    for (int i = 0; i < 3; i++) {
        w.node.perf_standby = w.node.has_leader = false;
        w.read_status = ST_NO_LEADER;
        pass_ms(5000);
        w.node.perf_standby = w.node.has_leader = true;
        w.read_status = ST_OK;
        pass_ms(5000);
    }
    assert_parked(&t);
    change_a();
    publish();
    assert_replied(&t, 200);
}

/* A node that hears the leader, but is not heard. */
static void a_node_that_cannot_confirm_ends_parked_requests(void **ctx)
{
    struct test_request t;
    (void)ctx;
    world_standby(&w, true);
    change_a();
    (void)index_at(METHOD_GET, "/b/blocking/key/a");
    ask_with(&t, w.token, "/b/blocking/key/a", seen_index, "600000");
    assert_parked(&t);
    w.read_status = ST_TIMEOUT;
    pass_ms(30000);
    assert_int_equal(t.replies, 1);
    assert_true(t.http >= 500);
    test_request_done(&t);
}

static void a_plain_standby_forwards_with_the_whole_wait(void **ctx)
{
    struct test_request t;
    (void)ctx;
    change("/b/blocking/key/a");
    world_standby(&w, false);
    uint64_t before_ms = w.env.now_ms;
    ask_with(&t, w.token, "/b/blocking/key/a", 1000000, "600000");
    assert_int_equal(w.forwards, 1);
    assert_true(w.forward_deadline_ms >= before_ms + 600000 * 17 / 16);
    assert_replied(&t, 299);
}

static void a_node_that_becomes_a_plain_standby_passes_parked_requests_on(void **ctx)
{
    struct test_request t;
    (void)ctx;
    change("/b/blocking/key/a");
    ask(&t, "/b/blocking/key/a", index_at(METHOD_GET, "/b/blocking/key/a"));
    assert_parked(&t);
    world_standby(&w, false);
    pass_ms(300);
    assert_int_equal(w.forwards, 1);
    assert_replied(&t, 299);
}

static void a_plain_standby_that_leaves_ends_what_waits_elsewhere(void **ctx)
{
    struct test_request t;
    (void)ctx;
    change("/b/blocking/key/a");
    world_standby(&w, false);
    w.forward_holds = true;
    ask(&t, "/b/blocking/key/a", 1000000);
    assert_int_equal(t.replies, 0);
    router_worker_leave(w.worker);
    assert_replied(&t, 503);
    assert_int_equal(w.forwards, 1);
}

/* The active node dies while it has the request, and this node becomes active. */
static void a_request_whose_try_was_lost_waits_here(void **ctx)
{
    struct test_request t;
    (void)ctx;
    change("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    world_standby(&w, false);
    w.n_forward = 1;
    w.forward_status[0] = ST_UNKNOWN_OUTCOME;
    ask(&t, "/b/blocking/key/a", index);
    assert_int_equal(t.replies, 0);
    w.node.active = true;
    pass_ms(100);
    assert_parked(&t);
    change("/b/blocking/key/a");
    assert_replied(&t, 200);
}

static void a_client_that_goes_leaves_nothing(void **ctx)
{
    struct test_request t;
    (void)ctx;
    change("/b/blocking/key/a");
    ask(&t, "/b/blocking/key/a", index_at(METHOD_GET, "/b/blocking/key/a"));
    assert_parked(&t);
    router_parked_drop(t.parked);
    change("/b/blocking/key/a");
    assert_int_equal(t.replies, 0);
    assert_int_equal(counted().now, 0);
    assert_int_equal(counted().gone, 1);
    test_request_done(&t);
}

static void parking_is_bounded(void **ctx)
{
    struct http_budget budget = {0};
    const struct http_budget_options options = {.total = 3, .share = 2, .clients_max = 3};
    struct test_request t[4];
    (void)ctx;
    assert_status(http_budget_init(&budget, &w.env.env, &options), ST_OK);
    w.host.parking = &budget;
    change("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    for (unsigned i = 0; i < 3; i++)
        ask(&t[i], "/b/blocking/key/a", index);
    assert_int_equal(t[2].http, 429);
    test_request_done(&t[2]);
    change("/b/blocking/key/a");
    assert_replied(&t[0], 200);
    assert_replied(&t[1], 200);
    assert_int_equal(http_budget_used(&budget), 0);
    assert_int_equal(counted().refused, 1);
    w.host.parking = NULL;
    http_budget_done(&budget);
}

static void woken_requests_run_in_short_turns(void **ctx)
{
    enum { N = 20 };
    static struct test_request t[N];
    unsigned done = 0;
    (void)ctx;
    change("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    for (unsigned i = 0; i < N; i++)
        ask(&t[i], "/b/blocking/key/a", index);
    change_a();
    run_takes_ms = 1;
    w.env.now_ms += 5;
    router_worker_published(w.worker);
    for (unsigned before = 0; done < N; before = done) {
        struct env_task *task = CONTAINER_OF(list_pop(&w.env.tasks), struct env_task, link);
        task->run(task);
        for (done = 0; done < N && t[done].replies == 1;)
            done++;
        assert_true(done - before <= 5);
    }
    for (unsigned i = 0; i < N; i++)
        assert_replied(&t[i], 200);
}

static void a_failed_allocation_parks_nothing(void **ctx)
{
    (void)ctx;
    change("/b/blocking/key/a");
    uint64_t index = index_at(METHOD_GET, "/b/blocking/key/a");
    for (has_failed = true, fail_nth = 1; has_failed; fail_nth++) {
        struct test_request t;
        ask(&t, "/b/blocking/key/a", index);
        if (t.replies == 0) {
            assert_parked(&t);
            change_a();
            publish();
            index = seen_index;
        }
        assert_int_equal(t.replies, 1);
        test_request_done(&t);
        assert_int_equal(counted().now, 0);
    }
    assert_true(fail_nth > 10);
    fail_nth = 0;
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_index_of_an_object_is_its_newest_version),
        T(the_index_of_a_list_is_the_newest_below_its_prefix),
        T(an_absent_object_has_an_index_too),
        T(a_key_that_is_read_and_watched_at_once_has_the_same_index),
        T(a_key_outside_of_the_state_cannot_be_watched),
        T(a_request_waits_for_a_newer_result),
        T(a_newer_result_is_given_at_once),
        T(a_list_waits_for_any_change_below),
        T(at_the_end_of_the_wait_the_present_result_is_given),
        T(what_is_absent_is_waited_for),
        T(a_change_between_read_and_parking_is_not_lost),
        T(a_request_ends_with_its_token),
        T(a_request_ends_with_an_ancestor_of_its_token),
        T(a_request_ends_when_its_token_expires),
        T(a_node_that_leaves_gives_the_present_result),
        T(a_sealed_node_refuses_what_was_parked),
        T(without_a_leader_a_parked_request_ends),
        T(a_short_loss_of_the_leader_ends_nothing),
        T(a_node_that_cannot_confirm_ends_parked_requests),
        T(a_plain_standby_forwards_with_the_whole_wait),
        T(a_node_that_becomes_a_plain_standby_passes_parked_requests_on),
        T(a_plain_standby_that_leaves_ends_what_waits_elsewhere),
        T(a_request_whose_try_was_lost_waits_here),
        T(a_client_that_goes_leaves_nothing),
        T(parking_is_bounded),
        T(woken_requests_run_in_short_turns),
        T(a_failed_allocation_parks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
