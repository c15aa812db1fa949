/* The world of the tests of blocking requests: an API that reads a key, or lists a prefix, and
 * watches what it reads. */
#ifndef HOLDFAST_TESTS_UNIT_ROUTER_BLOCKING_WORLD_H
#define HOLDFAST_TESTS_UNIT_ROUTER_BLOCKING_WORLD_H

#include "router/world.h"

static uint64_t seen_index;
static unsigned seen_runs;
static void (*after_read)(void); /* called once, between the read and the reply */
static uint64_t run_takes_ms;    /* what a run adds to the clock */
static struct world w;

static void seen_now(void)
{
    void (*after)(void) = after_read;
    after_read = NULL;
    w.env.now_ms += run_takes_ms;
    if (after != NULL)
        after();
}

static enum status run_key(struct req *req)
{
    struct state_value stored;
    const char *key = arena_format(req->arena, "s/watched/%s", req_param(req, "name"));
    if (key == NULL)
        return ST_NOMEM;
    seen_runs++;
    TRY(req_watch_key(req, bytes_str(key)));
    seen_index = req->index;
    seen_now();
    TRY(state_get(req->txn, bytes_str(key), &stored));
    struct text_writer out = req_reply_begin(req);
    text_open_object(&out);
    text_member_int(&out, "index", (int64_t)req->index);
    text_close(&out);
    return req_reply_end(req);
}

/* Read and watch in one step; the index is that of a watch alone. */
static enum status run_read(struct req *req)
{
    struct state_value stored;
    const char *key = arena_format(req->arena, "s/watched/%s", req_param(req, "name"));
    if (key == NULL)
        return ST_NOMEM;
    enum status st = req_watch_get(req, bytes_str(key), &stored);
    seen_index = req->index;
    req->index = 0;
    TRY(req_watch_key(req, bytes_str(key)));
    assert_int_equal(req->index, seen_index);
    return st;
}

static enum status run_list(struct req *req)
{
    seen_runs++;
    TRY(req_watch_prefix(req, BYTES("s/watched/")));
    seen_index = req->index;
    seen_now();
    return req_reply_listing(req, BYTES("s/watched/"));
}

static enum status run_put(struct req *req)
{
    const char *key = arena_format(req->arena, "s/watched/%s", req_param(req, "name"));
    return key != NULL ? state_put(req->txn, bytes_str(key), BYTES("x")) : ST_NOMEM;
}

static enum status run_delete(struct req *req)
{
    const char *key = arena_format(req->arena, "s/watched/%s", req_param(req, "name"));
    return key != NULL ? state_delete(req->txn, bytes_str(key)) : ST_NOMEM;
}

static enum status run_wrong(struct req *req)
{
    struct state_value stored;
    assert_status(req_watch_get(req, BYTES("nowhere"), &stored), ST_INVALID);
    assert_status(req_watch_get(req, BYTES("l/local"), &stored), ST_INVALID);
    return req_watch_key(req, BYTES("nowhere"));
}

static const struct route blocking_routes[] = {
    {.method = METHOD_GET, .path = "key/:name", .handler = run_key, .index = INDEX_BLOCKS},
    {.method = METHOD_GET, .path = "read/:name", .handler = run_read, .index = INDEX_BLOCKS},
    {.method = METHOD_LIST, .path = "keys", .handler = run_list, .index = INDEX_BLOCKS},
    {.method = METHOD_GET, .path = "wrong", .handler = run_wrong, .index = INDEX_BLOCKS},
    {.method = METHOD_POST, .path = "key/:name", .handler = run_put},
    {.method = METHOD_DELETE, .path = "key/:name", .handler = run_delete},
};

/* The secrets dialect, whose clients may also say which index they have. */
static struct dialect blocking_dialect;

static enum status read_block(struct req *req, const struct router_request *request)
{
    struct bytes index = router_header(request, "x-index"), wait = router_header(request, "x-wait");
    int64_t n;
    if (index.len != 0 && text_int_parse(index, &n) == ST_OK)
        req->block = (struct req_block){.index = (uint64_t)n, .wait_ms = 16000};
    if (wait.len != 0 && text_int_parse(wait, &n) == ST_OK)
        req->block.wait_ms = (uint32_t)n;
    return secrets_dialect.read_headers(req, request);
}

static const struct route_api blocking_api = {.dialect = &blocking_dialect,
                                              .prefix = "blocking/",
                                              .type = "blocking",
                                              .routes = blocking_routes,
                                              .n = ARRAY_LEN(blocking_routes)};
static const struct route_api *const blocking_apis[] = {&blocking_api};
static const struct module blocking_module = {
    .name = "blocking", .apis = blocking_apis, .n_apis = 1};
static const struct module *const modules[] = {&blocking_module, &token_module, &cubbyhole_module,
                                               SYS_MODULES, &kv_module};

/* A commit of another request, between the phases of the one under way. */
static inline void someone_else_puts(struct world *world, const char *key)
{
    struct rlog_txn_builder b = {0};
    CLEANUP(buf_done) struct buf encoded = {0};
    CLEANUP(buf_done) struct buf entry = {0};
    uint8_t sealed[1 + BARRIER_OVERHEAD];
    assert_status(barrier_encrypt(state_cipher(world->state), bytes_str(key), BYTES("x"), sealed),
                  ST_OK);
    rlog_txn_put(&b, bytes_str(key), bytes_of(sealed, sizeof sealed));
    assert_status(rlog_txn_encode(&b, &encoded), ST_OK);
    struct bytes one = buf_bytes(&encoded);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &one, 1, &entry), ST_OK);
    rlog_machine_apply(&world->m, ++world->index, buf_bytes(&entry), NULL, NULL);
    rlog_txn_done(&b);
}

static int open_world(void **ctx)
{
    (void)ctx;
    seen_index = 0;
    seen_runs = 0;
    after_read = NULL;
    run_takes_ms = 0;
    blocking_dialect = secrets_dialect;
    blocking_dialect.name = "blocking";
    blocking_dialect.root = "/b/";
    blocking_dialect.mounts = false;
    blocking_dialect.read_headers = read_block;
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

#endif
