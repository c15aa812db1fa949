#include "base/mem.h"
#include "router/pipe_world.h"
#include "router/request/body.h"
#include "text/cidr.h"

#include <inttypes.h>

/* Answers */

static void a_reply_has_the_whole_envelope(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/test/count", NULL);
    assert_int_equal(t->http, 200);
    assert_string_equal(t->type, "application/json");
    const char *body = (const char *)t->body.data;
    assert_true(strncmp(body, "{\"request_id\":\"", 15) == 0 && strlen(body) > 60);
    assert_string_equal(body + 15 + 36,
                        "\",\"lease_id\":\"\",\"renewable\":false,\"lease_duration\":0,"
                        "\"data\":{\"runs\":1},\"wrap_info\":null,\"warnings\":null,\"auth\":null,"
                        "\"mount_type\":\"test\"}");
}

static void no_two_requests_have_one_id(void **ctx)
{
    (void)ctx;
    enum { N = 200 }; /* more than are drawn at once */
    static char ids[N][36];
    for (size_t i = 0; i < N; i++) {
        memcpy(ids[i], world_request(&w, METHOD_GET, "/v1/test/count", NULL)->body.data + 15, 36);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(ids[i], ids[j], 36);
    }
}

static void some_data_stands_at_the_top_level_too(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/test/sudo", NULL);
    assert_body_has(t, ",\"data\":{\"runs\":1},");
    assert_body_has(t, "\"mount_type\":\"test\",\"runs\":1}");
}

static void an_upload_whose_body_does_not_stream_is_an_error(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_POST, "/v1/test/upload", "{}");
    assert_int_equal(t->http, 500);
    assert_body_has(t, "the body of this request cannot be received here");
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/test//%75pload", NULL)->http, 500);
    assert_int_equal(runs, 0);
}

static void a_handler_without_a_reply_sends_204(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/silent/a", "{\"ttl\":1}");
    assert_int_equal(t->http, 204);
    assert_body(t, "");
}

static void a_warning_of_the_handler_needs_a_body(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/warn", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"data\":null");
    assert_body_has(t, "\"warnings\":[\"mind the gap\"]");
}

static void unknown_fields_are_mentioned_only_beside_data(void **ctx)
{
    (void)ctx;
    struct test_request *t =
        world_request(&w, METHOD_POST, "/v1/test/named/a", "{\"colour\":1,\"name\":\"b\"}");
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"data\":{\"name\":\"a\",\"ttl\":30}");
    assert_body_has(t, "unrecognized parameter colour");
    assert_body_has(t, "replaced the value of name");
    t = world_request(&w, METHOD_POST, "/v1/test/silent/a", "{\"colour\":1}");
    assert_int_equal(t->http, 204);
}

static void fields_are_decoded_or_named(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_POST, "/v1/test/named/a", "{\"ttl\":\"1h\"}");
    assert_body_has(t, "\"ttl\":3600");
    t = world_request(&w, METHOD_POST, "/v1/test/named/a", "{\"ttl\":\"soon\"}");
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
            struct test_request *t = world_request(&w, METHOD_GET, paths[j], NULL);
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
        struct test_request t;
        test_request_init(&t, METHOD_GET, "/v1/test/count", NULL);
        test_request_header(&t, headers[i][0], headers[i][1]);
        world_handle(&w, &t);
        assert_int_equal(t.http, 200);
        test_request_done(&t);
    }
    struct test_request t;
    test_request_init(&t, METHOD_GET, "/v1/test/count", NULL);
    (void)snprintf(bearer, sizeof bearer, "bearer %s", w.token);
    test_request_header(&t, "authorization", bearer);
    world_handle(&w, &t);
    assert_int_equal(t.http, 403);
    test_request_done(&t);
}

/* Where to */

static void what_is_not_there_says_so_in_three_ways(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/none/such", NULL);
    assert_int_equal(t->http, 404);
    assert_body(
        t, "{\"errors\":[\"no handler for route \\\"none/such\\\". route entry not found.\"]}");
    t = world_request(&w, METHOD_GET, "/v1/test/none", NULL);
    assert_int_equal(t->http, 404);
    assert_body_has(t, "unsupported path");
    t = world_request(&w, METHOD_GET, "/elsewhere", NULL);
    assert_int_equal(t->http, 404);
    assert_body(t, "{\"errors\":[]}");
}

static void another_method_is_405_with_the_ones_allowed(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_DELETE, "/v1/test/add", NULL);
    assert_int_equal(t->http, 405);
    assert_string_equal(t->allow, "GET, POST, PUT");
    assert_body_has(t, "unsupported operation");
    t = world_request(&w, METHOD_HEAD, "/v1/test/count", NULL);
    assert_int_equal(t->http, 405);
    t = world_request(&w, METHOD_PATCH, "/v1/kv/a", "{}");
    assert_int_equal(t->http, 405);
}

static void where_no_token_is_needed_none_is_for_405(void **ctx)
{
    (void)ctx;
    for (int sealed = 0; sealed < 2; sealed++) {
        char root[sizeof w.token];
        memcpy(root, w.token, sizeof root);
        w.token[0] = '\0';
        w.node.sealed = sealed != 0;
        struct test_request *t = world_request(&w, METHOD_DELETE, "/v1/sys/health", NULL);
        assert_int_equal(t->http, 405);
        assert_string_equal(t->allow, "GET, HEAD");
        assert_int_equal(world_request(&w, METHOD_PATCH, "/v1/sys/health", "{bad")->http, 405);
        assert_int_equal(world_request(&w, METHOD_DELETE, "/v1/test/add", NULL)->http,
                         sealed ? 503 : 403);
        memcpy(w.token, root, sizeof root);
    }
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
        struct test_request *t = world_request(&w, cases[i].method, cases[i].target, "{\"a\":1}");
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
        struct test_request *t = world_request(&w, METHOD_PUT, "/v1/kv/a", bodies[i]);
        assert_int_equal(t->http, 400);
        assert_body_has(t, "failed to parse JSON input");
    }
}

static void null_is_a_body_without_data(void **ctx)
{
    (void)ctx;
    static const char *const bodies[] = {"", " null\n", "{}"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/add", bodies[i]);
        assert_int_equal(t->http, 200);
    }
}

static void a_form_is_a_form_unless_it_looks_like_json(void **ctx)
{
    (void)ctx;
    static const char *const bodies[][2] = {{"name=x&ttl=2m", "\"ttl\":120"},
                                            {" {\"ttl\":\"3m\"}", "\"ttl\":180"}};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct test_request t;
        test_request_init(&t, METHOD_POST, "/v1/test/named/n", bodies[i][0]);
        test_request_header(&t, "x-vault-token", w.token);
        test_request_header(&t, "content-type", "application/x-www-form-urlencoded; charset=utf-8");
        world_handle(&w, &t);
        assert_body_has(&t, bodies[i][1]);
        test_request_done(&t);
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
        struct test_request t;
        test_request_init(&t, METHOD_PATCH, "/v1/test/patch", "{}");
        test_request_header(&t, "x-vault-token", w.token);
        test_request_header(&t, "content-type", cases[i].type);
        world_handle(&w, &t);
        assert_int_equal(t.http, cases[i].http);
        test_request_done(&t);
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
        struct test_request t;
        test_request_init(&t, METHOD_GET, "/v1/test/count", NULL);
        test_request_header(&t, "x-vault-token", w.token);
        test_request_header(&t, "x-vault-namespace", cases[i].name);
        world_handle(&w, &t);
        assert_int_equal(t.http, cases[i].http);
        test_request_done(&t);
    }
}

static void a_long_body_is_read_on_the_pool(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf body = {0};
    unsigned before = w.env.works_run;
    buf_add_str(&body, "{\"ttl\":7,\"long\":\"");
    uint8_t *room = buf_extend(&body, 64 * 1024);
    memset(room, 'x', 64 * 1024);
    buf_add_str(&body, "\"}");
    buf_add_u8(&body, 0);
    struct test_request *t =
        world_request(&w, METHOD_POST, "/v1/test/named/a", (const char *)body.data);
    assert_body_has(t, "\"ttl\":7");
    assert_true(w.env.works_run > before);
}

/* {"ttl":7,"long":[[],[],…]}: 3 bytes a value. */
static void add_lists(struct buf *body, unsigned n)
{
    buf_add_str(body, "{\"ttl\":7,\"long\":[[]");
    while (n-- > 1)
        buf_add_str(body, ",[]");
    buf_add_str(body, "]}");
    buf_add_u8(body, 0);
}

static void a_short_body_of_many_values_is_parsed_on_the_pool(void **ctx)
{
    (void)ctx;
    static const unsigned lists[] = {500, 10000};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        CLEANUP(buf_done) struct buf body = {0};
        unsigned before = w.env.works_run;
        add_lists(&body, lists[i]);
        assert_true(body.len < BODY_FREE_MAX);
        struct test_request *t =
            world_request(&w, METHOD_POST, "/v1/test/named/a", (const char *)body.data);
        assert_body_has(t, "\"ttl\":7");
        assert_true((w.env.works_run > before) == (i == 1));
    }
}

static void a_client_has_a_share_of_the_memory_for_parsed_bodies(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf body = {0};
    struct http_budget *budget = &w.host.parsed.of[PARSED_CLIENTS];
    const struct ip self = ip_port_ip("127.0.0.1:1"), other = ip_port_ip("127.0.0.2:1");
    assert_status(parsed_budgets_init(&w.host.parsed, &w.env.env, 0), ST_OK);
    add_lists(&body, 10000);
    const char *large = (const char *)body.data;

    assert_true(http_budget_take(budget, &other, budget->share));
    assert_int_equal(world_request(&w, METHOD_POST, "/v1/test/named/a", large)->http, 200);
    clock_run(&w.env);
    assert_int_equal(http_budget_used(budget), budget->share);

    assert_true(http_budget_take(budget, &self, budget->share));
    struct test_request *t = world_request(&w, METHOD_POST, "/v1/test/named/a", large);
    assert_int_equal(t->http, 503);
    assert_body_has(t, "too many large request bodies of this client are in memory");
    assert_int_equal(world_request(&w, METHOD_POST, "/v1/test/named/a", "{}")->http, 200);

    http_budget_give(budget, &self, budget->share);
    assert_int_equal(world_request(&w, METHOD_POST, "/v1/test/named/a", large)->http, 200);
    http_budget_give(budget, &other, budget->share);
    clock_run(&w.env);
    parsed_budgets_done(&w.host.parsed); /* which asserts that all was given back */
}

static void nothing_is_read_for_somebody_without_a_token(void **ctx)
{
    (void)ctx;
    static const char *const bodies[] = {"{\"a\":", "[1]", "nonsense"};
    char root[64];
    memcpy(root, w.token, sizeof root);
    (void)snprintf(w.token, sizeof w.token, "hvs.bad");
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
        assert_int_equal(world_request(&w, METHOD_PUT, "/v1/kv/a", bodies[i])->http, 403);
    memcpy(w.token, root, sizeof root);
}

static void a_path_without_a_token_takes_short_bodies_only(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf body = {0};
    uint8_t *room = buf_extend(&body, 70000);
    memset(room, ' ', 70000);
    room[69999] = 0;
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/sys/init", (const char *)body.data)->http,
                     413);
}

static void more_requests_than_the_limit_are_refused(void **ctx)
{
    (void)ctx;
    struct test_request requests[6];
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        test_request_init(&requests[i], METHOD_GET, "/v1/test/count", NULL);
        test_request_header(&requests[i], "x-vault-token", w.token);
        world_take(&w, &requests[i]);
    }
    clock_run(&w.env);
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        assert_int_equal(requests[i].replies, 1);
        assert_int_equal(requests[i].http, i < 4 ? 200 : 503);
        test_request_done(&requests[i]);
    }
}

/* Sealed */

/* Who waits at other nodes goes on, and so does who looks after this one. */
static void in_maintenance_clients_are_turned_away(void **ctx)
{
    (void)ctx;
    w.host.maintenance = true;
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/test/count", NULL);
    assert_int_equal(t->http, 503);
    assert_body_has(t, "maintenance");
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/sys/key-status", NULL)->http, 200);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/sys/seal-status", NULL)->http, 200);
    struct test_request forwarded;
    test_request_init(&forwarded, METHOD_GET, "/v1/test/count", NULL);
    test_request_header(&forwarded, "x-vault-token", w.token);
    forwarded.request.forwarded = true;
    world_handle(&w, &forwarded);
    assert_int_equal(forwarded.http, 200);
    test_request_done(&forwarded);
}

static void without_a_quorum_a_request_fails_at_once_and_names_the_missing(void **ctx)
{
    (void)ctx;
    static const enum http_method methods[] = {METHOD_GET, METHOD_POST};
    w.node.active = w.node.perf_standby = w.node.has_leader = false;
    w.node.no_quorum = true;
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        uint64_t before = w.env.now_ms;
        struct test_request *t = world_request(&w, methods[i], "/v1/test/add", NULL);
        assert_int_equal(t->http, 503);
        assert_body(t, "{\"errors\":[\"no quorum: 1 of 3 voters reachable, 2 needed; missing b, "
                       "c\"]}");
        assert_int_equal(w.env.now_ms, before);
    }
    assert_int_equal(runs, 0);
}

static void without_a_quorum_an_unknown_outcome_is_still_looked_for(void **ctx)
{
    (void)ctx;
    w.node.active = w.node.perf_standby = false;
    w.node.has_leader = w.node.no_quorum = true;
    w.forward_status[0] = ST_UNKNOWN_OUTCOME;
    w.forward_status[1] = ST_NOT_LEADER;
    w.forward_status[2] = ST_OK;
    w.n_forward = 3;
    struct test_request *t = world_request(&w, METHOD_POST, "/v1/test/add", NULL);
    assert_int_equal(t->http, 299);
    assert_int_equal(w.forwards, 3);
}

static void a_sealed_node_replies_only_about_itself(void **ctx)
{
    (void)ctx;
    w.node.sealed = true;
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/test/count", NULL);
    assert_int_equal(t->http, 503);
    assert_body(t, "{\"errors\":[\"Vault is sealed\"]}");
    t = world_request(&w, METHOD_GET, "/v1/sys/health", NULL);
    assert_int_equal(t->http, 503);
    assert_body_has(t, "\"sealed\":true");
    t = world_request(&w, METHOD_GET, "/v1/sys/metrics", NULL);
    assert_int_equal(t->http, 503);
    struct test_request open;
    test_request_init(&open, METHOD_GET, "/v1/sys/metrics", NULL);
    open.request.open_metrics = true;
    world_handle(&w, &open);
    assert_int_equal(open.http, 200);
    test_request_done(&open);
}

/* Writes */

static void a_write_gets_its_reply_after_its_commit(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"count\":\"1\"");
    assert_int_equal(w.proposals, 1);
    assert_count("1");
}

static void what_a_failed_handler_staged_is_dropped(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/fail", NULL);
    assert_int_equal(t->http, 400);
    assert_body(t, "{\"errors\":[\"refused after staging\"]}");
    assert_int_equal(w.proposals, 0);
    assert_int_equal(w.reads, 1); /* the reply is a read too */
    assert_count(NULL);
}

static void a_conflict_runs_the_handler_again(void **ctx)
{
    (void)ctx;
    w.before_propose = someone_else_counts;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"count\":\"101\"");
    assert_int_equal(runs, 2);
    assert_count("101");
}

/* A request that is repeated under the same id gets the version of the first try. */
static void a_reply_tells_the_version_of_its_commit(void **ctx)
{
    (void)ctx;
    char wanted[100] = "";
    for (unsigned try = 0; try < 2; try++) {
        struct test_request t;
        test_request_init(&t, METHOD_PUT, "/v1/test/version", NULL);
        test_request_header(&t, "x-vault-token", w.token);
        t.request.forwarded = true;
        t.request.id.bytes[0] = 7;
        t.request.id.issued = w.m.version;
        t.request.again = try > 0;
        world_handle(&w, &t);
        if (try == 0)
            (void)snprintf(wanted, sizeof wanted,
                           "{\"text\":\"a\\u0001b\",\"versions\":[%" PRIu64 ",%" PRIu64 "]}",
                           w.m.version, w.m.version);
        assert_int_equal(t.http, 200);
        assert_body_has(&t, wanted);
        test_request_done(&t);
        assert_count("1");
        (void)world_request(&w, METHOD_PUT, "/v1/kv/other", "{\"a\":1}");
    }
}

/* What a read reads is recorded only once it is known to stage something. */
static void a_read_that_stages_is_committed_with_what_it_read(void **ctx)
{
    (void)ctx;
    w.before_propose = someone_else_counts;
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/test/add", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"count\":\"101\"");
    assert_int_equal(runs, 3); /* looking, overtaken, committed */
    assert_int_equal(w.proposals, 2);
    assert_count("101");
}

static void writers_of_one_entry_do_not_conflict(void **ctx)
{
    (void)ctx;
    struct test_request requests[4];
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        test_request_init(&requests[i], METHOD_PUT, "/v1/kv/hot", "{\"a\":1}");
        test_request_header(&requests[i], "x-vault-token", w.token);
        world_take(&w, &requests[i]);
    }
    clock_run(&w.env);
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        assert_int_equal(requests[i].http, 204);
        test_request_done(&requests[i]);
    }
    assert_int_equal(w.proposals, ARRAY_LEN(requests));
}

/* Without a confirmed read to begin with, it would lose against every change for ever. */
static void an_overtaken_refusal_is_made_again_on_a_confirmed_read(void **ctx)
{
    (void)ctx;
    someone_else_counts(&w);
    w.before_read = someone_else_counts;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/once", NULL);
    assert_int_equal(t->http, 400);
    assert_body(t, "{\"errors\":[\"was done before\"]}");
    assert_int_equal(w.reads, 2);
    assert_int_equal(w.proposals, 0);
}

static void a_lost_commit_says_that_its_fate_is_unknown(void **ctx)
{
    (void)ctx;
    w.propose_status[0] = ST_UNKNOWN_OUTCOME;
    w.n_propose = 1;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 500);
    assert_body_has(t, "outcome unknown");
}

static void a_refused_commit_passes_its_status_on(void **ctx)
{
    (void)ctx;
    w.propose_status[0] = ST_NO_SPACE;
    w.n_propose = 1;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 507);
    assert_count(NULL);
}

/* Reads that cannot be confirmed */

static void an_unconfirmed_read_gets_no_reply(void **ctx)
{
    (void)ctx;
    w.read_status = ST_TIMEOUT;
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/test/count", NULL)->http, 503);
    assert_int_equal(runs, 0);
    w.read_status = ST_NO_LEADER;
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/test/count", NULL)->http, 503);
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/test/fail", NULL)->http, 503);
    /* This node's own facts need no one else. */
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/sys/internal/state", NULL)->http, 200);
}

static void an_unconfirmed_refusal_is_not_told(void **ctx)
{
    (void)ctx;
    w.read_status = ST_NO_LEADER;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/fail", NULL);
    assert_int_equal(t->http, 503);
    assert_string_equal((const char *)t->body.data, "{\"errors\":[\"no active node\"]}");
    w.read_status = ST_TIMEOUT;
    t = world_request(&w, METHOD_PUT, "/v1/test/fail", NULL);
    assert_int_equal(t->http, 503);
    assert_null(strstr((const char *)t->body.data, "refused after staging"));
}

/* What needs a later feature level is refused before the handler runs, with the reason. */
static void a_route_of_a_later_feature_level_waits_for_that_level(void **ctx)
{
    (void)ctx;
    w.node.raft.feature = RLOG_FEATURE_FIRST;
    const struct test_request *t = world_request(&w, METHOD_POST, "/v1/test/later", "{}");
    assert_int_equal(t->http, 503);
    assert_non_null(strstr((const char *)t->body.data,
                           "this needs feature level 6, and the cluster is at level 1: upgrade "
                           "every member to this build; older or unreachable: node2"));
    assert_int_equal(runs, 0);
    w.node.raft.feature = RLOG_FEATURE;
    assert_int_equal(world_request(&w, METHOD_POST, "/v1/test/later", "{}")->http, 200);
    assert_count("1");
}

/* Memory */

static void every_failed_allocation_gets_a_reply(void **ctx)
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
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/kv/mem", "{\"a\":1}")->http, 204);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (uint64_t n = 1;; n++) {
            struct test_request t;
            test_request_init(&t, cases[i].method, cases[i].target, cases[i].body);
            test_request_header(&t, "x-vault-token", w.token);
            (void)mem_fail_nth(n);
            world_take(&w, &t);
            bool used = mem_fail_nth(0);
            clock_run(&w.env);
            assert_int_equal(t.replies, 1);
            if (!used)
                assert_true(t.http < 300);
            else if (t.http >= 300)
                assert_int_equal(t.http, 500);
            test_request_done(&t);
            if (!used)
                break;
        }
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_reply_has_the_whole_envelope),
        TEST(no_two_requests_have_one_id),
        TEST(some_data_stands_at_the_top_level_too),
        TEST(an_upload_whose_body_does_not_stream_is_an_error),
        TEST(a_handler_without_a_reply_sends_204),
        TEST(a_warning_of_the_handler_needs_a_body),
        TEST(unknown_fields_are_mentioned_only_beside_data),
        TEST(fields_are_decoded_or_named),
        TEST(without_a_good_token_everything_is_403),
        TEST(every_spelling_of_the_token_is_taken),
        TEST(what_is_not_there_says_so_in_three_ways),
        TEST(another_method_is_405_with_the_ones_allowed),
        TEST(where_no_token_is_needed_none_is_for_405),
        TEST(bad_targets_are_refused),
        TEST(bad_bodies_are_refused),
        TEST(null_is_a_body_without_data),
        TEST(a_form_is_a_form_unless_it_looks_like_json),
        TEST(patch_takes_one_content_type),
        TEST(a_namespace_other_than_root_is_not_found),
        TEST(a_long_body_is_read_on_the_pool),
        TEST(a_short_body_of_many_values_is_parsed_on_the_pool),
        TEST(a_client_has_a_share_of_the_memory_for_parsed_bodies),
        TEST(nothing_is_read_for_somebody_without_a_token),
        TEST(a_path_without_a_token_takes_short_bodies_only),
        TEST(more_requests_than_the_limit_are_refused),
        TEST(in_maintenance_clients_are_turned_away),
        TEST(without_a_quorum_a_request_fails_at_once_and_names_the_missing),
        TEST(without_a_quorum_an_unknown_outcome_is_still_looked_for),
        TEST(a_sealed_node_replies_only_about_itself),
        TEST(a_write_gets_its_reply_after_its_commit),
        TEST(what_a_failed_handler_staged_is_dropped),
        TEST(a_conflict_runs_the_handler_again),
        TEST(a_reply_tells_the_version_of_its_commit),
        TEST(a_read_that_stages_is_committed_with_what_it_read),
        TEST(writers_of_one_entry_do_not_conflict),
        TEST(an_overtaken_refusal_is_made_again_on_a_confirmed_read),
        TEST(a_lost_commit_says_that_its_fate_is_unknown),
        TEST(a_refused_commit_passes_its_status_on),
        TEST(an_unconfirmed_read_gets_no_reply),
        TEST(an_unconfirmed_refusal_is_not_told),
        TEST(a_route_of_a_later_feature_level_waits_for_that_level),
        TEST(every_failed_allocation_gets_a_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
