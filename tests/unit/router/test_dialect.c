/* A second dialect beside the secrets service's dialect: no reply mixes the two. */
#include "router/world.h"

#include "router/header.h"
#include "router/quota.h"
#include "router/request/body.h"

static struct world w;
static struct quota_table *quotas;

/* Requests: a parameter or a header of its own carries the token, writes are PUT, fields are
 * strict.
 */

static enum status plain_method(struct req *req, const struct router_request *request)
{
    req->method = request->method;
    return ST_OK;
}

static struct bytes plain_namespace(const struct req *req, const struct router_request *request)
{
    (void)req, (void)request;
    return (struct bytes){0};
}

static struct bytes plain_token(const struct req *req, const struct router_request *request)
{
    const struct text_value *v = text_get(req->query, "token");
    return v != NULL && v->kind == TEXT_STRING
               ? v->text
               : header_either(request, "x-plain-token", "x-old-token");
}

static enum status plain_refuse_field(struct req *req, const char *field, const char *why)
{
    return req_fail(req, ST_INVALID, "cannot decode %s: %s", field, why);
}

static enum status plain_unknown_field(struct req *req, struct bytes field)
{
    return req_fail(req, ST_INVALID, "unknown field \"%.*s\"", (int)field.len,
                    (const char *)field.data);
}

/* Replies: the data alone; errors are text, and what is invalid is 500. */

static void plain_data(const struct req *req, struct bytes data, struct buf *out)
{
    buf_add(out, data);
    if (text_get(req->query, "pretty") != NULL)
        buf_add(out, BYTES("\n"));
}

static int plain_http(enum status st)
{
    return st == ST_INVALID ? 500 : status_http(st);
}

static const char *plain_text(enum status st)
{
    switch (st) {
    case ST_DENIED: return "no permission";
    case ST_UNSUPPORTED: return "method not allowed";
    case ST_SEALED: return "locked";
    case ST_NO_LEADER: return "no leader of the cluster";
    default: return status_text(st);
    }
}

static void plain_error(int http, const char *text, struct buf *out)
{
    (void)http; /* the same form for all */
    buf_add_str(out, text);
}

static void plain_no_path(struct req *req, bool served)
{
    reason_set(req_reason(req), "no such endpoint%s", served ? " here" : "");
}

static void plain_headers(const struct req *req, const struct router_request *request,
                          struct router_reply *reply)
{
    (void)request;
    header_tell(reply, req->arena, "X-Plain-Mode", "X-Old-Mode", BYTES("leader"));
}

static const struct dialect plain_dialect = {
    .name = "plain",
    .root = "/api/",
    .read_method = plain_method,
    .read_namespace = plain_namespace,
    .read_token = plain_token,
    .parse_body = body_parse,
    .refuse_field = plain_refuse_field,
    .unknown_field = plain_unknown_field,
    .silent_http = 200,
    .data_type = "application/json",
    .put_data = plain_data,
    .error_type = "text/plain; charset=utf-8",
    .error_http = plain_http,
    .error_text = plain_text,
    .put_error = plain_error,
    .body_too_long_text = "body too long",
    .say_no_path = plain_no_path,
    .add_headers = plain_headers,
};

struct thing {
    int64_t size;
};
static const struct field thing_fields[] = {FIELD(struct thing, size, INT, .required = true)};
static const struct schema thing_schema = SCHEMA(struct thing, thing_fields);

static enum status thing_read(struct req *req)
{
    const struct thing out = {.size = 7};
    return req_reply(req, &out);
}

static enum status thing_write(struct req *req)
{
    req_warn(req, "nobody reads warnings here");
    return req_body(req) != NULL ? ST_OK : ST_INTERNAL;
}

static const struct route thing_routes[] = {
    {.method = METHOD_GET, .path = ":name", .handler = thing_read, .reply = &thing_schema},
    {.method = METHOD_POST, .path = ":name", .handler = thing_write, .body = &thing_schema},
};
static const struct route_api thing_api = {.dialect = &plain_dialect,
                                           .prefix = "thing/",
                                           .type = "thing",
                                           .routes = thing_routes,
                                           .n = ARRAY_LEN(thing_routes)};

/* A part of the API of plain_dialect, with a root and a table of its own for every path below. */
static const struct dialect part_dialect = {
    .name = "part",
    .root = "/part/",
    .part_of = "plain",
    .read_method = plain_method,
    .read_namespace = plain_namespace,
    .read_token = plain_token,
    .parse_body = body_parse,
    .refuse_field = plain_refuse_field,
    .unknown_field = plain_unknown_field,
    .silent_http = 200,
    .data_type = "application/json",
    .put_data = plain_data,
    .error_type = "text/plain; charset=utf-8",
    .error_http = plain_http,
    .error_text = plain_text,
    .put_error = plain_error,
    .body_too_long_text = "body too long",
    .say_no_path = plain_no_path,
    .add_headers = plain_headers,
};
static const struct route part_routes[] = {
    {.method = METHOD_GET, .path = "one/:name", .handler = thing_read, .reply = &thing_schema},
    {.method = METHOD_GET, .path = "two", .handler = thing_read, .reply = &thing_schema},
};
static const struct route_api part_api = {.dialect = &part_dialect,
                                          .prefix = "",
                                          .type = "part",
                                          .routes = part_routes,
                                          .n = ARRAY_LEN(part_routes)};
static const struct route_api *const thing_apis[] = {&thing_api, &part_api};
static const struct module thing_module = {.name = "thing", .apis = thing_apis, .n_apis = 2};
static const struct module *const modules[] = {&thing_module, &token_module, &cubbyhole_module,
                                               SYS_MODULES, &kv_module};

static int open_world(void **ctx)
{
    (void)ctx;
    world_open(&w, modules, ARRAY_LEN(modules));
    router_worker_free(w.worker);
    assert_status(quota_table_new((uint64_t[2]){1, 2}, &quotas), ST_OK);
    w.host.quotas = quotas;
    w.host.hostname = "host1";
    w.host.node_id = "node1";
    assert_status(router_worker_new(&w.router, &w.env.env, w.state, &w.worker), ST_OK);
    world_init(&w);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    world_close(&w);
    quota_table_free(quotas);
    return 0;
}

/* Nothing that only the secrets service says, in no reply of the other dialect. */
static void assert_plain(const struct test_request *t)
{
    static const char *const foreign[] = {"errors",  "request_id", "wrap_info",
                                          "lease",   "warnings",   "Vault",
                                          "Secrets", "/v1",        "1 error occurred"};
    const char *body = (const char *)t->body.data;
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        if (strstr(body, foreign[i]) != NULL || strstr(t->told, foreign[i]) != NULL)
            fail_msg("%s in %d %s %s", foreign[i], t->http, t->told, body);
    assert_non_null(strstr(t->told, "X-Plain-Mode: leader\nX-Old-Mode: leader\n"));
    assert_false(t->has_id);
    assert_string_equal(t->type, t->http >= 400 ? "text/plain; charset=utf-8"
                                 : *body != 0   ? "application/json"
                                                : "");
}

static struct test_request *plain_send(struct test_request *t)
{
    world_handle(&w, t);
    assert_plain(t);
    return t;
}

static struct test_request *plain_new(enum http_method method, const char *target, const char *body)
{
    static struct test_request t;
    test_request_done(&t);
    test_request_init(&t, method, target, body);
    test_request_header(&t, "x-plain-token", w.token);
    return &t;
}

static void assert_reply(struct test_request *t, int http, const char *body)
{
    assert_int_equal(t->http, http);
    assert_body(t, body);
}

static void a_success_has_the_form_of_its_dialect(void **ctx)
{
    (void)ctx;
    assert_reply(plain_send(plain_new(METHOD_GET, "/api/thing/a", NULL)), 200, "{\"size\":7}");
    assert_reply(plain_send(plain_new(METHOD_GET, "/api/thing/a?pretty", NULL)), 200,
                 "{\"size\":7}\n");
}

static void a_success_without_data_is_silent_in_its_way(void **ctx)
{
    (void)ctx;
    static struct test_request t;
    test_request_init(&t, METHOD_PUT, "/api/thing/a", "{\"size\":1}");
    test_request_header(&t, "x-old-token", w.token);
    assert_int_equal(plain_send(&t)->http, 200);
    test_request_done(&t);
}

static void the_token_stands_where_the_dialect_says(void **ctx)
{
    (void)ctx;
    char target[128];
    static struct test_request t;
    (void)snprintf(target, sizeof target, "/api/thing/a?token=%s", w.token);
    test_request_init(&t, METHOD_GET, target, NULL);
    assert_int_equal(plain_send(&t)->http, 200);
    test_request_done(&t);
    test_request_init(&t, METHOD_GET, "/api/thing/a", NULL);
    test_request_header(&t, "x-secrets-token", w.token);
    assert_reply(plain_send(&t), 403, "no permission");
    test_request_done(&t);
}

static void refusals_have_the_texts_of_the_dialect(void **ctx)
{
    (void)ctx;
    assert_reply(plain_send(plain_new(METHOD_GET, "/api/other", NULL)), 404, "no such endpoint");
    assert_reply(plain_send(plain_new(METHOD_GET, "/api/thing/a/b", NULL)), 404,
                 "no such endpoint here");
    struct test_request *t = plain_send(plain_new(METHOD_DELETE, "/api/thing/a", NULL));
    assert_reply(t, 405, "method not allowed");
    assert_string_equal(t->allow, "GET, POST, PUT");
    assert_reply(plain_send(plain_new(METHOD_PUT, "/api/thing/a", "{\"size\":1,\"more\":2}")), 500,
                 "unknown field \"more\"");
    t = plain_send(plain_new(METHOD_PUT, "/api/thing/a", "{\"size\":\"large\"}"));
    assert_int_equal(t->http, 500);
    assert_body_has(t, "cannot decode size: ");
}

static void a_body_that_is_too_long_is_refused_in_its_words(void **ctx)
{
    (void)ctx;
    struct test_request *t = plain_new(METHOD_PUT, "/api/thing/a", NULL);
    t->request.streamed = true;
    t->request.body_length = 100 * 1024;
    t->late_status = ST_TOO_BIG;
    assert_reply(plain_send(t), 413, "body too long");
}

static void a_node_that_cannot_serve_says_so_in_its_words(void **ctx)
{
    (void)ctx;
    w.host.maintenance = true;
    assert_reply(plain_send(plain_new(METHOD_GET, "/api/thing/a", NULL)), 503,
                 "this node is in maintenance");
    w.host.maintenance = false;
    w.node.sealed = true;
    assert_reply(plain_send(plain_new(METHOD_GET, "/api/thing/a", NULL)), 503, "locked");
    w.node.sealed = false;
    world_standby(&w, false);
    w.node.has_leader = false;
    assert_reply(plain_send(plain_new(METHOD_GET, "/api/thing/a", NULL)), 503,
                 "no leader of the cluster");
}

static void quotas_are_refused_in_its_form(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_request(&w, METHOD_POST, "/v1/sys/quotas/rate-limit/all",
                                   "{\"path\":\"\",\"rate\":1}")
                         ->http,
                     204);
    w.env.now_ms += 2 * QUOTA_PATIENCE_MS;
    assert_int_equal(plain_send(plain_new(METHOD_GET, "/api/thing/a", NULL))->http, 200);
    struct test_request *t = plain_send(plain_new(METHOD_GET, "/api/thing/a", NULL));
    assert_int_equal(t->http, 429);
    assert_body_has(t, "rate limit quota exceeded");
}

/* The path decides: the same names below the other root are the other dialect's. */
static void the_secrets_service_keeps_its_dialect(void **ctx)
{
    (void)ctx;
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/thing/a", NULL);
    assert_int_equal(t->http, 404);
    assert_body_has(t, "{\"errors\":[\"no handler for route");
    assert_null(strstr(t->told, "Plain"));
    t = world_request(&w, METHOD_GET, "/v1/sys/mounts", NULL);
    assert_body_has(t, "\"wrap_info\":null");
    assert_non_null(strstr(t->told, "X-Vault-Hostname: host1\n"));
    t = world_request(&w, METHOD_GET, "/elsewhere", NULL);
    assert_reply(t, 404, "{\"errors\":[]}");
}

static void a_table_without_a_prefix_has_every_path_below_its_root(void **ctx)
{
    (void)ctx;
    assert_reply(plain_send(plain_new(METHOD_GET, "/part/one/a", NULL)), 200, "{\"size\":7}");
    assert_reply(plain_send(plain_new(METHOD_GET, "/part/two", NULL)), 200, "{\"size\":7}");
    assert_reply(plain_send(plain_new(METHOD_GET, "/part/three", NULL)), 404, "no such endpoint");
}

static void a_listener_of_an_api_serves_the_parts_of_the_api(void **ctx)
{
    static const char *const names[] = {"plain"}, *const others[] = {"secrets"};
    const struct module_list list = {modules, ARRAY_LEN(modules)};
    struct dialect_map all, chosen;
    size_t unknown;
    (void)ctx;
    dialect_map_init(&all, &list);
    assert_status(dialect_map_choose(&all, names, 1, &chosen, &unknown), ST_OK);
    assert_ptr_equal(dialect_find(&chosen, BYTES("/api/thing/a")), &plain_dialect);
    assert_ptr_equal(dialect_find(&chosen, BYTES("/part/two")), &part_dialect);
    assert_status(dialect_map_choose(&all, others, 1, &chosen, &unknown), ST_OK);
    assert_ptr_not_equal(dialect_find(&chosen, BYTES("/part/two")), &part_dialect);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)
    const struct CMUnitTest tests[] = {
        TEST(a_success_has_the_form_of_its_dialect),
        TEST(a_success_without_data_is_silent_in_its_way),
        TEST(the_token_stands_where_the_dialect_says),
        TEST(refusals_have_the_texts_of_the_dialect),
        TEST(a_body_that_is_too_long_is_refused_in_its_words),
        TEST(a_node_that_cannot_serve_says_so_in_its_words),
        TEST(quotas_are_refused_in_its_form),
        TEST(the_secrets_service_keeps_its_dialect),
        TEST(a_table_without_a_prefix_has_every_path_below_its_root),
        TEST(a_listener_of_an_api_serves_the_parts_of_the_api),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
