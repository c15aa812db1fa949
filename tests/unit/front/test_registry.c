/* The registry's dialect beside that of the secrets service. */
#include "api/registry/registry.h"
#include "auth/registry/registry_rules.h"
#include "auth/registry/registry_settings.h"
#include "base/shared.h"
#include "front/registry/registry.h"
#include "front/registry/registry_pretty.h"
#include "front/registry/registry_read.h"
#include "front/registry/registry_rights.h"
#include "router/pipeline/worker.h"
#include "router/quota.h"
#include "router/world.h"

#define NO_ENDPOINT                                          \
    "Invalid URL path: not a recognized HTTP API endpoint\n" \
    "holdfast serves acl/, agent/self and status/ of this API: see docs/compatibility.md\n"

static struct world w;

struct thing {
    const char *Name;
    int64_t Size;
};
static const struct field thing_fields[] = {FIELD(struct thing, Name, STRING),
                                            FIELD(struct thing, Size, INT)};
static const struct schema thing_schema = {.fields = thing_fields,
                                           .n = ARRAY_LEN(thing_fields),
                                           .size = sizeof(struct thing),
                                           .fold_case = true};
static const struct registry_row may_read = {
    .permission = "acl:read", .resource = REGISTRY_ACL, .level = REGISTRY_READ};
static const struct registry_row may_write = {
    .permission = "acl:write", .resource = REGISTRY_ACL, .level = REGISTRY_WRITE};

static enum status thing_read(struct req *req)
{
    if (strcmp(req_param(req, "name"), "none") == 0)
        return req_fail(req, ST_NOT_FOUND, "Requested thing does not exist");
    return req_reply(req, &(struct thing){.Name = req_param(req, "name"), .Size = 7});
}

static enum status thing_write(struct req *req)
{
    const struct thing *in = req_body(req);
    if (in->Size < 0)
        return req_fail(req, ST_REFUSED, "Invalid Thing: negative");
    req_warn(req, "size is large");
    return req_reply(req, in);
}

static enum status thing_delete(struct req *req)
{
    struct text_writer out = req_reply_begin(req);
    text_put_bool(&out, true);
    return req_reply_end(req);
}

static const struct route routes[] = {
    {.method = METHOD_GET,
     .path = ":name",
     .handler = thing_read,
     .of_dialect = &may_read,
     .reply = &thing_schema,
     .help = "Read a thing."},
    {.method = METHOD_PUT,
     .path = ":name",
     .handler = thing_write,
     .of_dialect = &may_write,
     .noun = "Thing",
     .body = &thing_schema,
     .reply = &thing_schema},
    {.method = METHOD_DELETE, .path = ":name", .handler = thing_delete, .of_dialect = &may_write},
};
static const struct route_api api = {.dialect = &registry_dialect,
                                     .prefix = "acl/thing/",
                                     .type = "registry",
                                     .routes = routes,
                                     .n = ARRAY_LEN(routes)};
static const struct route_api *const apis[] = {&api};
static const struct module thing_module = {.name = "thing", .apis = apis, .n_apis = 1};
static const struct module *const modules[] = {&thing_module, &token_module,    &cubbyhole_module,
                                               SYS_MODULES,   &registry_module, &kv_module};

static int open_world(void **ctx)
{
    (void)ctx;
    registry_settings_set(&(struct registry_settings){.acl = true, .datacenter = "dc1"});
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    world_close(&w);
    return 0;
}

/* A request whose token stands in the header; NULL: no token. */
static struct test_request *ask(enum http_method method, const char *target, const char *body,
                                const char *header, const char *token)
{
    static struct test_request t;
    test_request_done(&t);
    test_request_init(&t, method, target, body);
    if (header != NULL)
        test_request_header(&t, header, token);
    world_handle(&w, &t);
    assert_null(strstr(t.told, "Secrets"));
    assert_non_null(strstr(t.told, "Vary: Accept-Encoding\n"));
    assert_non_null(strstr(t.told, "X-Registry-Default-ACL-Policy: deny\n"
                                   "X-Consul-Default-ACL-Policy: deny\n"));
    assert_string_equal(t.type, t.http >= 400         ? "text/plain; charset=utf-8"
                                : t.body.data[0] != 0 ? "application/json"
                                                      : "");
    return &t;
}

static struct test_request *managed(enum http_method method, const char *target, const char *body)
{
    return ask(method, target, body, "x-consul-token", w.token);
}

static void assert_reply(const struct test_request *t, int http, const char *body)
{
    if (t->http != http || strcmp((const char *)t->body.data, body) != 0)
        fail_msg("%d %s, not %d %s", t->http, (const char *)t->body.data, http, body);
}

static void a_success_is_the_data_alone(void **ctx)
{
    (void)ctx;
    assert_reply(managed(METHOD_GET, "/v1/acl/thing/a", NULL), 200, "{\"Name\":\"a\",\"Size\":7}");
    assert_reply(managed(METHOD_GET, "/v1/acl/thing/a?pretty", NULL), 200,
                 "{\n    \"Name\": \"a\",\n    \"Size\": 7\n}\n");
    assert_reply(managed(METHOD_GET, "/v1/acl/thing/a?pretty=false&else=1", NULL), 200,
                 "{\n    \"Name\": \"a\",\n    \"Size\": 7\n}\n");
    assert_reply(managed(METHOD_DELETE, "/v1/acl/thing/a", NULL), 200, "true");
}

static void json_is_indented_by_four(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    registry_pretty(BYTES("{\"a\":[],\"b\":{},\"c\":[1,{\"d\":\"x\\\"{,:\"}],\"e\":null}"), &out);
    assert_status(buf_status(&out), ST_OK);
    buf_add_u8(&out, 0);
    assert_string_equal(out.data,
                        "{\n    \"a\": [],\n    \"b\": {},\n    \"c\": [\n        1,\n        {\n"
                        "            \"d\": \"x\\\"{,:\"\n        }\n    ],\n    \"e\": null\n}\n");
}

static void the_token_is_found_in_the_documented_order(void **ctx)
{
    (void)ctx;
    char target[160], bearer[160];
    (void)snprintf(target, sizeof target, "/v1/acl/thing/a?token=%s", w.token);
    assert_int_equal(ask(METHOD_GET, target, NULL, "x-consul-token", "wrong")->http, 200);
    assert_int_equal(
        ask(METHOD_GET, "/v1/acl/thing/a?token=", NULL, "x-registry-token", w.token)->http, 200);
    (void)snprintf(bearer, sizeof bearer, "bEaReR  %s more", w.token);
    assert_int_equal(ask(METHOD_GET, "/v1/acl/thing/a", NULL, "authorization", bearer)->http, 200);
    struct test_request *t =
        ask(METHOD_GET, "/v1/acl/thing/a?token=wrong", NULL, "x-consul-token", w.token);
    assert_reply(t, 403, "ACL not found");
    static const char *const others[] = {"x-secrets-token", "x-vault-token"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_int_equal(ask(METHOD_GET, "/v1/acl/thing/a", NULL, others[i], w.token)->http, 403);
}

static void a_client_without_a_right_is_told_which(void **ctx)
{
    (void)ctx;
    assert_reply(ask(METHOD_GET, "/v1/acl/thing/a", NULL, NULL, NULL), 403,
                 "Permission denied: anonymous token lacks permission 'acl:read'. The anonymous "
                 "token is used implicitly when a request does not specify a token.");
    assert_reply(ask(METHOD_PUT, "/v1/acl/thing/a", "{", NULL, NULL), 403,
                 "Permission denied: anonymous token lacks permission 'acl:write'. The anonymous "
                 "token is used implicitly when a request does not specify a token.");
    assert_reply(ask(METHOD_GET, "/v1/acl/thing/a", NULL, "x-consul-token", "unknown"), 403,
                 "ACL not found");
    struct test_request *t =
        world_request(&w, METHOD_POST, "/v1/auth/token/create", "{\"policies\":[\"default\"]}");
    const char *at = strstr((const char *)t->body.data, "\"client_token\":\"");
    assert_non_null(at);
    char token[128];
    (void)snprintf(token, sizeof token, "%.*s", (int)strcspn(at + 16, "\""), at + 16);
    assert_reply(ask(METHOD_GET, "/v1/acl/thing/a", NULL, "x-consul-token", token), 403,
                 "ACL not found");
}

static void bodies_are_strict(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *body;
        int http;
        const char *reply;
    } cases[] = {
        {"{\"nAME\":\"b\",\"size\":1}", 200, "{\"Name\":\"b\",\"Size\":1}"},
        {"", 400, "Thing decoding failed: EOF"},
        {"{\"Other\":1}", 400, "Thing decoding failed: json: unknown field \"Other\""},
        {"{\"Size\":[]}", 400, NULL},
        {"[]", 400, NULL},
        {"{\"Size\":-1}", 500, "Invalid Thing: negative"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct test_request *t = managed(METHOD_PUT, "/v1/acl/thing/a", cases[i].body);
        assert_int_equal(t->http, cases[i].http);
        if (cases[i].reply != NULL)
            assert_reply(t, cases[i].http, cases[i].reply);
        else
            assert_non_null(strstr((const char *)t->body.data, "Thing decoding failed: "));
    }
    struct test_request *t = managed(METHOD_PUT, "/v1/acl/thing/a", "{\"Size\":1}");
    assert_non_null(strstr(t->told, "X-Registry-Warning: size is large\n"
                                    "X-Consul-Warning: size is large\n"));
}

static void paths_and_methods_need_no_token(void **ctx)
{
    (void)ctx;
    static const char endpoint[] = NO_ENDPOINT;
    assert_reply(ask(METHOD_GET, "/v1/acl/thing/a/b", NULL, NULL, NULL), 404, endpoint);
    struct test_request *t = ask(METHOD_POST, "/v1/acl/thing/a", "{}", NULL, NULL);
    assert_reply(t, 405, "method POST not allowed");
    assert_string_equal(t->allow, "OPTIONS,GET,PUT,DELETE");
    t = ask(METHOD_OPTIONS, "/v1/acl/thing/a", NULL, NULL, NULL);
    assert_reply(t, 200, "");
    assert_string_equal(t->allow, "OPTIONS,GET,PUT,DELETE");
    t = ask(METHOD_GET, "/v1/acl/thing/a?help=1", NULL, NULL, NULL);
    assert_int_equal(t->http, 200);
    assert_non_null(strstr((const char *)t->body.data, "Read a thing."));
    w.node.sealed = true;
    assert_reply(ask(METHOD_PUT, "/v1/status/leader", "{}", NULL, NULL), 405,
                 "method PUT not allowed");
}

static void a_node_that_cannot_serve_says_so_in_its_words(void **ctx)
{
    (void)ctx;
    w.host.maintenance = true;
    assert_reply(managed(METHOD_GET, "/v1/acl/thing/a", NULL), 503, "this node is in maintenance");
    w.host.maintenance = false;
    w.node.sealed = true;
    assert_reply(managed(METHOD_GET, "/v1/acl/thing/a", NULL), 503, "this node is sealed");
    w.node.sealed = false;
    world_standby(&w, false);
    w.node.has_leader = false;
    w.forward_status[0] = ST_NO_LEADER;
    w.n_forward = 1;
    struct test_request *t = managed(METHOD_GET, "/v1/acl/thing/a", NULL);
    assert_int_equal(t->http, 500);
    assert_non_null(strstr((const char *)t->body.data, "No cluster leader"));
}

static void without_acls_only_their_paths_are_refused(void **ctx)
{
    (void)ctx;
    registry_settings_set(&(struct registry_settings){.datacenter = "dc1"});
    assert_reply(managed(METHOD_GET, "/v1/acl/thing/a", NULL), 401, "ACL support disabled");
    assert_reply(ask(METHOD_GET, "/v1/status/leader", NULL, "x-consul-token", "unknown"), 200,
                 "\"node1:8201\"");
}

static void the_status_needs_no_token(void **ctx)
{
    (void)ctx;
    assert_reply(ask(METHOD_GET, "/v1/status/leader", NULL, NULL, NULL), 200, "\"node1:8201\"");
    assert_int_equal(ask(METHOD_GET, "/v1/status/peers", NULL, NULL, NULL)->http, 200);
    w.node.leader_cluster[0] = '\0';
    assert_reply(ask(METHOD_GET, "/v1/status/leader", NULL, NULL, NULL), 200, "\"\"");
    w.node.sealed = true;
    static const char *const paths[] = {"/v1/status/leader", "/v1/status/peers"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        assert_reply(ask(METHOD_GET, paths[i], NULL, NULL, NULL), 503, "this node is sealed");
}

/* Send a GET of management, and fail unless the reply says so much. */
static void assert_told(const char *target, int http, const char *told)
{
    struct test_request *t = managed(METHOD_GET, target, NULL);
    if (t->http != http || strstr(t->told, told) == NULL)
        fail_msg("%s: %d %s, not %d %s", target, t->http, t->told, http, told);
}

static void reads_tell_how_new_they_are(void **ctx)
{
    (void)ctx;
    static const char confirmed[] = "X-Registry-Index: 1\nX-Consul-Index: 1\n"
                                    "X-Registry-KnownLeader: true\nX-Consul-KnownLeader: true\n"
                                    "X-Registry-LastContact: 0\nX-Consul-LastContact: 0\n"
                                    "X-Registry-Effective-Consistency: leader\n"
                                    "X-Consul-Effective-Consistency: leader\n";
    assert_told("/v1/acl/thing/a", 200, confirmed);
    assert_told("/v1/acl/thing/none", 404, confirmed);
    assert_told("/v1/acl/thing/a?stale&leader", 200, confirmed);
    assert_told("/v1/acl/thing/a?consistent", 200, "-Effective-Consistency: consistent\n");
    assert_told("/v1/acl/thing/a?stale", 200, "-Effective-Consistency: stale\n");
    assert_null(strstr(managed(METHOD_PUT, "/v1/acl/thing/a", "{}")->told, "Index"));
    assert_null(strstr(managed(METHOD_GET, "/v1/status/leader", NULL)->told, "Index"));
    assert_null(strstr(ask(METHOD_GET, "/v1/acl/thing/a", NULL, NULL, NULL)->told, "Index"));
}

static void a_stale_read_needs_no_leader(void **ctx)
{
    (void)ctx;
    world_standby(&w, false);
    w.node.has_leader = false;
    w.env.now_ms += 10000;
    w.contact_ms = 4321;
    w.read_status = ST_NO_LEADER;
    w.forward_status[0] = ST_NO_LEADER;
    w.n_forward = 1;
    assert_told("/v1/acl/thing/a?stale", 200,
                "X-Registry-KnownLeader: false\nX-Consul-KnownLeader: false\n"
                "X-Registry-LastContact: 4321\nX-Consul-LastContact: 4321\n");
    assert_told("/v1/acl/thing/a?max_stale=5s", 200, "-Effective-Consistency: stale\n");
    assert_int_equal(w.reads, 0);
    assert_int_equal(managed(METHOD_GET, "/v1/acl/thing/a?max_stale=4s", NULL)->http, 500);
    assert_int_equal(managed(METHOD_GET, "/v1/acl/thing/a?consistent", NULL)->http, 500);
    assert_int_equal(ask(METHOD_GET, "/v1/acl/thing/a?stale", NULL, NULL, NULL)->http, 403);
}

static void a_standby_confirms_what_is_too_old(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.env.now_ms += 10000;
    w.contact_ms = 4321;
    assert_told("/v1/acl/thing/a?max_stale=4s", 200, "-Effective-Consistency: leader\n");
    assert_int_equal(w.reads, 1);
    assert_told("/v1/acl/thing/a?stale", 200, "-LastContact: 4321\n");
    assert_int_equal(w.reads, 1);
}

static void parameters_of_reads_are_checked(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *query, *text;
    } cases[] = {
        {"index=x", "Invalid index"},
        {"index=-1", "Invalid index"},
        {"index=18446744073709551616", "Invalid index"},
        {"wait=x", "Invalid wait time"},
        {"wait=10", "Invalid wait time"},
        {"index=1&wait=-5s", "Invalid wait time"},
        {"max_stale=x", "Invalid max_stale value \"x\""},
        {"stale&consistent", "Cannot specify ?stale with ?consistent, conflicting semantics."},
        {"max_stale=1s&consistent",
         "Cannot specify ?stale with ?consistent, conflicting semantics."},
    };
    char target[128];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void)snprintf(target, sizeof target, "/v1/acl/thing/a?%s", cases[i].query);
        assert_reply(managed(METHOD_GET, target, NULL), 400, cases[i].text);
    }
    assert_int_equal(managed(METHOD_GET, "/v1/acl/thing/a?wait=0&filter=x&index=0", NULL)->http,
                     200);
    assert_reply(managed(METHOD_GET, "/v1/acl/thing/a?dc=dc2", NULL), 500, "No path to datacenter");
    assert_int_equal(managed(METHOD_GET, "/v1/acl/thing/a?dc=dc1", NULL)->http, 200);
}

static void a_wait_has_a_bound(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *query;
        uint32_t wait_ms, max_stale_ms;
    } cases[] = {
        {"index=1", 300000, 0},          {"index=1&wait=0", 300000, 0},
        {"index=1&wait=1ns", 1, 0},      {"index=1&wait=1500us", 2, 0},
        {"index=1&wait=10m", 600000, 0}, {"index=1&wait=2540400h", 600000, 0},
        {"max_stale=1ns", 300000, 1},    {"max_stale=2540400h", 300000, UINT32_MAX},
    };
    CLEANUP(arena_done) struct arena arena = {0};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct req req = {.arena = &arena, .method = METHOD_GET};
        struct text_value *query;
        assert_status(path_parse_pairs(&arena, bytes_str(cases[i].query), &query, NULL), ST_OK);
        req.query = query;
        assert_status(registry_read_query(&req), ST_OK);
        assert_int_equal(req.block.wait_ms, cases[i].wait_ms);
        assert_int_equal(req.max_stale_ms, cases[i].max_stale_ms);
    }
}

static void an_unknown_namespace_is_empty(void **ctx)
{
    (void)ctx;
    assert_reply(managed(METHOD_GET, "/v1/acl/thing/a?ns=b", NULL), 404,
                 "Namespace not found: \"b\"");
    assert_reply(managed(METHOD_PUT, "/v1/acl/thing/a?ns=b", "{}"), 500,
                 "Namespace \"b\" does not exist");
    assert_reply(managed(METHOD_GET, "/v1/acl/roles?ns=b", NULL), 200, "[]");
    assert_reply(managed(METHOD_GET, "/v1/acl/roles?ns=*", NULL), 200, "[]");
    assert_int_equal(ask(METHOD_GET, "/v1/acl/roles?ns=b", NULL, NULL, NULL)->http, 403);
    assert_reply(managed(METHOD_GET, "/v1/acl/thing/a?ns=*", NULL), 404,
                 "Namespace not found: \"*\"");
    assert_int_equal(managed(METHOD_GET, "/v1/acl/thing/a?ns=default", NULL)->http, 200);
    assert_reply(ask(METHOD_GET, "/v1/acl/thing/a", NULL, "x-consul-namespace", "b"), 403,
                 "Permission denied: anonymous token lacks permission 'acl:read'. The anonymous "
                 "token is used implicitly when a request does not specify a token.");
}

static void the_agent_describes_its_node(void **ctx)
{
    (void)ctx;
    struct test_request *t = managed(METHOD_GET, "/v1/agent/self", NULL);
    assert_int_equal(t->http, 200);
    assert_non_null(strstr((const char *)t->body.data,
                           "{\"Config\":{\"Datacenter\":\"dc1\",\"PrimaryDatacenter\":\"dc1\","
                           "\"NodeName\":\"node1\","));
    assert_int_equal(ask(METHOD_GET, "/v1/agent/self", NULL, NULL, NULL)->http, 403);
    static const char *const lists[] = {"roles", "auth-methods", "binding-rules"};
    char target[64];
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        (void)snprintf(target, sizeof target, "/v1/acl/%s", lists[i]);
        assert_reply(managed(METHOD_GET, target, NULL), 200, "[]");
        assert_int_equal(ask(METHOD_GET, target, NULL, NULL, NULL)->http, 403);
    }
}

/* Set a quota of two requests, and wait until requests look at the settings again. */
static void set_quota(const char *path, const char *shown)
{
    char body[128], wanted[64];
    (void)snprintf(body, sizeof body, "{\"path\":\"%s\",\"rate\":2,\"interval\":\"1h\"}", path);
    (void)snprintf(wanted, sizeof wanted, "\"path\":\"%s\"", shown);
    static const char quota[] = "/v1/sys/quotas/rate-limit/few";
    assert_int_equal(world_request(&w, METHOD_POST, quota, body)->http, 204);
    assert_body_has(world_request(&w, METHOD_GET, quota, NULL), wanted);
    w.env.now_ms += QUOTA_PATIENCE_MS;
    clock_run(&w.env);
}

static void assert_limited(const char *target, bool limited)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(managed(METHOD_GET, target, NULL)->http, 200);
    struct test_request *t = managed(METHOD_GET, target, NULL);
    if (limited)
        assert_reply(t, 429, "rate limit exceeded");
    else
        assert_int_equal(t->http, 200);
}

static void a_quota_of_the_registry_names_the_api(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *path, *shown;
        bool limits; /* acl/thing/ */
    } cases[] = {
        {"registry/acl/", "registry/acl/", true},
        {"registry/acl", "registry/acl/", true},
        {"registry", "registry/", true},
        {"registry/acl/th*", "registry/acl/th*", true},
        {"regi*", "regi*", true},
        {"", "", true},
        {"registry/acl/thing/a", "registry/acl/thing/a", true},
        {"registry/acl/thing/b", "registry/acl/thing/b", false},
        {"registry/agent/", "registry/agent/", false},
        {"sys/", "sys/", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void)close_world(ctx);
        (void)open_world(ctx);
        struct quota_table *table;
        assert_status(quota_table_new((uint64_t[2]){1, 2}, &table), ST_OK);
        router_worker_free(w.worker);
        w.host.quotas = table;
        assert_status(router_worker_new(&w.router, &w.env.env, w.state, &w.worker), ST_OK);
        set_quota(cases[i].path, cases[i].shown);
        assert_limited("/v1/acl/thing/a", cases[i].limits);
        router_worker_free(w.worker);
        w.host.quotas = NULL;
        assert_status(router_worker_new(&w.router, &w.env.env, w.state, &w.worker), ST_OK);
        quota_table_free(table);
    }
}

static void a_quota_of_a_path_that_no_api_serves_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const paths[] = {"registry/none", "registry/ac",    "registryx/",
                                        "regi",          "registry//acl/", "registry/none*"};
    char body[128];
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        (void)snprintf(body, sizeof body, "{\"path\":\"%s\",\"rate\":2}", paths[i]);
        assert_int_equal(
            world_request(&w, METHOD_POST, "/v1/sys/quotas/rate-limit/few", body)->http, 400);
    }
    static const char leases[] = "{\"path\":\"registry/acl/\",\"max_leases\":2}";
    assert_int_equal(world_request(&w, METHOD_POST, "/v1/sys/quotas/lease-count/few", leases)->http,
                     400);
}

static void other_paths_belong_to_the_secrets_service(void **ctx)
{
    (void)ctx;
    assert_non_null(
        strstr((const char *)world_request(&w, METHOD_GET, "/v1/acl2/a", NULL)->body.data,
               "{\"errors\":[\"no handler for route"));
    struct test_request *t =
        world_request(&w, METHOD_POST, "/v1/sys/mounts/acl", "{\"type\":\"kv\"}");
    assert_int_equal(t->http, 400);
}

#define SPECS "/v1/sys/internal/specs/openapi"

static void the_document_of_the_registry_has_its_routes(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_GET, SPECS "?api=registry", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "\"title\":\"Registry\"");
    assert_body_has(t, "\"/acl/thing/{name}\":{\"parameters\":[{\"name\":\"name\",\"in\":\"path\"");
    assert_body_has(t, "\"x-holdfast-method\":\"PUT\"");
    assert_body_has(t, "\"requestBody\":{\"content\":{\"application/json\":{\"schema\":{\"type\":"
                       "\"object\",\"properties\":{\"Name\":{\"type\":\"string\"}");
    assert_body_has(t, "\"x-holdfast-permission\":\"acl:write\"");
    assert_body_has(t, "{\"name\":\"max_stale\",\"in\":\"query\",\"schema\":{\"type\":\"string\"");
    assert_null(strstr((const char *)t->body.data, "/sys/health"));
    size_t len = t->body.len;
    assert_int_equal(
        world_request(&w, METHOD_GET, SPECS "?api=registry&generic_mount_paths=1", NULL)->body.len,
        len);
    assert_int_equal(shared_bytes(w.worker->docs.others[0].text).len + 1, len);
    assert_null(w.worker->docs.named.text);
}

static void the_document_of_another_api_is_as_before(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_GET, SPECS "?api=secrets", NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "/sys/health");
    assert_null(strstr((const char *)t->body.data, "/acl/thing"));
    size_t len = t->body.len;
    assert_int_equal(world_request(&w, METHOD_GET, SPECS, NULL)->body.len, len);
    t = world_request(&w, METHOD_GET, SPECS "?api=other", NULL);
    assert_int_equal(t->http, 400);
    assert_body_has(t, "'api' is invalid: one of registry, secrets is expected");
}

static void help_names_the_permission_and_the_document(void **ctx)
{
    (void)ctx;
    struct test_request *t = ask(METHOD_GET, "/v1/acl/thing/a?help=1", NULL, NULL, NULL);
    assert_int_equal(t->http, 200);
    assert_body_has(t, "Read a thing.\\n\\nNeeds the permission `acl:read`.\\n");
    assert_body_has(
        t, "\"see_also\":[\"acl/thing?help=1\",\"sys/internal/specs/openapi?api=registry\"]");
    t = ask(METHOD_GET, "/v1/acl/thing?help=1", NULL, NULL, NULL);
    assert_body_has(t, "\"paths\":{\"/{name}\":{");
    t = ask(METHOD_GET, "/v1/status?help=1", NULL, NULL, NULL);
    assert_body_has(t, "\"/leader\":{");
    assert_reply(ask(METHOD_GET, "/v1/status", NULL, NULL, NULL), 404, NO_ENDPOINT);
}

/* Send a GET without a token through a listener, or from another node, and give its status. */
static struct test_request *send_as(const char *target, const char *name,
                                    const struct dialect_map *dialects)
{
    static struct test_request t;
    test_request_done(&t);
    test_request_init(&t, METHOD_GET, target, NULL);
    t.forwarded_api = name;
    t.request.forwarded = name != NULL;
    w.dialects = dialects;
    world_handle(&w, &t);
    w.dialects = NULL;
    return &t;
}

static void a_listener_serves_its_apis_alone(void **ctx)
{
    (void)ctx;
    static const char endpoint[] = NO_ENDPOINT;
    static const char *const registry[] = {"registry"}, *const secrets[] = {"secrets"},
                             *const both[] = {"registry", "secrets"},
                             *const strange[] = {"secrets", "other"};
    struct dialect_map map;
    size_t unknown = 9;
    assert_status(router_choose(w.worker, registry, 1, &map, &unknown), ST_OK);
    assert_int_equal(send_as("/v1/status/leader", NULL, &map)->http, 200);
    assert_reply(send_as("/v1/sys/health", NULL, &map), 404, endpoint);
    assert_reply(send_as("/elsewhere", NULL, &map), 404, endpoint);
    assert_status(router_choose(w.worker, secrets, 1, &map, &unknown), ST_OK);
    assert_int_equal(send_as("/v1/sys/health", NULL, &map)->http, 200);
    assert_non_null(
        strstr((const char *)send_as("/v1/status/leader", NULL, &map)->body.data, "\"errors\""));
    assert_status(router_choose(w.worker, both, 2, &map, &unknown), ST_OK);
    assert_int_equal(send_as("/v1/sys/health", NULL, &map)->http, 200);
    assert_int_equal(send_as("/v1/status/leader", NULL, &map)->http, 200);
    assert_int_equal(send_as("/elsewhere", NULL, &map)->http, 404);
    assert_status(router_choose(w.worker, strange, 2, &map, &unknown), ST_NOT_FOUND);
    assert_int_equal(unknown, 1);
}

static void a_forwarded_request_keeps_its_api(void **ctx)
{
    (void)ctx;
    struct test_request *t = send_as("/v1/status/leader", "registry", NULL);
    assert_reply(t, 200, "\"node1:8201\"");
    assert_true(t->known_api);
    t = send_as("/v1/sys/health", "registry", NULL);
    assert_int_equal(t->http, 404);
    assert_string_equal(t->type, "text/plain; charset=utf-8");
    t = send_as("/v1/status/leader", "", NULL); /* it came to a listener without the registry */
    assert_true(t->known_api);
    assert_non_null(strstr((const char *)t->body.data, "\"errors\""));
    t = send_as("/v1/status/leader", "other", NULL);
    assert_false(t->known_api);
    assert_ptr_equal(t->request.dialect, router_home(w.worker));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)
    const struct CMUnitTest tests[] = {
        TEST(a_success_is_the_data_alone),
        TEST(json_is_indented_by_four),
        TEST(the_token_is_found_in_the_documented_order),
        TEST(a_client_without_a_right_is_told_which),
        TEST(bodies_are_strict),
        TEST(paths_and_methods_need_no_token),
        TEST(a_node_that_cannot_serve_says_so_in_its_words),
        TEST(without_acls_only_their_paths_are_refused),
        TEST(the_status_needs_no_token),
        TEST(reads_tell_how_new_they_are),
        TEST(a_stale_read_needs_no_leader),
        TEST(a_standby_confirms_what_is_too_old),
        TEST(parameters_of_reads_are_checked),
        TEST(a_wait_has_a_bound),
        TEST(an_unknown_namespace_is_empty),
        TEST(the_agent_describes_its_node),
        TEST(a_listener_serves_its_apis_alone),
        TEST(a_forwarded_request_keeps_its_api),
        TEST(the_document_of_the_registry_has_its_routes),
        TEST(the_document_of_another_api_is_as_before),
        TEST(help_names_the_permission_and_the_document),
        TEST(a_quota_of_the_registry_names_the_api),
        TEST(a_quota_of_a_path_that_no_api_serves_is_refused),
        TEST(other_paths_belong_to_the_secrets_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
