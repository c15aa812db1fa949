/* Audit records of requests: that they are made, when, and what they say (PROTOCOL R20). */
#include "router/recorded_world.h"

#include "router/quota.h"

static const uint8_t salt[32] = {5};

/* When */

static void nothing_is_proposed_before_the_request_is_recorded(void **ctx)
{
    (void)ctx;
    struct test_request t;
    device->holds = true;
    begin(&t, METHOD_PUT, "/v1/test/add");
    assert_int_equal(runs, 1);
    assert_int_equal(device->n_lines, 1);
    assert_int_equal(w.proposals, 0);
    answer();
    assert_int_equal(w.proposals, 1);
    assert_int_equal(t.replies, 0);
    assert_int_equal(device->n_lines, 2);
    answer();
    assert_int_equal(t.replies, 1);
    assert_int_equal(t.http, 200);
    test_request_done(&t);
}

static void the_record_of_a_write_has_its_version(void **ctx)
{
    (void)ctx;
    char versions[64];
    struct test_request *t = call(METHOD_POST, "/v1/test/version", NULL);
    const char *at = strstr((const char *)t->body.data, "\"versions\":");
    assert_non_null(at);
    (void)snprintf(versions, sizeof versions, "%.*s", (int)strcspn(at, "}"), at);
    assert_pair();
    assert_line_has(1, versions);
    assert_line_has(1, "\"data\":{\"text\":");
}

static void a_read_waits_once_for_both_records(void **ctx)
{
    (void)ctx;
    struct test_request t;
    device->holds = true;
    begin(&t, METHOD_GET, "/v1/test/count");
    assert_pair();
    assert_int_equal(device->n_held, 2);
    assert_int_equal(t.replies, 0);
    answer();
    assert_int_equal(t.replies, 0);
    answer();
    assert_int_equal(t.replies, 1);
    assert_int_equal(t.http, 200);
    test_request_done(&t);
}

static void a_step_outside_waits_for_the_record(void **ctx)
{
    (void)ctx;
    struct test_request t;
    device->holds = true;
    begin(&t, METHOD_GET, "/v1/test/out");
    assert_int_equal(outside_runs, 0);
    assert_int_equal(device->n_lines, 1);
    answer();
    assert_int_equal(outside_runs, 1);
    answer();
    assert_int_equal(t.http, 200);
    test_request_done(&t);
}

static void a_client_that_goes_while_the_record_is_written_changes_nothing(void **ctx)
{
    (void)ctx;
    struct test_request t;
    device->holds = true;
    begin(&t, METHOD_PUT, "/v1/test/add");
    assert_status(router_give_up(&t.request), ST_TIMEOUT);
    answer();
    assert_int_equal(w.proposals, 0);
    answer();
    assert_int_equal(t.replies, 1);
    test_request_done(&t);
    device->holds = false;
    assert_count(NULL);
}

static struct test_request *late;

static void client_goes(struct world *world)
{
    (void)world;
    assert_status(router_give_up(&late->request), ST_UNKNOWN_OUTCOME);
}

static void a_late_reply_is_recorded_as_the_client_hears_it(void **ctx)
{
    (void)ctx;
    struct test_request t;
    device->holds = true;
    begin(&t, METHOD_GET, "/v1/test/out");
    assert_status(router_give_up(&t.request), ST_TIMEOUT);
    answer();
    assert_int_equal(outside_runs, 0);
    answer();
    assert_pair();
    assert_line_has(1, "\"http_status\":503");
    assert_line_has(1, "the client heard that nothing was changed");
    test_request_done(&t);
    device->holds = false;
    fake_forget_lines(device);
    late = &t;
    w.before_propose = client_goes;
    begin(&t, METHOD_PUT, "/v1/test/add");
    assert_int_equal(t.replies, 1);
    assert_pair();
    assert_line_has(1, "\"http_status\":504");
    assert_line_has(1, "the outcome is unknown; later the request ended with status 200");
    test_request_done(&t);
    assert_count("1");
}

static void a_rerun_is_recorded_once(void **ctx)
{
    (void)ctx;
    w.before_propose = someone_else_counts;
    assert_int_equal(call(METHOD_PUT, "/v1/test/add", NULL)->http, 200);
    assert_int_equal(runs, 2);
    assert_pair();
}

/* When records fail */

static void nothing_takes_effect_unrecorded(void **ctx)
{
    (void)ctx;
    device->results[0] = ST_IO;
    struct test_request *t = call(METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 500);
    assert_body_has(t, "could not be recorded");
    assert_int_equal(w.proposals, 0);
    assert_int_equal(device->n_lines, 1);
    assert_count(NULL);
}

static void an_unrecorded_change_is_admitted(void **ctx)
{
    (void)ctx;
    device->results[1] = ST_IO;
    struct test_request *t = call(METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 500);
    assert_body_has(t, "the change was made");
    assert_count("1");
}

static void an_unrecorded_read_is_not_told(void **ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < 2; i++) {
        device->results[device->n_answers + i] = ST_IO;
        struct test_request *t = call(METHOD_GET, "/v1/test/count", NULL);
        assert_int_equal(t->http, 500);
        assert_body_has(t, "could not be recorded");
        assert_null(strstr((const char *)t->body.data, "runs"));
    }
}

static void an_unknown_outcome_stays_unknown_without_a_record(void **ctx)
{
    (void)ctx;
    w.propose_status[0] = ST_UNKNOWN_OUTCOME;
    w.n_propose = 1;
    device->results[1] = ST_IO;
    struct test_request *t = call(METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 500);
    assert_body_has(t, "may or may not have been made");
}

static void a_refusal_without_a_record_changed_nothing(void **ctx)
{
    (void)ctx;
    w.propose_status[0] = ST_TOO_BIG;
    w.n_propose = 1;
    device->results[1] = ST_IO;
    struct test_request *t = call(METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 500);
    assert_body_has(t, "nothing was changed");
}

static void settings_that_cannot_be_read_let_nothing_pass(void **ctx)
{
    (void)ctx;
    devices.get_status = ST_CORRUPT;
    assert_int_equal(call(METHOD_PUT, "/v1/test/add", NULL)->http, 500);
    assert_int_equal(call(METHOD_GET, "/v1/test/count", NULL)->http, 500);
    assert_int_equal(call(METHOD_GET, "/v1/nowhere", NULL)->http, 500);
    assert_int_equal(w.proposals, 0);
    assert_int_equal(runs, 0);
}

/* What is recorded */

static void every_end_is_recorded(void **ctx)
{
    (void)ctx;
    static const struct {
        enum http_method method;
        const char *target, *body;
        int http;
        const char *error;
    } cases[] = {
        {METHOD_GET, "/v1/test/count", NULL, 200, NULL},
        {METHOD_GET, "/v1/nowhere/x", NULL, 404, "no handler for route"},
        {METHOD_GET, "/v1/test/nowhere", NULL, 404, "unsupported path"},
        {METHOD_GET, "/v1/kv/absent", NULL, 404, NULL},
        {METHOD_DELETE, "/v1/test/count", NULL, 405, "unsupported operation"},
        {METHOD_POST, "/v1/test/warn", "{\"a\":", 400, "line 1"},
        {METHOD_POST, "/v1/test/named/x", "{\"ttl\":\"z\"}", 400, "ttl"},
        {METHOD_GET, "/v1/kv/a%00b", NULL, 400, ""},
        {METHOD_POST, "/v1/test/fail", "{}", 400, "refused after staging"},
        {METHOD_POST, "/v1/auth/token/revoke-self", NULL, 204, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct test_request *t = call(cases[i].method, cases[i].target, cases[i].body);
        if (t->http != cases[i].http)
            fail_msg("%s: %d", cases[i].target, t->http);
        assert_pair();
        if (cases[i].error != NULL)
            assert_line_has(1, cases[i].error);
        else
            assert_line_lacks(1, "\"error\"");
    }
    assert_int_equal(call(METHOD_GET, "/v1/test/count", NULL)->http, 403); /* the token has ended */
    assert_pair();
    assert_line_has(0, "permission denied");
}

static unsigned resets;

static enum status reset_shares(struct node *node, struct reason *why)
{
    (void)node;
    (void)why;
    assert_int_equal(device->n_lines, 1); /* the request is recorded, its effect comes now */
    resets++;
    return ST_OK;
}

static void a_node_that_serves_nothing_records_that(void **ctx)
{
    (void)ctx;
    resets = 0;
    w.node_ops.unseal_reset = reset_shares;
    w.host.maintenance = true;
    assert_int_equal(call(METHOD_GET, "/v1/test/count", NULL)->http, 503);
    assert_pair();
    assert_line_has(1, "maintenance");
    w.host.maintenance = false;
    w.node.sealed = true;
    assert_int_equal(call(METHOD_GET, "/v1/test/count", NULL)->http, 503);
    assert_pair();
    assert_line_has(1, "sealed");
    assert_int_equal(call(METHOD_POST, "/v1/sys/unseal", "{\"reset\":true}")->http, 200);
    assert_pair();
    assert_line_has(0, "\"data\":{\"reset\":true}");
    assert_int_equal(resets, 1);
}

static void a_stateless_change_waits_for_the_record(void **ctx)
{
    (void)ctx;
    w.node.sealed = true;
    w.node_ops.unseal_reset = reset_shares;
    resets = 0;
    device->results[0] = ST_IO;
    assert_int_equal(call(METHOD_POST, "/v1/sys/unseal", "{\"reset\":true}")->http, 500);
    assert_int_equal(device->n_lines, 1);
    assert_int_equal(resets, 0);
    w.node.sealed = false;
}

static void probes_are_not_recorded(void **ctx)
{
    (void)ctx;
    static const char *const paths[] = {"/v1/sys/health", "/v1/sys/seal-status", "/v1/sys/leader",
                                        "/v1/sys/init", "/v1/sys/replication/status"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        assert_true(call(METHOD_GET, paths[i], NULL)->http < 500);
        assert_int_equal(device->n_lines, 0);
    }
}

static void the_node_that_runs_a_request_records_it(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    assert_int_equal(call(METHOD_PUT, "/v1/test/add", NULL)->http, 299);
    assert_int_equal(w.forwards, 1);
    assert_int_equal(device->n_lines, 0);
    assert_int_equal(call(METHOD_GET, "/v1/test/count", NULL)->http, 200); /* read here */
    assert_pair();
}

/* A worker that counts requests for quotas. */
static int open_counting(void **ctx)
{
    const struct router *router = &w.router;
    (void)open_recorded(ctx);
    router_worker_free(w.worker);
    assert_status(quota_table_new((uint64_t[2]){1, 2}, &w.host.quotas), ST_OK);
    assert_status(router_worker_new(router, &w.env.env, w.state, &w.worker), ST_OK);
    return 0;
}

static int close_counting(void **ctx)
{
    struct quota_table *table = w.host.quotas;
    int result = close_recorded(ctx);
    quota_table_free(table);
    return result;
}

/* Write a setting of the quotas, and let the worker see it. */
static void set_quota(const char *target, const char *body)
{
    assert_int_equal(call(METHOD_POST, target, body)->http, 204);
    w.env.now_ms += QUOTA_PATIENCE_MS;
    clock_run(&w.env);
}

static void a_refusal_by_a_quota_is_recorded_if_that_is_set(void **ctx)
{
    (void)ctx;
    set_quota("/v1/sys/quotas/rate-limit/r", "{\"path\":\"kv/\",\"rate\":1,\"interval\":3600}");
    assert_int_equal(call(METHOD_GET, "/v1/kv/a", NULL)->http, 404);
    assert_pair();
    assert_int_equal(call(METHOD_GET, "/v1/kv/a", NULL)->http, 429);
    assert_int_equal(device->n_lines, 0);
    set_quota("/v1/sys/quotas/config", "{\"enable_rate_limit_audit_logging\":true}");
    assert_int_equal(call(METHOD_GET, "/v1/kv/a", NULL)->http, 429);
    assert_pair();
    assert_line_has(0, "\"path\":\"kv/a\"");
    assert_line_has(1, "\"http_status\":429");
    assert_line_has(1, "rate limit quota exceeded");
}

/* What records say */

static void a_record_has_the_members_of_upstream(void **ctx)
{
    (void)ctx;
    static const struct audit_header headers[] = {{"x-plain", false}, {"x-secret", true}};
    struct test_request t;
    devices.set.headers = headers;
    devices.set.n_headers = 2;
    test_request_init(&t, METHOD_PUT, "/v1/kv/a", "{\"n\":1.50,\"s\":\"v\"}");
    test_request_header(&t, "x-secrets-token", w.token);
    test_request_header(&t, "x-plain", "shown");
    world_handle(&w, &t);
    test_request_done(&t);
    assert_pair();
    for (unsigned i = 0; i < 2; i++) {
        assert_line_has(i, "\"display_name\":\"root\",\"policies\":[\"root\"],"
                           "\"token_policies\":[\"root\"],\"policy_results\":{\"allowed\":true,"
                           "\"granting_policies\":[{\"name\":\"root\",\"namespace_id\":\"root\","
                           "\"type\":\"acl\"}]}");
        assert_line_has(i, "\"token_type\":\"service\"");
        assert_line_has(i, "\"token_issue_time\":\"20");
        assert_line_has(i, "\"operation\":\"create\",\"mount_point\":\"kv/\",\"mount_type\":\"kv\","
                           "\"mount_accessor\":\"kv_");
        assert_line_has(i, "\"mount_class\":\"secret\"");
        assert_line_has(i, "\"namespace\":{\"id\":\"root\"},\"path\":\"kv/a\","
                           "\"data\":{\"n\":1.50,\"s\":\"v\"},\"remote_address\":\"192.0.2.1\","
                           "\"remote_port\":4711,\"headers\":{\"x-plain\":[\"shown\"]}}");
    }
    assert_line_has(1, "\"response\":{\"http_status\":204,\"mount_point\":\"kv/\"");
    assert_int_equal(call(METHOD_GET, "/v1/kv/a", NULL)->http, 200);
    assert_line_has(1, "\"data\":{\"n\":1.50,\"s\":\"v\"}}");
}

/* A client may send a header several times. */
static void each_value_of_a_header_is_recorded(void **ctx)
{
    (void)ctx;
    static const struct audit_header headers[] = {
        {"x-absent", false}, {"x-plain", false}, {"x-secret", true}};
    struct test_request t;
    devices.set.headers = headers;
    devices.set.n_headers = ARRAY_LEN(headers);
    assert_status(hmac_new(bytes_of(salt, sizeof salt), &device->salt), ST_OK);
    test_request_init(&t, METHOD_GET, "/v1/kv/a", NULL);
    test_request_header(&t, "x-secrets-token", w.token);
    test_request_header(&t, "x-plain", "one");
    test_request_header(&t, "x-secret", "PLANTED");
    test_request_header(&t, "x-plain", "");
    test_request_header(&t, "x-secret", "PLANTED too");
    test_request_header(&t, "x-plain", "two");
    world_handle(&w, &t);
    test_request_done(&t);
    assert_pair();
    for (unsigned i = 0; i < 2; i++) {
        assert_line_has(i, "\"headers\":{\"x-plain\":[\"one\",\"\",\"two\"],"
                           "\"x-secret\":[\"hmac-sha256:");
        assert_line_has(i, "\",\"hmac-sha256:");
        assert_line_lacks(i, "PLANTED");
        assert_line_lacks(i, "x-absent");
    }
}

/* The next request has the token of the reply. */
static void become_new_token(const struct test_request *t)
{
    static const char made[] = "\"client_token\":\"";
    const char *token = strstr((const char *)t->body.data, made);
    assert_non_null(token);
    token += sizeof made - 1;
    (void)snprintf(w.token, sizeof w.token, "%.*s", (int)strcspn(token, "\""), token);
}

static void a_sender_is_recorded_with_its_uses_and_metadata(void **ctx)
{
    (void)ctx;
    become_new_token(call(METHOD_POST, "/v1/auth/token/create",
                          "{\"num_uses\":3,\"ttl\":\"1h\",\"meta\":{\"team\":\"blue\"}}"));
    assert_int_equal(call(METHOD_GET, "/v1/auth/token/lookup-self", NULL)->http, 200);
    assert_pair();
    for (unsigned i = 0; i < 2; i++)
        assert_line_has(i, "\"metadata\":{\"team\":\"blue\"},\"remaining_uses\":2,"
                           "\"token_type\":\"service\",\"token_ttl\":3600,");
    assert_line_lacks(0, "client_id"); /* the token has no entity */
}

static void warnings_are_recorded(void **ctx)
{
    (void)ctx;
    assert_int_equal(call(METHOD_POST, "/v1/auth/token/create", "{\"surplus\":1}")->http, 200);
    assert_line_lacks(0, "warnings");
    assert_line_has(1, "\"warnings\":[\"Endpoint ignored the unrecognized parameter surplus\"]");
}

/* As root, then as a token of that policy. */
static void become(const char *policy)
{
    assert_int_equal(call(METHOD_PUT, "/v1/sys/policies/acl/p", policy)->http, 204);
    become_new_token(call(METHOD_POST, "/v1/auth/token/create",
                          "{\"policies\":[\"p\"],\"no_default_policy\":true}"));
}

static void a_decision_is_recorded_with_its_rule(void **ctx)
{
    (void)ctx;
    become("{\"policy\":\"path \\\"test/count\\\" { capabilities = [\\\"read\\\"] }"
           "path \\\"test/*\\\" { capabilities = [\\\"deny\\\"] }\"}");
    assert_int_equal(call(METHOD_GET, "/v1/test/count", NULL)->http, 200);
    assert_line_has(0, "\"no_default_policy\":true,\"policy_results\":{\"allowed\":true,"
                       "\"granting_policies\":[{\"name\":\"p\",\"namespace_id\":\"root\","
                       "\"type\":\"acl\"}]}");
    assert_int_equal(call(METHOD_PUT, "/v1/test/add", NULL)->http, 403);
    assert_pair();
    assert_line_has(0, "\"policy_results\":{\"allowed\":false,\"denying_rule\":{"
                       "\"path\":\"test/*\",\"policies\":[\"p\"],\"capabilities\":[\"deny\"]}}");
    assert_line_has(0, "permission denied");
    assert_int_equal(call(METHOD_GET, "/v1/kv/a", NULL)->http, 403);
    assert_line_has(0, "\"policy_results\":{\"allowed\":false,\"denying_rule\":null}");
}

static char root_token[sizeof w.token];

/* Store a policy as root, while another request is being proposed. */
static void store_policy(const char *name, const char *policy)
{
    static char target[64];
    struct test_request t;
    (void)snprintf(target, sizeof target, "/v1/sys/policies/acl/%s", name);
    test_request_init(&t, METHOD_PUT, target, policy);
    test_request_header(&t, "x-secrets-token", root_token);
    world_take(&w, &t);
    clock_run(&w.env);
    assert_int_equal(t.http, 204);
    test_request_done(&t);
    fake_forget_lines(device);
}

static void policy_is_taken_back(struct world *world)
{
    (void)world;
    store_policy("p", "{\"policy\":\"path \\\"test/*\\\" { capabilities = [\\\"deny\\\"] }\"}");
}

static void a_denial_after_a_rerun_is_recorded_as_one(void **ctx)
{
    (void)ctx;
    memcpy(root_token, w.token, sizeof root_token);
    become("{\"policy\":\"path \\\"test/*\\\" { capabilities = [\\\"update\\\"] }\"}");
    w.before_propose = policy_is_taken_back;
    assert_int_equal(call(METHOD_PUT, "/v1/test/add", NULL)->http, 403);
    assert_int_equal(device->n_lines, 1); /* the record of the request came before */
    assert_line_has(0, "\"type\":\"response\"");
    assert_line_has(0, "\"allowed\":false,\"denying_rule\":{\"path\":\"test/*\"");
}

static void keys_are_exempted(struct world *world)
{
    struct test_request t;
    (void)world;
    test_request_init(&t, METHOD_POST, "/v1/sys/mounts/kv/tune",
                      "{\"audit_non_hmac_request_keys\":[\"open\"]}");
    test_request_header(&t, "x-secrets-token", w.token);
    world_take(&w, &t);
    clock_run(&w.env);
    assert_int_equal(t.http, 204);
    test_request_done(&t);
    fake_forget_lines(device);
}

static void a_reply_is_recorded_with_the_facts_that_were_committed(void **ctx)
{
    (void)ctx;
    assert_status(hmac_new(bytes_of(salt, sizeof salt), &device->salt), ST_OK);
    w.before_propose = keys_are_exempted;
    assert_int_equal(call(METHOD_PUT, "/v1/kv/a", "{\"open\":\"o1\"}")->http, 204);
    assert_int_equal(device->n_lines, 1); /* the record of the request came before */
    assert_line_has(0, "\"type\":\"response\"");
    assert_line_has(0, "\"open\":\"o1\"");
}

static void a_new_token_is_recorded_as_one(void **ctx)
{
    (void)ctx;
    struct test_request *t = call(METHOD_POST, "/v1/auth/token/create",
                                  "{\"policies\":[\"p\"],\"ttl\":\"1h\",\"display_name\":\"job\"}");
    assert_int_equal(t->http, 200);
    assert_line_has(1, "\"response\":{\"http_status\":200,\"auth\":{\"client_token\":\"hvs.");
    assert_line_has(1, "\"display_name\":\"token-job\",\"policies\":[\"default\",\"p\"]");
    assert_line_has(1, "\"token_ttl\":3600,\"token_issue_time\":\"20");
    assert_line_has(1, "\"mount_class\":\"auth\"");
}

static void a_wrapped_reply_is_recorded_as_its_token(void **ctx)
{
    (void)ctx;
    struct test_request t;
    assert_int_equal(call(METHOD_PUT, "/v1/kv/a", "{\"s\":\"inner\"}")->http, 204);
    fake_forget_lines(device);
    test_request_init(&t, METHOD_GET, "/v1/kv/a", NULL);
    test_request_header(&t, "x-secrets-token", w.token);
    test_request_header(&t, "x-vault-wrap-ttl", "60s");
    world_handle(&w, &t);
    assert_int_equal(t.http, 200);
    test_request_done(&t);
    assert_pair();
    assert_line_has(0, "\"wrap_ttl\":60");
    assert_line_has(1, "\"wrap_info\":{\"ttl\":60,\"token\":\"hvs.");
    assert_line_has(1, "\"creation_path\":\"kv/a\"");
    assert_line_lacks(1, "inner");
}

/* A JWT is recorded as a bearer is: its HMAC, whoever sends it and wherever it stands. */
static void a_jwt_is_recorded_as_its_hmac(void **ctx)
{
    (void)ctx;
    char token[AUTH_TOKEN_MAX + 1], body[AUTH_TOKEN_MAX + 20];
    struct test_request t;
    assert_status(hmac_new(bytes_of(salt, sizeof salt), &device->salt), ST_OK);
    assert_int_equal(call(METHOD_PUT, "/v1/kv/a", "{\"s\":\"inner\"}")->http, 204);
    fake_forget_lines(device);
    test_request_init(&t, METHOD_GET, "/v1/kv/a", NULL);
    test_request_header(&t, "x-secrets-token", w.token);
    test_request_header(&t, "x-vault-wrap-ttl", "60s");
    test_request_header(&t, "x-vault-wrap-format", "jwt");
    world_handle(&w, &t);
    assert_int_equal(t.http, 200);
    const char *at = strstr((const char *)t.body.data, "\"token\":\"ey");
    assert_non_null(at);
    (void)snprintf(token, sizeof token, "%.*s", (int)strcspn(at + 9, "\""), at + 9);
    test_request_done(&t);
    assert_pair();
    assert_line_has(1, "\"wrap_info\":{\"ttl\":60,\"token\":\"hmac-sha256:");
    (void)snprintf(body, sizeof body, "{\"token\":\"%s\"}", token);
    static const char *const verbs[] = {"/v1/sys/wrapping/lookup", "/v1/sys/wrapping/unwrap",
                                        "/v1/sys/wrapping/unwrap"}; /* the last one fails */
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        test_request_init(&t, METHOD_POST, verbs[i], body);
        test_request_header(&t, "x-secrets-token", token);
        world_handle(&w, &t);
        assert_int_equal(t.http, i < 2 ? 200 : 400);
        test_request_done(&t);
    }
    assert_int_equal(device->n_lines, 8);
    for (unsigned i = 0; i < device->n_lines; i++) {
        assert_line_lacks(i, "eyJ");
        assert_line_lacks(i, "\"hvs.");
        assert_line_lacks(i, "inner");
    }
}

static void mounts_exempt_keys(void **ctx)
{
    (void)ctx;
    assert_int_equal(call(METHOD_POST, "/v1/sys/mounts/kv/tune",
                          "{\"audit_non_hmac_request_keys\":[\"open\"],"
                          "\"audit_non_hmac_response_keys\":[\"shut\"]}")
                         ->http,
                     204);
    assert_status(hmac_new(bytes_of(salt, sizeof salt), &device->salt), ST_OK);
    assert_int_equal(call(METHOD_PUT, "/v1/kv/a", "{\"open\":\"o1\",\"shut\":\"s1\"}")->http, 204);
    assert_line_has(0, "\"open\":\"o1\",\"shut\":\"hmac-sha256:");
    assert_int_equal(call(METHOD_GET, "/v1/kv/a", NULL)->http, 200);
    assert_line_has(1, "\"open\":\"hmac-sha256:");
    assert_line_has(1, "\"shut\":\"s1\"");
}

/* Whatever a client sends or gets, no secret of it is in clear. */
static void no_secret_is_in_clear(void **ctx)
{
    (void)ctx;
    static const struct audit_header headers[] = {{"x-secret", true}};
    static const char *const bodies[][2] = {
        {"/v1/kv/a", "{\"k\":\"PLANTED\",\"d\":[{\"e\":[\"PLANTED\",1]},[\"x\\\"PLANTED\\n\"]]}"},
        {"/v1/auth/token/create", "{\"id\":\"PLANTED-token\"}"},
        {"/v1/auth/token/lookup", "{\"token\":\"PLANTED-token\"}"},
        {"/v1/sys/wrapping/unwrap", "{\"token\":\"PLANTED\"}"},
        {"/v1/sys/tools/hash", "{\"input\":\"PLANTED\"}"},
    };
    devices.set.headers = headers;
    devices.set.n_headers = 1;
    assert_status(hmac_new(bytes_of(salt, sizeof salt), &device->salt), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct test_request t;
        test_request_init(&t, METHOD_POST, bodies[i][0], bodies[i][1]);
        test_request_header(&t, "x-secrets-token", i == 2 ? "PLANTED-token" : w.token);
        test_request_header(&t, "x-secret", "PLANTED");
        test_request_header(&t, "x-vault-wrap-ttl", "60s");
        world_handle(&w, &t);
        test_request_done(&t);
    }
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/kv/a", NULL)->http, 200);
    assert_true(device->n_lines >= 12);
    for (unsigned i = 0; i < device->n_lines; i++) {
        assert_line_lacks(i, "PLANTED");
        assert_line_lacks(i, w.token);
        assert_line_lacks(i, "\"hvs.");
    }
}

/* Memory */

static bool failed;

static void memory_is_back(struct world *world)
{
    (void)world;
    failed = mem_fail_nth(0);
}

static void every_failed_allocation_gets_a_reply(void **ctx)
{
    (void)ctx;
    device->blind = true;
    static const struct {
        enum http_method method;
        const char *target, *body;
    } cases[] = {{METHOD_PUT, "/v1/kv/mem", "{\"a\":[1,{\"b\":\"2\"}]}"},
                 {METHOD_GET, "/v1/kv/mem", NULL},
                 {METHOD_POST, "/v1/auth/token/create", "{}"},
                 {METHOD_POST, "/v1/sys/wrapping/wrap", "{\"a\":1}"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (uint64_t n = 1;; n++) {
            struct test_request t;
            fake_forget_lines(device);
            test_request_init(&t, cases[i].method, cases[i].target, cases[i].body);
            test_request_header(&t, "x-vault-token", w.token);
            if (strstr(cases[i].target, "wrapping") != NULL) {
                test_request_header(&t, "x-vault-wrap-ttl", "60s");
                test_request_header(&t, "x-vault-wrap-format", "jwt");
            }
            failed = false;
            w.before_propose = memory_is_back;
            (void)mem_fail_nth(n);
            world_take(&w, &t);
            clock_run(&w.env);
            bool used = w.before_propose != NULL ? mem_fail_nth(0) : failed;
            assert_int_equal(t.replies, 1);
            if (!used)
                assert_int_equal(device->n_lines, 2);
            else if (t.http >= 300)
                assert_int_equal(t.http, 500);
            test_request_done(&t);
            if (!used)
                break;
        }
    }
}

#define TEST(f) RECORDED_TEST(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_proposed_before_the_request_is_recorded),
        TEST(the_record_of_a_write_has_its_version),
        TEST(a_read_waits_once_for_both_records),
        TEST(a_step_outside_waits_for_the_record),
        TEST(a_client_that_goes_while_the_record_is_written_changes_nothing),
        TEST(a_late_reply_is_recorded_as_the_client_hears_it),
        TEST(a_rerun_is_recorded_once),
        TEST(nothing_takes_effect_unrecorded),
        TEST(an_unrecorded_change_is_admitted),
        TEST(an_unrecorded_read_is_not_told),
        TEST(an_unknown_outcome_stays_unknown_without_a_record),
        TEST(a_refusal_without_a_record_changed_nothing),
        TEST(settings_that_cannot_be_read_let_nothing_pass),
        TEST(every_end_is_recorded),
        TEST(a_node_that_serves_nothing_records_that),
        TEST(a_stateless_change_waits_for_the_record),
        TEST(probes_are_not_recorded),
        TEST(the_node_that_runs_a_request_records_it),
        cmocka_unit_test_setup_teardown(a_refusal_by_a_quota_is_recorded_if_that_is_set,
                                        open_counting, close_counting),
        TEST(a_record_has_the_members_of_upstream),
        TEST(each_value_of_a_header_is_recorded),
        TEST(a_sender_is_recorded_with_its_uses_and_metadata),
        TEST(warnings_are_recorded),
        TEST(a_decision_is_recorded_with_its_rule),
        TEST(a_denial_after_a_rerun_is_recorded_as_one),
        TEST(a_reply_is_recorded_with_the_facts_that_were_committed),
        TEST(a_new_token_is_recorded_as_one),
        TEST(a_wrapped_reply_is_recorded_as_its_token),
        TEST(a_jwt_is_recorded_as_its_hmac),
        TEST(mounts_exempt_keys),
        TEST(no_secret_is_in_clear),
        TEST(every_failed_allocation_gets_a_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
