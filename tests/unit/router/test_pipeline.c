#include "router/world.h"

/* An API whose handlers do what each test needs. */

static unsigned runs;

static enum status run_count(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    runs++;
    text_open_object(&w);
    text_member_int(&w, "runs", runs);
    text_close(&w);
    return req_reply_end(req);
}

/* Adds one to a counter. */
static enum status run_add(struct req *req)
{
    struct state_value stored;
    int64_t n = 0;
    runs++;
    enum status st = state_get(req->txn, BYTES("s/count"), &stored);
    if (st == ST_OK)
        st = text_int_parse(stored.value, &n);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    char *next = arena_format(req->arena, "%lld", (long long)n + 1);
    if (next == NULL)
        return ST_NOMEM;
    TRY(state_put(req->txn, BYTES("s/count"), bytes_str(next)));
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_str(&w, "count", next);
    text_close(&w);
    return req_reply_end(req);
}

static enum status run_stage_and_fail(struct req *req)
{
    TRY(state_put(req->txn, BYTES("s/count"), BYTES("1000")));
    return req_fail(req, ST_INVALID, "refused after staging");
}

static enum status run_warn(struct req *req)
{
    req_warn(req, "mind the %s", "gap");
    return ST_OK;
}

struct named {
    const char *name;
    int64_t ttl;
};
static const struct field named_fields[] = {
    FIELD(struct named, name, STRING, .required = true),
    FIELD(struct named, ttl, DURATION, .preset = "30s"),
};
static const struct schema named_schema = SCHEMA(struct named, named_fields);

static enum status run_named(struct req *req)
{
    return req_reply(req, req_body(req));
}

static enum status run_silent(struct req *req)
{
    return req_body(req) != NULL ? ST_OK : ST_INTERNAL;
}

static unsigned outside_runs;
static enum status outside_result;

static enum status outside(struct req *req)
{
    assert_null(req->txn);
    outside_runs++;
    return outside_result == ST_OK ? ST_OK : req_fail(req, outside_result, "outside failed");
}

static const struct route test_routes[] = {
    {.method = METHOD_POST, .path = "out", .handler = run_add, .outside = outside},
    {.method = METHOD_GET, .path = "out", .handler = run_count, .outside = outside},
    {.method = METHOD_POST, .path = "out-fail", .handler = run_stage_and_fail, .outside = outside},
    {.method = METHOD_GET, .path = "count", .handler = run_count},
    {.method = METHOD_POST, .path = "add", .handler = run_add},
    {.method = METHOD_GET, .path = "add", .handler = run_add},
    {.method = METHOD_POST, .path = "fail", .handler = run_stage_and_fail},
    {.method = METHOD_POST, .path = "warn", .handler = run_warn},
    {.method = METHOD_POST,
     .path = "named/:name",
     .handler = run_named,
     .body = &named_schema,
     .reply = &named_schema},
    {.method = METHOD_POST, .path = "silent/:name", .handler = run_silent, .body = &named_schema},
    {.method = METHOD_POST, .path = "reads", .handler = run_count, .flags = ROUTE_READS},
    {.method = METHOD_GET, .path = "active", .handler = run_count, .flags = ROUTE_ACTIVE},
    {.method = METHOD_GET, .path = "sudo", .handler = run_count, .flags = ROUTE_TOP_LEVEL},
    {.method = METHOD_PATCH, .path = "patch", .handler = run_count},
};
static const struct route_api test_api = {
    .prefix = "test/", .type = "test", .routes = test_routes, .n = ARRAY_LEN(test_routes)};
static const struct route_api *const apis[] = {&sys_api, &token_api, &test_api, &kv_api};

static struct world w;

static int open_world(void **ctx)
{
    (void)ctx;
    runs = 0;
    outside_runs = 0;
    outside_result = ST_OK;
    world_open(&w, apis, ARRAY_LEN(apis));
    world_init(&w);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    world_close(&w);
    return 0;
}

static void assert_count(const char *wanted)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct state_value stored;
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    enum status st = state_get(&txn, BYTES("s/count"), &stored);
    state_end(&txn);
    if (wanted == NULL)
        assert_status(st, ST_NOT_FOUND);
    else
        assert_bytes(stored.value, bytes_str(wanted));
    arena_done(&arena);
}

/* Answers */

static void an_answer_has_the_whole_envelope(void **ctx)
{
    (void)ctx;
    struct test_call *t = world_call(&w, METHOD_GET, "/v1/test/count", NULL);
    assert_int_equal(t->http, 200);
    assert_string_equal(t->type, "application/json");
    const char *body = (const char *)t->body.data;
    assert_true(strncmp(body, "{\"request_id\":\"", 15) == 0 && strlen(body) > 60);
    assert_string_equal(body + 15 + 36,
                        "\",\"lease_id\":\"\",\"renewable\":false,\"lease_duration\":0,"
                        "\"data\":{\"runs\":1},\"wrap_info\":null,\"warnings\":null,\"auth\":null,"
                        "\"mount_type\":\"test\"}");
}

static void some_data_stands_at_the_top_level_too(void **ctx)
{
    (void)ctx;
    struct test_call *t = world_call(&w, METHOD_GET, "/v1/test/sudo", NULL);
    assert_body_has(t, ",\"data\":{\"runs\":1},");
    assert_body_has(t, "\"mount_type\":\"test\",\"runs\":1}");
}

static void a_handler_without_a_reply_answers_204(void **ctx)
{
    (void)ctx;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/silent/a", "{\"ttl\":1}");
    assert_int_equal(t->http, 204);
    assert_body(t, "");
}

static void a_warning_of_the_handler_needs_a_body(void **ctx)
{
    (void)ctx;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/warn", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"data\":null");
    assert_body_has(t, "\"warnings\":[\"mind the gap\"]");
}

static void unknown_fields_are_mentioned_only_beside_data(void **ctx)
{
    (void)ctx;
    struct test_call *t =
        world_call(&w, METHOD_POST, "/v1/test/named/a", "{\"colour\":1,\"name\":\"b\"}");
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"data\":{\"name\":\"a\",\"ttl\":30}");
    assert_body_has(t, "unrecognized parameter colour");
    assert_body_has(t, "replaced the value of name");
    t = world_call(&w, METHOD_POST, "/v1/test/silent/a", "{\"colour\":1}");
    assert_int_equal(t->http, 204);
}

static void fields_are_decoded_or_named(void **ctx)
{
    (void)ctx;
    struct test_call *t = world_call(&w, METHOD_POST, "/v1/test/named/a", "{\"ttl\":\"1h\"}");
    assert_body_has(t, "\"ttl\":3600");
    t = world_call(&w, METHOD_POST, "/v1/test/named/a", "{\"ttl\":\"soon\"}");
    assert_int_equal(t->http, 400);
    assert_body_has(t, "Field validation failed: ttl: ");
}

/* Who may */

static void without_a_good_token_everything_is_403(void **ctx)
{
    (void)ctx;
    static const char *const tokens[] = {"", "hvs.wrong", "x"};
    static const char *const paths[] = {"/v1/test/count", "/v1/kv/x", "/v1/none/such",
                                        "/v1/test/none", "/v1/sys/none"};
    char root[64];
    memcpy(root, w.token, sizeof root);
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++)
        for (size_t j = 0; j < ARRAY_LEN(paths); j++) {
            (void)snprintf(w.token, sizeof w.token, "%s", tokens[i]);
            struct test_call *t = world_call(&w, METHOD_GET, paths[j], NULL);
            assert_int_equal(t->http, 403);
            assert_body(t, "{\"errors\":[\"1 error occurred:\\n\\t* permission denied\\n\\n\"]}");
        }
    assert_int_equal(runs, 0);
    memcpy(w.token, root, sizeof root);
}

static void every_spelling_of_the_token_is_taken(void **ctx)
{
    (void)ctx;
    char bearer[100];
    (void)snprintf(bearer, sizeof bearer, "Bearer %s", w.token);
    const char *headers[][2] = {
        {"x-secrets-token", w.token}, {"x-vault-token", w.token}, {"authorization", bearer}};
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        struct test_call t;
        test_call_init(&t, METHOD_GET, "/v1/test/count", NULL);
        test_call_header(&t, headers[i][0], headers[i][1]);
        world_handle(&w, &t);
        assert_int_equal(t.http, 200);
        test_call_done(&t);
    }
    struct test_call t;
    test_call_init(&t, METHOD_GET, "/v1/test/count", NULL);
    (void)snprintf(bearer, sizeof bearer, "bearer %s", w.token);
    test_call_header(&t, "authorization", bearer);
    world_handle(&w, &t);
    assert_int_equal(t.http, 403);
    test_call_done(&t);
}

/* Where to */

static void what_is_not_there_says_so_in_three_ways(void **ctx)
{
    (void)ctx;
    struct test_call *t = world_call(&w, METHOD_GET, "/v1/none/such", NULL);
    assert_int_equal(t->http, 404);
    assert_body(
        t, "{\"errors\":[\"no handler for route \\\"none/such\\\". route entry not found.\"]}");
    t = world_call(&w, METHOD_GET, "/v1/test/none", NULL);
    assert_int_equal(t->http, 404);
    assert_body_has(t, "unsupported path");
    t = world_call(&w, METHOD_GET, "/elsewhere", NULL);
    assert_int_equal(t->http, 404);
    assert_body(t, "{\"errors\":[]}");
}

static void another_method_is_405_with_the_ones_allowed(void **ctx)
{
    (void)ctx;
    struct test_call *t = world_call(&w, METHOD_DELETE, "/v1/test/add", NULL);
    assert_int_equal(t->http, 405);
    assert_string_equal(t->allow, "GET, POST, PUT");
    assert_body_has(t, "unsupported operation");
    t = world_call(&w, METHOD_HEAD, "/v1/test/count", NULL);
    assert_int_equal(t->http, 405);
    t = world_call(&w, METHOD_PATCH, "/v1/kv/a", "{}");
    assert_int_equal(t->http, 405);
}

static void bad_targets_are_refused(void **ctx)
{
    (void)ctx;
    static const struct {
        enum http_method method;
        const char *target, *part;
    } cases[] = {
        {METHOD_PUT, "/v1/kv/a/", "cannot write to a path ending in '/'"},
        {METHOD_GET, "/v1/kv/../sys", "path"},
        {METHOD_GET, "/v1/kv/%00", "path"},
        {METHOD_GET, "/v1/kv/a?list=perhaps", "list"},
        {METHOD_GET, "/v1/kv/a?x=%zz", "parameter"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct test_call *t = world_call(&w, cases[i].method, cases[i].target, "{\"a\":1}");
        assert_int_equal(t->http, 400);
        assert_body_has(t, cases[i].part);
    }
}

static void bad_bodies_are_refused(void **ctx)
{
    (void)ctx;
    static const char *const bodies[] = {"[1]", "\"a\"", "{\"a\":", "nonsense",
                                         "{\"a\":1,\"a\":2}"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct test_call *t = world_call(&w, METHOD_PUT, "/v1/kv/a", bodies[i]);
        assert_int_equal(t->http, 400);
        assert_body_has(t, "failed to parse JSON input");
    }
}

static void a_form_is_a_form_unless_it_looks_like_json(void **ctx)
{
    (void)ctx;
    static const char *const bodies[][2] = {{"name=x&ttl=2m", "\"ttl\":120"},
                                            {" {\"ttl\":\"3m\"}", "\"ttl\":180"}};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct test_call t;
        test_call_init(&t, METHOD_POST, "/v1/test/named/n", bodies[i][0]);
        test_call_header(&t, "x-vault-token", w.token);
        test_call_header(&t, "content-type", "application/x-www-form-urlencoded; charset=utf-8");
        world_handle(&w, &t);
        assert_body_has(&t, bodies[i][1]);
        test_call_done(&t);
    }
}

static void patch_takes_one_content_type(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *type;
        int http;
    } cases[] = {{"application/merge-patch+json", 200},
                 {"application/json", 415},
                 {"nonsense", 400},
                 {"", 400}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct test_call t;
        test_call_init(&t, METHOD_PATCH, "/v1/test/patch", "{}");
        test_call_header(&t, "x-vault-token", w.token);
        test_call_header(&t, "content-type", cases[i].type);
        world_handle(&w, &t);
        assert_int_equal(t.http, cases[i].http);
        test_call_done(&t);
    }
}

static void a_namespace_other_than_root_is_not_found(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *name;
        int http;
    } cases[] = {{"", 200}, {"root", 200}, {"/root/", 200}, {"team", 404}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct test_call t;
        test_call_init(&t, METHOD_GET, "/v1/test/count", NULL);
        test_call_header(&t, "x-vault-token", w.token);
        test_call_header(&t, "x-vault-namespace", cases[i].name);
        world_handle(&w, &t);
        assert_int_equal(t.http, cases[i].http);
        test_call_done(&t);
    }
}

static void a_wrapped_answer_is_refused_rather_than_given_bare(void **ctx)
{
    (void)ctx;
    struct test_call t;
    test_call_init(&t, METHOD_GET, "/v1/test/count", NULL);
    test_call_header(&t, "x-vault-token", w.token);
    test_call_header(&t, "x-vault-wrap-ttl", "60");
    world_handle(&w, &t);
    assert_int_equal(t.http, 400);
    assert_int_equal(runs, 0);
    test_call_done(&t);
}

static void a_long_body_is_read_on_the_pool(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf body = {0};
    unsigned before = w.env.works_run;
    buf_add_str(&body, "{\"ttl\":7,\"long\":\"");
    uint8_t *room = buf_extend(&body, 1024 * 1024);
    memset(room, 'x', 1024 * 1024);
    buf_add_str(&body, "\"}");
    buf_add_u8(&body, 0);
    struct test_call *t = world_call(&w, METHOD_POST, "/v1/test/named/a", (const char *)body.data);
    assert_body_has(t, "\"ttl\":7");
    assert_true(w.env.works_run > before);
}

static void more_calls_than_the_limit_are_refused(void **ctx)
{
    (void)ctx;
    struct test_call calls[6];
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        test_call_init(&calls[i], METHOD_GET, "/v1/test/count", NULL);
        test_call_header(&calls[i], "x-vault-token", w.token);
        router_handle(w.worker, &calls[i].call);
    }
    clock_run(&w.env);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        assert_int_equal(calls[i].answers, 1);
        assert_int_equal(calls[i].http, i < 4 ? 200 : 503);
        test_call_done(&calls[i]);
    }
}

/* Sealed */

static void a_sealed_node_answers_only_about_itself(void **ctx)
{
    (void)ctx;
    w.node.sealed = true;
    struct test_call *t = world_call(&w, METHOD_GET, "/v1/test/count", NULL);
    assert_int_equal(t->http, 503);
    assert_body(t, "{\"errors\":[\"Vault is sealed\"]}");
    t = world_call(&w, METHOD_GET, "/v1/sys/health", NULL);
    assert_int_equal(t->http, 503);
    assert_body_has(t, "\"sealed\":true");
    t = world_call(&w, METHOD_GET, "/v1/sys/metrics", NULL);
    assert_int_equal(t->http, 503);
}

/* Writes */

static void a_write_is_answered_after_its_commit(void **ctx)
{
    (void)ctx;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"count\":\"1\"");
    assert_int_equal(w.proposals, 1);
    assert_count("1");
}

static void what_a_failed_handler_staged_is_dropped(void **ctx)
{
    (void)ctx;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/fail", NULL);
    assert_int_equal(t->http, 400);
    assert_body(t, "{\"errors\":[\"refused after staging\"]}");
    assert_int_equal(w.proposals, 0);
    assert_int_equal(w.reads, 1); /* the answer is a read too */
    assert_count(NULL);
}

static void someone_else_counts(struct world *world)
{
    struct rlog_txn_builder b = {0};
    CLEANUP(buf_done) struct buf encoded = {0};
    CLEANUP(buf_done) struct buf entry = {0};
    uint8_t sealed[3 + BARRIER_OVERHEAD];
    assert_status(barrier_encrypt(state_seat(world->state), BYTES("s/count"), BYTES("100"), sealed),
                  ST_OK);
    rlog_txn_put(&b, BYTES("s/count"), bytes_of(sealed, sizeof sealed));
    assert_status(rlog_txn_encode(&b, &encoded), ST_OK);
    struct bytes one = buf_bytes(&encoded);
    assert_status(rlog_entry_encode(1000, &one, 1, &entry), ST_OK);
    rlog_machine_apply(&world->m, ++world->index, buf_bytes(&entry), NULL, NULL);
    rlog_txn_done(&b);
}

static void a_conflict_runs_the_handler_again(void **ctx)
{
    (void)ctx;
    w.before_propose = someone_else_counts;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"count\":\"101\"");
    assert_int_equal(runs, 2);
    assert_count("101");
}

static void a_lost_commit_says_that_its_fate_is_unknown(void **ctx)
{
    (void)ctx;
    w.propose_status[0] = ST_UNKNOWN_OUTCOME;
    w.n_propose = 1;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 500);
    assert_body_has(t, "outcome unknown");
}

static void a_refused_commit_passes_its_status_on(void **ctx)
{
    (void)ctx;
    w.propose_status[0] = ST_NO_SPACE;
    w.n_propose = 1;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 507);
    assert_count(NULL);
}

static void step_down(struct world *world)
{
    world_standby(world, true);
}

static void a_leader_that_steps_down_forwards_what_it_did_not_propose(void **ctx)
{
    (void)ctx;
    w.propose_status[0] = ST_NOT_LEADER;
    w.n_propose = 1;
    w.before_propose = step_down;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 299);
    assert_int_equal(w.forwards, 1);
    assert_count(NULL);
}

/* Standbys */

static void a_standby_forwards_writes_with_an_id(void **ctx)
{
    (void)ctx;
    static const uint8_t none[16];
    world_standby(&w, true);
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 299);
    assert_body(t, "{\"from\":\"the active node\"}");
    assert_int_equal(w.forwards, 1);
    assert_memory_not_equal(w.forward_ids[0].bytes, none, sizeof none);
    assert_int_equal(runs, 0);
}

static void a_performance_standby_answers_reads_itself(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/test/count", NULL)->http, 200);
    assert_int_equal(world_call(&w, METHOD_POST, "/v1/test/reads", NULL)->http, 200);
    assert_int_equal(w.forwards, 0);
    assert_int_equal(w.reads, 2);
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/test/active", NULL)->http, 299);
    assert_int_equal(w.forwards, 1);
}

static void a_plain_standby_forwards_reads_without_an_id(void **ctx)
{
    (void)ctx;
    static const uint8_t none[16];
    world_standby(&w, false);
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/test/count", NULL)->http, 299);
    assert_memory_equal(w.forward_ids[0].bytes, none, sizeof none);
}

static void a_read_that_stages_something_is_forwarded(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    struct test_call *t = world_call(&w, METHOD_GET, "/v1/test/add", NULL);
    assert_int_equal(t->http, 299);
    assert_int_equal(runs, 1);
    assert_int_equal(w.proposals, 0);
    assert_count(NULL);
}

static void a_forward_of_unknown_fate_is_tried_again_with_its_id(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.forward_status[0] = ST_UNKNOWN_OUTCOME;
    w.forward_status[1] = ST_NOT_LEADER;
    w.forward_status[2] = ST_OK;
    w.n_forward = 3;
    assert_int_equal(world_call(&w, METHOD_PUT, "/v1/test/add", NULL)->http, 299);
    assert_int_equal(w.forwards, 3);
    assert_memory_equal(&w.forward_ids[0], &w.forward_ids[1], sizeof w.forward_ids[0]);
    assert_memory_equal(&w.forward_ids[0], &w.forward_ids[2], sizeof w.forward_ids[0]);
}

static void a_forward_that_never_succeeds_tells_what_is_known(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.forward_status[0] = ST_NOT_LEADER;
    w.n_forward = 1;
    assert_int_equal(world_call(&w, METHOD_PUT, "/v1/test/add", NULL)->http, 503);
    assert_true(w.forwards > 10);
    w.forward_status[0] = ST_IO;
    w.forwards = 0;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 500);
    assert_body_has(t, "outcome unknown");
}

static void a_long_body_of_unknown_fate_is_not_tried_again(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf body = {0};
    world_standby(&w, true);
    uint8_t *room = buf_extend(&body, 1024 * 1024 + 2);
    memset(room, ' ', 1024 * 1024 + 1);
    room[1024 * 1024 + 1] = 0;
    w.forward_status[0] = ST_IO;
    w.n_forward = 1;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/add", (const char *)body.data);
    assert_int_equal(t->http, 500);
    assert_int_equal(w.forwards, 1);
}

static void without_an_active_node_a_write_waits_then_fails(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.node.has_leader = false;
    uint64_t begun = w.env.now_ms;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 503);
    assert_body_has(t, "no active node");
    assert_int_equal(w.forwards, 0);
    assert_true(w.env.now_ms >= begun + 9000);
}

static void a_node_that_became_active_meanwhile_runs_the_call(void **ctx)
{
    (void)ctx;
    struct test_call t;
    world_standby(&w, true);
    w.node.has_leader = false;
    test_call_init(&t, METHOD_PUT, "/v1/test/add", NULL);
    test_call_header(&t, "x-vault-token", w.token);
    router_handle(w.worker, &t.call);
    clock_run(&w.env);
    assert_int_equal(t.answers, 0);
    w.node.active = w.node.has_leader = true;
    for (int i = 0; i < 100; i++) {
        w.env.now_ms++;
        clock_run(&w.env);
    }
    assert_int_equal(t.answers, 1);
    assert_int_equal(t.http, 200);
    assert_count("1");
    test_call_done(&t);
}

static void a_client_may_ask_to_be_redirected(void **ctx)
{
    (void)ctx;
    struct test_call t;
    world_standby(&w, false);
    test_call_init(&t, METHOD_GET, "/v1/test/count?a=b", NULL);
    test_call_header(&t, "x-vault-token", w.token);
    test_call_header(&t, "x-vault-no-request-forwarding", "true");
    world_handle(&w, &t);
    assert_int_equal(t.http, 307);
    assert_string_equal(t.location, "https://node2:8200/v1/test/count?a=b");
    assert_int_equal(w.forwards, 0);
    test_call_done(&t);
}

/* Forwarded calls */

static void handle_forwarded(struct test_call *t, uint8_t id)
{
    test_call_init(t, METHOD_PUT, "/v1/test/add", NULL);
    test_call_header(t, "x-vault-token", w.token);
    t->call.forwarded = true;
    t->call.id.bytes[0] = id;
    t->call.id.issued = w.m.version;
    world_handle(&w, t);
}

static void a_repeated_id_is_answered_from_its_first_try(void **ctx)
{
    (void)ctx;
    struct test_call first, second, other;
    handle_forwarded(&first, 1);
    handle_forwarded(&second, 1);
    handle_forwarded(&other, 2);
    assert_int_equal(first.http, 200);
    assert_body_has(&first, "\"count\":\"1\"");
    assert_int_equal(second.http, 200);
    assert_body(&second, (const char *)first.body.data);
    assert_body_has(&other, "\"count\":\"2\"");
    assert_count("2");
    test_call_done(&first);
    test_call_done(&second);
    test_call_done(&other);
}

static void a_node_that_is_not_active_hands_the_call_back(void **ctx)
{
    (void)ctx;
    struct test_call t;
    world_standby(&w, true);
    handle_forwarded(&t, 1);
    assert_status(t.retry, ST_NOT_LEADER);
    assert_int_equal(w.forwards, 0);
    test_call_done(&t);
}

static void an_active_node_that_lost_the_commit_hands_it_back(void **ctx)
{
    (void)ctx;
    struct test_call t;
    w.propose_status[0] = ST_UNKNOWN_OUTCOME;
    w.propose_status[1] = ST_NOT_LEADER;
    w.n_propose = 2;
    handle_forwarded(&t, 1);
    assert_status(t.retry, ST_UNKNOWN_OUTCOME);
    test_call_done(&t);
    handle_forwarded(&t, 1);
    assert_status(t.retry, ST_NOT_LEADER);
    test_call_done(&t);
}

/* Steps outside of the transaction */

static void an_outside_step_runs_once_after_the_commit(void **ctx)
{
    (void)ctx;
    w.before_propose = someone_else_counts;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/out", NULL);
    assert_int_equal(t->http, 200);
    assert_int_equal(runs, 2);
    assert_int_equal(outside_runs, 1);
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/test/out", NULL)->http, 200);
    assert_int_equal(outside_runs, 2);
}

static void an_outside_step_does_not_follow_a_failure(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_call(&w, METHOD_PUT, "/v1/test/out-fail", NULL)->http, 400);
    w.propose_status[0] = ST_NO_SPACE;
    w.n_propose = 1;
    assert_int_equal(world_call(&w, METHOD_PUT, "/v1/test/out", NULL)->http, 507);
    assert_int_equal(outside_runs, 0);
}

static void a_failed_outside_step_is_the_answer(void **ctx)
{
    (void)ctx;
    outside_result = ST_BAD_GATEWAY;
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/out", NULL);
    assert_int_equal(t->http, 502);
    assert_body(t, "{\"errors\":[\"outside failed\"]}");
    assert_int_equal(outside_runs, 1);
}

static void an_outside_step_of_unknown_fate_is_not_tried_again(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.forward_status[0] = ST_TIMEOUT;
    w.n_forward = 1;
    assert_int_equal(world_call(&w, METHOD_PUT, "/v1/test/out", NULL)->http, 500);
    assert_int_equal(w.forwards, 1);
    w.forward_status[0] = ST_NOT_LEADER; /* it was not done: another try is fine */
    w.forward_status[1] = ST_OK;
    w.n_forward = 2;
    w.forwards = 0;
    assert_int_equal(world_call(&w, METHOD_PUT, "/v1/test/out", NULL)->http, 299);
}

static void a_repeated_id_does_not_go_outside_again(void **ctx)
{
    (void)ctx;
    for (int i = 0; i < 2; i++) {
        struct test_call t;
        test_call_init(&t, METHOD_PUT, "/v1/test/out", NULL);
        test_call_header(&t, "x-vault-token", w.token);
        t.call.forwarded = true;
        t.call.id.bytes[0] = 7;
        t.call.id.issued = w.m.version;
        world_handle(&w, &t);
        assert_int_equal(t.http, 200);
        test_call_done(&t);
    }
    assert_int_equal(outside_runs, 1);
    assert_count("1");
}

/* Reads that cannot be confirmed */

static void an_unconfirmed_read_is_not_answered(void **ctx)
{
    (void)ctx;
    w.read_status = ST_TIMEOUT;
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/test/count", NULL)->http, 503);
    assert_int_equal(runs, 0);
    w.read_status = ST_NO_LEADER;
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/test/count", NULL)->http, 503);
    assert_int_equal(world_call(&w, METHOD_PUT, "/v1/test/fail", NULL)->http, 503);
    /* This node's own facts need no one else. */
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/sys/internal/state", NULL)->http, 200);
}

/* Audit */

struct test_device {
    struct audit_device device;
    enum status results[4];
    unsigned lines;
    char text[4][1000];
    struct audit_write *pending;
    struct env_task task;
};

static void device_done(struct env_task *task)
{
    struct test_device *d = CONTAINER_OF(task, struct test_device, task);
    d->pending->done(d->pending, d->results[d->lines - 1]);
}

static void device_write(struct audit_device *device, struct audit_write *write)
{
    struct test_device *d = CONTAINER_OF(device, struct test_device, device);
    assert_true(d->lines < 4);
    (void)snprintf(d->text[d->lines++], sizeof d->text[0], "%.*s", (int)write->line.len,
                   (const char *)write->line.data);
    d->pending = write;
    d->task.run = device_done;
    env_post(&w.env.env, &d->task);
}

static struct test_device device;

static void enable_device(enum status request, enum status response)
{
    device = (struct test_device){.device = {.name = "test", .write = device_write},
                                  .results = {request, response}};
    assert_status(audit_enable(router_worker_audit(w.worker), &device.device), ST_OK);
}

static void a_call_is_recorded_before_and_after(void **ctx)
{
    (void)ctx;
    enable_device(ST_OK, ST_OK);
    w.before_propose = someone_else_counts; /* a rerun is not recorded again */
    assert_int_equal(world_call(&w, METHOD_PUT, "/v1/test/add", NULL)->http, 200);
    assert_int_equal(runs, 2);
    assert_int_equal(device.lines, 2);
    assert_non_null(strstr(device.text[0], "\"type\":\"request\""));
    assert_non_null(strstr(device.text[0], "\"path\":\"test/add\""));
    assert_non_null(strstr(device.text[0], "\"remote_address\":\"192.0.2.1:4711\""));
    assert_non_null(strstr(device.text[0], "\"client_token\":\"hmac-sha256:"));
    assert_null(strstr(device.text[0], w.token));
    assert_non_null(strstr(device.text[1], "\"type\":\"response\""));
    assert_non_null(strstr(device.text[1], "\"status\":200"));
}

static void a_denied_call_is_recorded_with_its_error(void **ctx)
{
    (void)ctx;
    char root[64];
    memcpy(root, w.token, sizeof root);
    (void)snprintf(w.token, sizeof w.token, "hvs.bad");
    enable_device(ST_OK, ST_OK);
    assert_int_equal(world_call(&w, METHOD_GET, "/v1/test/count", NULL)->http, 403);
    assert_int_equal(device.lines, 2);
    assert_non_null(strstr(device.text[0], "permission denied"));
    memcpy(w.token, root, sizeof root);
}

static void nothing_takes_effect_unrecorded(void **ctx)
{
    (void)ctx;
    enable_device(ST_IO, ST_OK);
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 500);
    assert_int_equal(runs, 0);
    assert_int_equal(w.proposals, 0);
    assert_count(NULL);
}

static void an_unrecorded_change_is_admitted(void **ctx)
{
    (void)ctx;
    enable_device(ST_OK, ST_IO);
    struct test_call *t = world_call(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 500);
    assert_body_has(t, "the change was made");
    assert_count("1");
}

/* Memory */

static void every_failed_allocation_is_answered(void **ctx)
{
    (void)ctx;
    static const struct {
        enum http_method method;
        const char *target, *body;
    } cases[] = {
        {METHOD_PUT, "/v1/kv/mem", "{\"a\":[1,{\"b\":2}]}"},
        {METHOD_GET, "/v1/kv/mem", NULL},
        {METHOD_LIST, "/v1/kv", NULL},
        {METHOD_POST, "/v1/test/named/x", "{\"y\":1}"},
        {METHOD_GET, "/v1/sys/internal/ui/mounts", NULL},
    };
    assert_int_equal(world_call(&w, METHOD_PUT, "/v1/kv/mem", "{\"a\":1}")->http, 204);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (uint64_t n = 1;; n++) {
            struct test_call t;
            test_call_init(&t, cases[i].method, cases[i].target, cases[i].body);
            test_call_header(&t, "x-vault-token", w.token);
            (void)mem_fail_nth(n);
            router_handle(w.worker, &t.call);
            bool used = mem_fail_nth(0);
            clock_run(&w.env);
            assert_int_equal(t.answers, 1);
            if (!used)
                assert_true(t.http < 300);
            else if (t.http >= 300)
                assert_int_equal(t.http, 500);
            test_call_done(&t);
            if (!used)
                break;
        }
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_answer_has_the_whole_envelope),
        TEST(some_data_stands_at_the_top_level_too),
        TEST(a_handler_without_a_reply_answers_204),
        TEST(a_warning_of_the_handler_needs_a_body),
        TEST(unknown_fields_are_mentioned_only_beside_data),
        TEST(fields_are_decoded_or_named),
        TEST(without_a_good_token_everything_is_403),
        TEST(every_spelling_of_the_token_is_taken),
        TEST(what_is_not_there_says_so_in_three_ways),
        TEST(another_method_is_405_with_the_ones_allowed),
        TEST(bad_targets_are_refused),
        TEST(bad_bodies_are_refused),
        TEST(a_form_is_a_form_unless_it_looks_like_json),
        TEST(patch_takes_one_content_type),
        TEST(a_namespace_other_than_root_is_not_found),
        TEST(a_wrapped_answer_is_refused_rather_than_given_bare),
        TEST(a_long_body_is_read_on_the_pool),
        TEST(more_calls_than_the_limit_are_refused),
        TEST(a_sealed_node_answers_only_about_itself),
        TEST(a_write_is_answered_after_its_commit),
        TEST(what_a_failed_handler_staged_is_dropped),
        TEST(a_conflict_runs_the_handler_again),
        TEST(a_lost_commit_says_that_its_fate_is_unknown),
        TEST(a_refused_commit_passes_its_status_on),
        TEST(a_leader_that_steps_down_forwards_what_it_did_not_propose),
        TEST(a_standby_forwards_writes_with_an_id),
        TEST(a_performance_standby_answers_reads_itself),
        TEST(a_plain_standby_forwards_reads_without_an_id),
        TEST(a_read_that_stages_something_is_forwarded),
        TEST(a_forward_of_unknown_fate_is_tried_again_with_its_id),
        TEST(a_forward_that_never_succeeds_tells_what_is_known),
        TEST(a_long_body_of_unknown_fate_is_not_tried_again),
        TEST(without_an_active_node_a_write_waits_then_fails),
        TEST(a_node_that_became_active_meanwhile_runs_the_call),
        TEST(a_client_may_ask_to_be_redirected),
        TEST(a_repeated_id_is_answered_from_its_first_try),
        TEST(a_node_that_is_not_active_hands_the_call_back),
        TEST(an_active_node_that_lost_the_commit_hands_it_back),
        TEST(an_outside_step_runs_once_after_the_commit),
        TEST(an_outside_step_does_not_follow_a_failure),
        TEST(a_failed_outside_step_is_the_answer),
        TEST(an_outside_step_of_unknown_fate_is_not_tried_again),
        TEST(a_repeated_id_does_not_go_outside_again),
        TEST(an_unconfirmed_read_is_not_answered),
        TEST(a_call_is_recorded_before_and_after),
        TEST(a_denied_call_is_recorded_with_its_error),
        TEST(nothing_takes_effect_unrecorded),
        TEST(an_unrecorded_change_is_admitted),
        TEST(every_failed_allocation_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
