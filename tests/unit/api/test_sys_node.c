/* Replies about the node itself, and the history of versions. */
#include "api/api_world.h"
#include "state/ns_key.h"

#include "base/trace.h"
#include "router/setting.h"

static unsigned lines;
static void count(enum trace_level level, const char *module, const char *said)
{
    (void)level;
    (void)module;
    (void)said;
    lines++;
}

static unsigned said(enum trace_level level, const char *module)
{
    lines = 0;
    trace_set_sink(count);
    trace(level, module, "x");
    trace_set_sink(NULL);
    return lines;
}

static int reset(void **ctx)
{
    assert_status(trace_follow(NULL), ST_OK);
    trace_set_level(TRACE_INFO);
    return close_world(ctx);
}

static void a_level_of_its_own_counts_for_a_module(void **ctx)
{
    (void)ctx;
    w.host.log_level = TRACE_WARN;
    (void)request(METHOD_POST, "/v1/sys/loggers/raft", "{\"level\":\"debug\"}", 204);
    assert_int_equal(said(TRACE_DEBUG, "raft"), 1);
    assert_int_equal(said(TRACE_DEBUG, "mesh"), 0);
    (void)request(METHOD_POST, "/v1/sys/loggers/mesh", "{\"level\":\"off\"}", 204);
    assert_int_equal(said(TRACE_ERROR, "mesh"), 0);
    (void)request(METHOD_DELETE, "/v1/sys/loggers/mesh", NULL, 204);
    assert_int_equal(said(TRACE_INFO, "mesh"), 1);
    (void)request(METHOD_POST, "/v1/sys/loggers", "{\"level\":\"error\"}", 204);
    assert_int_equal(said(TRACE_WARN, "raft") + said(TRACE_WARN, "node"), 0);
    assert_int_equal(said(TRACE_ERROR, "raft") + said(TRACE_ERROR, "other"), 2);
    (void)request(METHOD_DELETE, "/v1/sys/loggers", NULL, 204);
    assert_int_equal(said(TRACE_INFO, "raft"), 0);
    assert_int_equal(said(TRACE_WARN, "raft"), 1);
    assert_body_has(request(METHOD_GET, "/v1/sys/loggers/raft", NULL, 200), "{\"raft\":\"warn\"}");
}

static void what_is_no_logger_or_level_is_refused(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_POST, "/v1/sys/loggers/raft", "{\"level\":\"loud\"}", 400);
    (void)request(METHOD_POST, "/v1/sys/loggers", "{}", 400);
    assert_body_has(request(METHOD_POST, "/v1/sys/loggers/some", "{\"level\":\"info\"}", 404),
                    "logger \\\"some\\\" not found");
    (void)request(METHOD_GET, "/v1/sys/loggers/some", NULL, 404);
    (void)request(METHOD_DELETE, "/v1/sys/loggers/some", NULL, 404);
    assert_int_equal(said(TRACE_INFO, "raft"), 1);
}

static void the_configuration_is_shown_as_it_was_given(void **ctx)
{
    (void)ctx;
    w.host.configuration = BYTES("{\"api_addr\":\"https://x\"}");
    assert_body_has(request(METHOD_GET, "/v1/sys/config/state/sanitized", NULL, 200),
                    "\"data\":{\"api_addr\":\"https://x\"}");
    w.token[0] = '\0';
    (void)request(METHOD_GET, "/v1/sys/config/state/sanitized", NULL, 403);
}

static void the_machine_is_described(void **ctx)
{
    (void)ctx;
    w.host.data_dir = "/";
    struct test_request *t = request(METHOD_GET, "/v1/sys/host-info", NULL, 200);
    assert_body_has(t, "\"memory\":{\"total\":");
    assert_body_has(t, "\"cpu_times\":[{\"cpu\":\"cpu0\",\"user\":");
    assert_body_has(t, "\"disk\":[{\"path\":\"/\",\"total\":");
    assert_null(strstr(text(t), "\"memory\":{\"total\":0,"));
    w.host.data_dir = "/none/at/all";
    assert_body_has(request(METHOD_GET, "/v1/sys/host-info", NULL, 200), "\"disk\":[]");
}

static enum status forget(struct state_txn *txn, int64_t now_ms)
{
    (void)now_ms;
    return setting_delete(txn, STATE_NS_ROOT, "version/" HOLDFAST_VERSION);
}

/* A transaction of the active node's; whether it changed anything. */
static bool run(enum status (*duty)(struct state_txn *txn, int64_t now_ms))
{
    struct arena arena = {0};
    struct state_txn txn;
    struct state_commit commit = {.done = saved};
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(duty(&txn, 1700000060000), ST_OK);
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

static void a_version_is_written_down_once(void **ctx)
{
    (void)ctx;
    struct test_request *t = request(METHOD_LIST, "/v1/sys/version-history", NULL, 200);
    assert_body_has(t, "{\"keys\":[\"" HOLDFAST_VERSION "\"],\"key_info\":{\"" HOLDFAST_VERSION
                       "\":{\"timestamp_installed\":\"2023-11-14T22:13:20Z\",\"build_date\":\"\","
                       "\"previous_version\":null}}}");
    assert_false(run(nodes_version_upkeep));
    assert_true(run(forget));
    (void)request(METHOD_LIST, "/v1/sys/version-history", NULL, 404);
    assert_true(run(nodes_version_upkeep)); /* as after an upgrade */
    assert_false(run(nodes_version_upkeep));
    t = request(METHOD_LIST, "/v1/sys/version-history", NULL, 200);
    assert_body_has(t, "\"timestamp_installed\":\"2023-11-14T22:14:20Z\"");
}

static void tokens_are_counted(void **ctx)
{
    (void)ctx;
    static const char path[] = "/v1/sys/internal/counters/tokens";
    assert_body_has(request(METHOD_GET, path, NULL, 200), "{\"service_tokens\":{\"total\":1}}");
    (void)request(METHOD_POST, "/v1/auth/token/create", "{}", 200);
    assert_body_has(request(METHOD_GET, path, NULL, 200), "{\"service_tokens\":{\"total\":2}}");
}

static int reloaded = -1;
static enum status reload_ok(struct router_host *host, enum router_reload part,
                             struct reason *ret_why)
{
    assert_ptr_equal(host, &w.host);
    (void)ret_why;
    reloaded = (int)part;
    return ST_OK;
}

static enum status reload_fails(struct router_host *host, enum router_reload part,
                                struct reason *ret_why)
{
    (void)host;
    (void)part;
    reason_set(ret_why, "listener x: keeps its certificate: no such file: a.pem");
    return ST_NOT_FOUND;
}

static void a_part_of_the_configuration_is_read_again(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *name;
        int part;
    } parts[] = {{"log_level", RELOAD_LOG_LEVEL},
                 {"listener", RELOAD_LISTENER},
                 {"cluster", RELOAD_CLUSTER},
                 {"audit", RELOAD_AUDIT},
                 {"license", -1}};
    w.host.reload = reload_ok;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        char path[64];
        reloaded = -1;
        (void)snprintf(path, sizeof path, "/v1/sys/config/reload/%s", parts[i].name);
        (void)request(METHOD_POST, path, NULL, 204);
        assert_int_equal(reloaded, parts[i].part);
    }
    w.token[0] = '\0';
    reloaded = -1;
    (void)request(METHOD_PUT, "/v1/sys/config/reload/listener", NULL, 403);
    assert_int_equal(reloaded, -1);
}

static void a_part_that_cannot_be_read_keeps_what_is_in_use(void **ctx)
{
    (void)ctx;
    w.host.reload = reload_fails;
    assert_body_has(request(METHOD_POST, "/v1/sys/config/reload/listener", "{}", 400),
                    "keeps its certificate: no such file: a.pem");
}

static void an_unknown_subsystem_is_refused_with_the_known_ones(void **ctx)
{
    (void)ctx;
    w.host.reload = reload_fails;
    static const char *const names[] = {"listeners", "a/b", "LICENSE", "all"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/v1/sys/config/reload/%s", names[i]);
        assert_body_has(request(METHOD_POST, path, NULL, 400),
                        "audit, cluster, listener, log_level or license is expected");
    }
    (void)request(METHOD_GET, "/v1/sys/config/reload/listener", NULL, 405);
}

static void paths_that_are_off_reply_as_upstream_does(void **ctx)
{
    (void)ctx;
    static const enum http_method methods[] = {METHOD_GET, METHOD_LIST, METHOD_PUT, METHOD_DELETE};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        const char *body = methods[i] == METHOD_PUT ? "{\"value\":\"a\"}" : NULL;
        assert_body_has(request(methods[i], "/v1/sys/raw/core/seal", body, 404),
                        "unsupported path");
        assert_body_has(request(methods[i], "/v1/sys/internal/inspect/router/root", body, 400),
                        "introspection_endpoint is switched off");
    }
    (void)request(METHOD_GET, "/v1/sys/internal/counters/activity?start_time=1", NULL, 204);
    (void)request(METHOD_GET, "/v1/sys/internal/counters/activity/monthly", NULL, 204);
    (void)request(METHOD_GET, "/v1/sys/internal/counters/activity/export", NULL, 204);
    (void)request(METHOD_GET, "/v1/sys/pprof/heap", NULL, 404);
    w.token[0] = '\0';
    (void)request(METHOD_GET, "/v1/sys/raw/core/seal", NULL, 403);
}

int main(void)
{
#define NODE(f) cmocka_unit_test_setup_teardown(f, open_world, reset)
    const struct CMUnitTest tests[] = {
        NODE(a_level_of_its_own_counts_for_a_module),
        NODE(what_is_no_logger_or_level_is_refused),
        NODE(the_configuration_is_shown_as_it_was_given),
        NODE(the_machine_is_described),
        NODE(a_version_is_written_down_once),
        NODE(tokens_are_counted),
        NODE(paths_that_are_off_reply_as_upstream_does),
        NODE(a_part_of_the_configuration_is_read_again),
        NODE(a_part_that_cannot_be_read_keeps_what_is_in_use),
        NODE(an_unknown_subsystem_is_refused_with_the_known_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
