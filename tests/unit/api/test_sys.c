#include "api/api_world.h"
#include "base/mem.h"

/* Health */

static void assert_health(const char *query, int http)
{
    char target[200];
    char kept[64];
    memcpy(kept, w.token, sizeof kept);
    w.token[0] = '\0'; /* needs none */
    (void)snprintf(target, sizeof target, "/v1/sys/health%s", query);
    struct test_request *t = world_request(&w, METHOD_GET, target, NULL);
    if (t->http != http)
        fail_msg("%s: %d %s", target, t->http, (const char *)t->body.data);
    bool told = strstr((const char *)t->body.data, "\"errors\":[") != NULL;
    assert_int_equal(told, http >= 400);
    assert_int_equal(world_request(&w, METHOD_HEAD, target, NULL)->http, http);
    memcpy(w.token, kept, sizeof kept);
}

static void health_says_what_a_node_can_do(void **ctx)
{
    (void)ctx;
    assert_health("", 501);
    assert_health("?uninitcode=299&sealedcode=298", 299);
    w.node.initialized = true;
    assert_health("", 503);
    assert_health("?sealedcode=299&activecode=298", 299);
    w.node.sealed = false;
    assert_health("", 429);
    assert_health("?standbycode=299", 299);
    assert_health("?standbyok=true", 200);
    assert_health("?standbyok=1&activecode=298", 298);
    assert_health("?standbyok=false", 429);
    w.node.perf_standby = true;
    assert_health("", 473);
    assert_health("?performancestandbycode=299", 299);
    assert_health("?standbycode=299", 473);
    assert_health("?perfstandbyok=true", 200);
    assert_health("?standbyok=true", 200);
    w.node.has_leader = false;
    assert_health("", 474);
    assert_health("?haunhealthycode=299&standbyok=true", 299);
    w.node.has_leader = true;
    w.node.active = true;
    assert_health("", 200);
    assert_health("?activecode=299&standbycode=298", 299);
    w.host.leaving = true;
    assert_health("", 503);
    assert_health("?activecode=299", 503);
    w.host.leaving = false;
    w.host.maintenance = true;
    assert_health("", 503);
    assert_health("?maintenancecode=299", 299);
    w.host.maintenance = false;
    w.node.removed = true;
    assert_health("", 530);
    assert_health("?removedcode=299&activecode=298", 299);
}

static void health_refuses_codes_that_are_none(void **ctx)
{
    (void)ctx;
    static const char *const queries[] = {"?activecode=abc",  "?sealedcode=1.5",
                                          "?standbyok=maybe", "?uninitcode=99",
                                          "?standbycode=600", "?activecode=1&activecode=2"};
    for (size_t i = 0; i < ARRAY_LEN(queries); i++)
        assert_health(queries[i], 400);
}

static void health_names_the_cluster_only_when_unsealed(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/sys/health", NULL);
    assert_null(strstr((const char *)t->body.data, "cluster_name"));
    assert_body_has(t, "{\"initialized\":false,\"sealed\":true,\"standby\":true,");
    w.node.initialized = w.node.active = true;
    w.node.sealed = false;
    t = world_request(&w, METHOD_GET, "/v1/sys/health", NULL);
    assert_body(t, "{\"initialized\":true,\"sealed\":false,\"standby\":false,"
                   "\"performance_standby\":false,\"replication_performance_mode\":\"disabled\","
                   "\"replication_dr_mode\":\"disabled\",\"server_time_utc\":1700000001,"
                   "\"replication_primary_canary_age_ms\":0,\"clock_skew_ms\":0,"
                   "\"echo_duration_ms\":0,\"version\":\"0.0.1\",\"cluster_name\":\"test\",\"cluster_id\":\"id\"}");
}

static void leader_and_seal_status_need_no_token(void **ctx)
{
    (void)ctx;
    w.node.initialized = true;
    w.node.applied_index = 7;
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/sys/leader", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "{\"ha_enabled\":true,\"is_self\":false,"
                       "\"active_time\":\"0001-01-01T00:00:00Z\","
                       "\"leader_address\":\"https://node1:8200\","
                       "\"leader_cluster_address\":\"https://node1:8201\"");
    assert_body_has(t, "\"raft_applied_index\":7,\"quorum\":true}");
    w.node.active = true;
    w.node.active_since_ms = 1700000000500;
    t = world_request(&w, METHOD_GET, "/v1/sys/leader", NULL);
    assert_body_has(t, "\"is_self\":true,\"active_time\":\"2023-11-14T22:13:20.5Z\"");
    t = world_request(&w, METHOD_GET, "/v1/sys/seal-status", NULL);
    assert_body_has(t, "{\"type\":\"static\",\"initialized\":true,\"sealed\":true,");
}

/* Init */

static void init_gives_a_token_and_mounts_kv(void **ctx)
{
    (void)ctx;
    assert_body(world_request(&w, METHOD_GET, "/v1/sys/init", NULL), "{\"initialized\":false}");
    world_init(&w);
    assert_int_equal(strlen(w.token), 28);
    assert_body(world_request(&w, METHOD_GET, "/v1/sys/init", NULL), "{\"initialized\":true}");
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/kv/a", "{\"a\":1}")->http, 204);
}

static int64_t unknown_time(struct node *node)
{
    (void)node;
    return 0;
}

static void the_first_key_is_as_old_as_the_cluster_and_its_uses_are_counted(void **ctx)
{
    (void)ctx;
    w.node_ops.time_ms = unknown_time; /* the first leader has not told its workers */
    world_init(&w);
    w.later_ms = 5000;
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/sys/key-status", NULL);
    assert_body_has(t, "\"install_time\":\"2023-11-14T22:13:20Z\"");
    struct barrier_ring_info before, after;
    assert_status(barrier_ring_info(w.barrier, BARRIER_SHARED, &before), ST_OK);
    for (int i = 0; i < 7; i++)
        assert_int_equal(world_request(&w, METHOD_PUT, "/v1/kv/a", "{\"a\":1}")->http, 204);
    assert_status(barrier_ring_info(w.barrier, BARRIER_SHARED, &after), ST_OK);
    assert_int_equal(before.unused - after.unused, 7);
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "\"encryptions\":%lld}",
                   (long long)((int64_t)after.uses - after.unused));
    t = world_request(&w, METHOD_GET, "/v1/sys/key-status", NULL);
    assert_body_has(t, wanted);
}

/* Whether a token has expired cannot be told before the node knows the time. */
static void a_token_that_expires_waits_for_the_time_of_the_cluster(void **ctx)
{
    (void)ctx;
    int64_t (*known_time)(struct node * node) = w.node_ops.time_ms;
    char first[sizeof w.token];
    world_init(&w);
    (void)snprintf(first, sizeof first, "%s", w.token);
    struct test_request *t =
        world_request(&w, METHOD_POST, "/v1/auth/token/create", "{\"ttl\":\"1h\"}");
    const char *token = strstr((const char *)t->body.data, "\"client_token\":\"");
    assert_non_null(token);
    token += strlen("\"client_token\":\"");
    (void)snprintf(w.token, sizeof w.token, "%.*s", (int)strcspn(token, "\""), token);
    w.node_ops.time_ms = unknown_time;
    t = world_request(&w, METHOD_PUT, "/v1/cubbyhole/a", "{\"a\":1}");
    assert_int_equal(t->http, 503);
    assert_body_has(t, "does not know the time of the cluster yet");
    w.node_ops.time_ms = known_time;
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/cubbyhole/a", "{\"a\":1}")->http, 204);
    (void)snprintf(w.token, sizeof w.token, "%s", first);
    w.node_ops.time_ms = unknown_time;
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/cubbyhole/a", "{\"a\":1}")->http, 204);
}

static void init_works_once(void **ctx)
{
    (void)ctx;
    world_init(&w);
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/sys/init", "{}");
    assert_int_equal(t->http, 400);
    assert_body_has(t, "already initialized");
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/auth/token/lookup-self", NULL)->http, 200);
}

static void init_may_make_one_recovery_key(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/sys/init",
                                           "{\"recovery_shares\":1,\"recovery_threshold\":1}");
    assert_int_equal(t->http, 200);
    const char *hex = strstr((const char *)t->body.data, "\"recovery_keys\":[\"");
    const char *base64 = strstr((const char *)t->body.data, "\"recovery_keys_base64\":[\"");
    assert_true(hex != NULL && base64 != NULL);
    assert_int_equal(strcspn(hex + strlen("\"recovery_keys\":[\""), "\""), 64);
    base64 += strlen("\"recovery_keys_base64\":[\"");
    assert_int_equal(strcspn(base64, "\""), 44);
    assert_int_equal(base64[43], '=');
    assert_body_has(t, "{\"keys\":[],\"keys_base64\":[],");
}

static unsigned count_of(const struct test_request *t, const char *text)
{
    unsigned n = 0;
    for (const char *at = (const char *)t->body.data; (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

static void init_makes_five_recovery_keys_unless_told_otherwise(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/sys/init", "{}");
    assert_int_equal(t->http, 200);
    assert_int_equal(count_of(t, "\",\""), 2 * 4); /* between the five of two lists */
}

static void init_makes_no_recovery_keys_where_none_are_wanted(void **ctx)
{
    (void)ctx;
    struct test_request *t =
        world_request(&w, METHOD_PUT, "/v1/sys/init", "{\"recovery_shares\":0}");
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"recovery_keys\":[],\"recovery_keys_base64\":[]");
}

static void init_refuses_what_it_cannot_do(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *body;
        int http;
    } cases[] = {
        {"{\"secret_shares\":5,\"secret_threshold\":3}", 400},
        {"{\"recovery_shares\":5,\"recovery_threshold\":1}", 400},
        {"{\"recovery_shares\":256,\"recovery_threshold\":3}", 400},
        {"{\"recovery_shares\":3,\"recovery_threshold\":4}", 400},
        {"{\"recovery_shares\":3,\"recovery_threshold\":0}", 400},
        {"{\"recovery_shares\":1}", 400},
        {"{\"recovery_shares\":-1,\"recovery_threshold\":-1}", 400},
        {"{\"root_token_pgp_key\":\"x\"}", 400},
        {"{\"pgp_keys\":[\"x\"]}", 400},
        {"{\"recovery_shares\":1,\"recovery_threshold\":1,\"recovery_pgp_keys\":[\"x\"]}", 400},
        {"{\"secret_shares\":\"many\"}", 400},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(world_request(&w, METHOD_PUT, "/v1/sys/init", cases[i].body)->http,
                         cases[i].http);
    assert_status(state_is_initialized(w.m.store), ST_NOT_FOUND);
    world_init(&w); /* a refusal leaves nothing behind */
}

static void random_bytes_and_digests_are_bounded(void **ctx)
{
    (void)ctx;
    world_init(&w);
    struct test_request *t =
        world_request(&w, METHOD_POST, "/v1/sys/tools/random/131072", "{\"format\":\"hex\"}");
    expect(t, 200, "\"random_bytes\":\"");
    assert_true(t->body.len > 2 * 131072);
    expect(world_request(&w, METHOD_POST, "/v1/sys/tools/random/131073", NULL), 400, "less than");
    expect(world_request(&w, METHOD_POST, "/v1/sys/tools/random/0", NULL), 400, "less than 1");
    expect(world_request(&w, METHOD_POST, "/v1/sys/tools/random/seal", NULL), 400,
           "entropy source");
    expect(world_request(&w, METHOD_POST, "/v1/sys/tools/random/seal/8", NULL), 400,
           "entropy source");
    expect(world_request(&w, METHOD_POST, "/v1/sys/tools/random", "{\"source\":\"seal\"}"), 400,
           "entropy source");
    expect(world_request(&w, METHOD_POST, "/v1/sys/tools/random/all/8", NULL), 200, NULL);
}

static void a_password_policy_is_kept_as_plain_text(void **ctx)
{
    (void)ctx;
    static const char path[] = "/v1/sys/policies/password/p";
    world_init(&w);
    expect(world_request(
               &w, METHOD_POST, path,
               "{\"policy\":\"bGVuZ3RoID0gNApydWxlICJjaGFyc2V0IiB7IGNoYXJzZXQgPSAiYSIgfQo=\"}"),
           204, NULL);
    expect(world_request(&w, METHOD_GET, path, NULL), 200,
           "\"policy\":\"length = 4\\nrule \\\"charset\\\" { charset = \\\"a\\\" }\\n\"");
    expect(world_request(&w, METHOD_GET, "/v1/sys/policies/password/p/generate", NULL), 200,
           "\"password\":\"aaaa\"");
}

/* What a combined token is separated from is checked before it is told. */
static void an_encoded_token_needs_its_own_pad(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *body;
        int http;
        const char *says;
    } cases[] = {
        {"{\"encoded_token\":\"AwMD\",\"otp\":\"bbb\"}", 200, "\"token\":\"aaa\""},
        {"{\"encoded_token\":\"AwMD\",\"otp\":\"bb\"}", 400, "not as long"},
        {"{\"encoded_token\":\"AwMD\",\"otp\":\"bbbb\"}", 400, "not as long"},
        {"{\"encoded_token\":\"AwMD\",\"otp\":\"bb\\u0003\"}", 400, "does not belong"},
        {"{\"encoded_token\":\"AwMD\",\"otp\":\"bb#\"}", 400, "does not belong"},
        {"{\"encoded_token\":\"AwMD\"}", 400, "missing otp"},
        {"{\"otp\":\"bbb\"}", 400, "missing encoded token"},
        {"{\"encoded_token\":\"?\",\"otp\":\"b\"}", 400, "base64"},
    };
    world_init(&w);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect(world_request(&w, METHOD_POST, "/v1/sys/decode-token", cases[i].body), cases[i].http,
               cases[i].says);
    static char body[12000];
    memset(body, 'A', sizeof body);
    memcpy(body, "{\"encoded_token\":\"", 18);
    (void)snprintf(body + 5000, sizeof body - 5000, "\",\"otp\":\"b\"}");
    expect(world_request(&w, METHOD_POST, "/v1/sys/decode-token", body), 400, "base64 is expected");
}

static void init_may_leave_the_default_mount_out(void **ctx)
{
    (void)ctx;
    w.host.optional_mounts = false;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/sys/init", "{}");
    const char *token = strstr((const char *)t->body.data, "hvs.");
    (void)snprintf(w.token, sizeof w.token, "%.28s", token);
    assert_status(state_unseal(w.m.store, w.barrier, &w.seal, NULL), ST_OK);
    w.node.initialized = w.node.active = true;
    w.node.sealed = false;
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/secret/data/a", NULL)->http, 404);
}

static void init_runs_on_the_leader(void **ctx)
{
    (void)ctx;
    world_standby(&w, false);
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/sys/init", "{}")->http, 299);
    assert_int_equal(w.forwards, 1);
    assert_status(state_is_initialized(w.m.store), ST_NOT_FOUND);
}

/* Nothing that opens the cluster lies in the state in clear. */
static void no_stored_byte_gives_the_token_away(void **ctx)
{
    (void)ctx;
    struct store_pin pin;
    struct store_iter *iter = mem_alloc(sizeof *iter);
    unsigned n = 0;
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    store_iter_init(iter, &pin, (struct bytes){0}, (struct bytes){0});
    for (; store_iter_next(iter); n++) {
        struct bytes parts[] = {iter->item.key, iter->item.value};
        for (size_t i = 0; i < ARRAY_LEN(parts); i++)
            assert_true(parts[i].len == 0 ||
                        memmem(parts[i].data, parts[i].len, w.token + 4, 24) == NULL);
    }
    assert_true(n > 5);
    store_unpin(&pin);
    mem_free(iter);
}

/* Tokens */

static void a_token_looks_itself_up(void **ctx)
{
    (void)ctx;
    static const enum http_method methods[] = {METHOD_GET, METHOD_POST, METHOD_PUT};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        struct test_request *t = world_request(&w, methods[i], "/v1/auth/token/lookup-self", NULL);
        assert_int_equal(t->http, 200);
        assert_body_has(t, w.token);
        assert_body_has(t, "\"policies\":[\"root\"],\"path\":\"auth/token/root\",\"meta\":null,"
                           "\"display_name\":\"root\",\"num_uses\":0,\"orphan\":true");
        assert_body_has(t, "\"creation_time\":1700000000,\"creation_ttl\":0,\"expire_time\":null,"
                           "\"ttl\":0,\"explicit_max_ttl\":0,\"entity_id\":\"\","
                           "\"type\":\"service\"}");
    }
}

/* Store a token and speak for it from now on. */
static void save_token(const char *bearer, const char *policy, int64_t expire_s)
{
    const char *const policies[] = {policy};
    struct auth_token token = auth_token_root(1600000000000);
    struct arena arena = {0};
    struct state_txn txn;
    struct state_commit commit = {.done = saved};
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    struct auth_scope scope = {
        .txn = &txn, .cipher = state_cipher(w.state), .ns = "root", .now_ms = 1600000000000};
    const char *bearer_given = bearer;
    token.policies.items = policies;
    token.expire_ms = expire_s * 1000;
    assert_status(auth_token_create(&scope, &w.env.env, &token, &bearer_given), ST_OK);
    assert_status(state_commit(&txn, &commit), ST_OK);
    state_end(&txn);
    clock_run(&w.env);
    state_commit_done(&commit);
    arena_done(&arena);
    (void)snprintf(w.token, sizeof w.token, "%s", bearer);
}

static void a_token_expires_by_cluster_time(void **ctx)
{
    (void)ctx;
    save_token("alive", "root", 1700000001);
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/auth/token/lookup-self", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"expire_time\":\"2023-11-14T22:13:21Z\",");
    save_token("expired", "root", 1700000000);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/auth/token/lookup-self", NULL)->http, 403);
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/kv/a", "{\"a\":1}")->http, 403);
}

static void a_token_without_the_root_policy_may_do_nothing(void **ctx)
{
    (void)ctx;
    save_token("weak", "admin", 0);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/kv/a", NULL)->http, 403);
    assert_int_equal(world_request(&w, METHOD_LIST, "/v1/kv/a", NULL)->http, 403);
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/kv/a", "{\"a\":1}")->http, 403);
    assert_int_equal(world_request(&w, METHOD_DELETE, "/v1/kv/a", NULL)->http, 403);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/sys/metrics", NULL)->http, 403);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/none", NULL)->http, 403);
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/sys/internal/ui/mounts/kv/a", NULL);
    assert_int_equal(t->http, 403);
    assert_body_has(t, "preflight capability check returned 403");
    t = world_request(&w, METHOD_GET, "/v1/sys/internal/ui/mounts", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"secret\":{},");
}

/* The rest */

static void a_client_learns_the_version_of_a_mount(void **ctx)
{
    (void)ctx;
    struct test_request *t =
        world_request(&w, METHOD_GET, "/v1/sys/internal/ui/mounts/kv/some/path", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"data\":{\"path\":\"kv/\",\"type\":\"kv\",");
    assert_body_has(t, "\"options\":{\"version\":\"1\"}");
    t = world_request(&w, METHOD_GET, "/v1/sys/internal/ui/mounts/kv", NULL);
    assert_body_has(t, "\"path\":\"kv/\"");
    t = world_request(&w, METHOD_GET, "/v1/sys/internal/ui/mounts/none", NULL);
    assert_int_equal(t->http, 403);
    assert_body_has(t, "access to path \\\"none/\\\"");
    t = world_request(&w, METHOD_GET, "/v1/sys/internal/ui/mounts", NULL);
    assert_body_has(t, "\"data\":{\"secret\":{\"cubbyhole/\":{\"type\":\"cubbyhole\",");
    assert_body_has(t, "\"kv/\":{\"type\":\"kv\",");
    assert_body_has(t, "\"auth\":{\"token/\":{\"type\":\"token\"");
}

static void collect_one(struct metric_source *source, struct metric_out *out)
{
    (void)source;
    metric_one(out, "holdfast_test", METRIC_GAUGE, "A test.", 5);
    metric_start(out, "holdfast_many_total", METRIC_COUNTER, "Many.");
    metric_value(out, "a=\"x\",b=\"y,z\"", 7);
    metric_value(out, NULL, 8);
}

static void metrics_need_a_token_unless_the_listener_is_open(void **ctx)
{
    (void)ctx;
    struct metric_source source = {.collect = collect_one};
    metrics_add(&w.metrics, &source);
    struct test_request *t =
        world_request(&w, METHOD_GET, "/v1/sys/metrics?format=prometheus", NULL);
    assert_int_equal(t->http, 200);
    assert_true(strncmp(t->type, "text/plain", 10) == 0);
    assert_body(t, "# HELP holdfast_test A test.\n# TYPE holdfast_test gauge\nholdfast_test 5\n"
                   "# HELP holdfast_many_total Many.\n# TYPE holdfast_many_total counter\n"
                   "holdfast_many_total{a=\"x\",b=\"y,z\"} 7\nholdfast_many_total 8\n");
    t = world_request(&w, METHOD_GET, "/v1/sys/metrics", NULL);
    assert_int_equal(t->http, 200);
    assert_string_equal(t->type, "application/json");
    assert_body_has(t, "{\"Timestamp\":\"20");
    assert_body_has(t, " +0000 UTC\",\"Gauges\":[{\"Name\":\"holdfast_test\",\"Value\":5,"
                       "\"Labels\":{}}],\"Points\":[],\"Counters\":["
                       "{\"Name\":\"holdfast_many_total\",\"Count\":7,\"Sum\":7,"
                       "\"Labels\":{\"a\":\"x\",\"b\":\"y,z\"}},"
                       "{\"Name\":\"holdfast_many_total\",\"Count\":8,\"Sum\":8,"
                       "\"Labels\":{}}],\"Samples\":[]}");
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/sys/metrics?format=x", NULL)->http, 400);
    t = world_request(&w, METHOD_GET, "/v1/metrics?format=openmetrics", NULL);
    assert_int_equal(t->http, 200);
    assert_true(strncmp(t->type, "application/openmetrics-text;", 28) == 0);
    t = world_request(&w, METHOD_GET, "/v1/metrics?help=1", NULL);
    assert_body_has(t, "{\"help\":\"# metrics\\n");
    for (int open = 0; open < 2; open++) {
        struct test_request bare;
        test_request_init(&bare, METHOD_GET, "/v1/sys/metrics", NULL);
        bare.request.open_metrics = open != 0;
        world_handle(&w, &bare);
        assert_int_equal(bare.http, open != 0 ? 200 : 403);
        test_request_done(&bare);
    }
}

static void a_node_shows_its_version_and_root(void **ctx)
{
    (void)ctx;
    w.node.version = 12;
    w.node.root_version = 11;
    w.node.root[0] = 0xab;
    w.node.root[31] = 0x0f;
    world_standby(&w, false);
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/sys/internal/state", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"version\":12,\"root_version\":11,\"merkle_root\":\"ab000000");
    assert_body_has(t, "0000000f\",");
    assert_int_equal(w.forwards, 0);
}

#define FRESH(f) cmocka_unit_test_setup_teardown(f, open_fresh, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(health_says_what_a_node_can_do),
        FRESH(health_refuses_codes_that_are_none),
        FRESH(health_names_the_cluster_only_when_unsealed),
        FRESH(leader_and_seal_status_need_no_token),
        FRESH(init_gives_a_token_and_mounts_kv),
        FRESH(the_first_key_is_as_old_as_the_cluster_and_its_uses_are_counted),
        FRESH(a_token_that_expires_waits_for_the_time_of_the_cluster),
        FRESH(init_works_once),
        FRESH(init_may_make_one_recovery_key),
        FRESH(init_makes_five_recovery_keys_unless_told_otherwise),
        FRESH(init_makes_no_recovery_keys_where_none_are_wanted),
        FRESH(init_refuses_what_it_cannot_do),
        FRESH(random_bytes_and_digests_are_bounded),
        FRESH(a_password_policy_is_kept_as_plain_text),
        FRESH(an_encoded_token_needs_its_own_pad),
        FRESH(init_may_leave_the_default_mount_out),
        FRESH(init_runs_on_the_leader),
        TEST(no_stored_byte_gives_the_token_away),
        TEST(a_token_looks_itself_up),
        TEST(a_token_expires_by_cluster_time),
        TEST(a_token_without_the_root_policy_may_do_nothing),
        TEST(a_client_learns_the_version_of_a_mount),
        TEST(metrics_need_a_token_unless_the_listener_is_open),
        TEST(a_node_shows_its_version_and_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
