/* The world of the pipeline's tests: an API whose handlers do what each test needs. */
#ifndef HOLDFAST_TESTS_UNIT_ROUTER_PIPE_WORLD_H
#define HOLDFAST_TESTS_UNIT_ROUTER_PIPE_WORLD_H

#include "router/world.h"

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

static enum status run_once(struct req *req)
{
    enum status st = state_exists(req->txn, BYTES("s/count"));
    if (st == ST_OK)
        return req_fail(req, ST_INVALID, "was done before");
    return st == ST_NOT_FOUND ? run_add(req) : st;
}

/* Replies with the version of its commit, and with a text that has the byte of REPLY_VERSION. */
static enum status run_version(struct req *req)
{
    TRY(state_put(req->txn, BYTES("s/count"), BYTES("1")));
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_str(&w, "text", "a" REPLY_VERSION "b");
    text_key(&w, "versions");
    text_open_list(&w);
    text_put_raw(&w, BYTES(REPLY_VERSION));
    text_put_raw(&w, BYTES(REPLY_VERSION));
    text_close(&w);
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
    {.method = METHOD_POST, .path = "once", .handler = run_once},
    {.method = METHOD_POST, .path = "out", .handler = run_add, .outside = outside},
    {.method = METHOD_POST,
     .path = "ends",
     .handler = run_add,
     .outside = outside,
     .ends_with_client = true},
    {.method = METHOD_GET, .path = "out", .handler = run_count, .outside = outside},
    {.method = METHOD_POST, .path = "out-fail", .handler = run_stage_and_fail, .outside = outside},
    {.method = METHOD_GET, .path = "count", .handler = run_count},
    {.method = METHOD_POST, .path = "add", .handler = run_add},
    {.method = METHOD_GET, .path = "add", .handler = run_add},
    {.method = METHOD_POST, .path = "fail", .handler = run_stage_and_fail},
    {.method = METHOD_POST, .path = "version", .handler = run_version, .index = INDEX_VERSION},
    {.method = METHOD_POST, .path = "warn", .handler = run_warn},
    {.method = METHOD_POST,
     .path = "named/:name",
     .handler = run_named,
     .body = &named_schema,
     .reply = &named_schema},
    {.method = METHOD_POST, .path = "silent/:name", .handler = run_silent, .body = &named_schema},
    {.method = METHOD_POST, .path = "reads", .handler = run_count, .flags = ROUTE_READS},
    {.method = METHOD_GET, .path = "active", .handler = run_count, .place = PLACE_ACTIVE},
    {.method = METHOD_GET, .path = "stays", .handler = run_count, .place = PLACE_STAYS},
    {.method = METHOD_GET, .path = "sudo", .handler = run_count, .form = FORM_TOP_LEVEL},
    {.method = METHOD_POST, .path = "later", .handler = run_add, .feature = RLOG_FEATURE},
    {.method = METHOD_PATCH, .path = "patch", .handler = run_count},
    {.method = METHOD_POST,
     .path = "upload",
     .handler = run_count,
     .outside = outside,
     .input = INPUT_UPLOAD},
};
static const struct route_api test_api = {.dialect = &secrets_dialect,
                                          .prefix = "test/",
                                          .type = "test",
                                          .routes = test_routes,
                                          .n = ARRAY_LEN(test_routes)};
static const struct route_api *const test_apis[] = {&test_api};
static const struct module test_module = {.name = "test", .apis = test_apis, .n_apis = 1};
static const struct module *const modules[] = {&test_module, &token_module, &cubbyhole_module,
                                               SYS_MODULES, &kv_module};

static struct world w;

static int open_world(void **ctx)
{
    (void)ctx;
    runs = 0;
    outside_runs = 0;
    outside_result = ST_OK;
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

static inline void assert_count(const char *wanted)
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

static inline void someone_else_counts(struct world *world)
{
    struct rlog_txn_builder b = {0};
    CLEANUP(buf_done) struct buf encoded = {0};
    CLEANUP(buf_done) struct buf entry = {0};
    uint8_t sealed[3 + BARRIER_OVERHEAD];
    assert_status(
        barrier_encrypt(state_cipher(world->state), BYTES("s/count"), BYTES("100"), sealed), ST_OK);
    rlog_txn_put(&b, BYTES("s/count"), bytes_of(sealed, sizeof sealed));
    assert_status(rlog_txn_encode(&b, &encoded), ST_OK);
    struct bytes one = buf_bytes(&encoded);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &one, 1, &entry), ST_OK);
    rlog_machine_apply(&world->m, ++world->index, buf_bytes(&entry), NULL, NULL);
    rlog_txn_done(&b);
}

#endif
