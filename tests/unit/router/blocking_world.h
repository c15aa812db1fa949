/* The world of the tests of blocking requests: an API that reads a key, or lists a prefix, and
 * watches what it reads. */
#ifndef HOLDFAST_TESTS_UNIT_ROUTER_BLOCKING_WORLD_H
#define HOLDFAST_TESTS_UNIT_ROUTER_BLOCKING_WORLD_H

#include "router/world.h"

static uint64_t seen_index;
static unsigned seen_runs;

static enum status run_key(struct req *req)
{
    struct state_value stored;
    const char *key = arena_format(req->arena, "s/watched/%s", req_param(req, "name"));
    if (key == NULL)
        return ST_NOMEM;
    seen_runs++;
    TRY(req_watch_key(req, bytes_str(key)));
    seen_index = req->index;
    TRY(state_get(req->txn, bytes_str(key), &stored));
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_int(&w, "index", (int64_t)req->index);
    text_close(&w);
    return req_reply_end(req);
}

static enum status run_list(struct req *req)
{
    seen_runs++;
    TRY(req_watch_prefix(req, BYTES("s/watched/")));
    seen_index = req->index;
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
    return req_watch_key(req, BYTES("nowhere"));
}

static const struct route blocking_routes[] = {
    {.method = METHOD_GET, .path = "key/:name", .handler = run_key, .flags = ROUTE_BLOCKING},
    {.method = METHOD_LIST, .path = "keys", .handler = run_list, .flags = ROUTE_BLOCKING},
    {.method = METHOD_GET, .path = "wrong", .handler = run_wrong, .flags = ROUTE_BLOCKING},
    {.method = METHOD_POST, .path = "key/:name", .handler = run_put},
    {.method = METHOD_DELETE, .path = "key/:name", .handler = run_delete},
};
static const struct route_api blocking_api = {.dialect = &secrets_dialect,
                                              .prefix = "blocking/",
                                              .type = "blocking",
                                              .routes = blocking_routes,
                                              .n = ARRAY_LEN(blocking_routes)};
static const struct route_api *const blocking_apis[] = {&blocking_api};
static const struct module blocking_module = {
    .name = "blocking", .apis = blocking_apis, .n_apis = 1};
static const struct module *const modules[] = {&blocking_module, &token_module, &cubbyhole_module,
                                               &sys_module, &kv_module};

static struct world w;

static int open_world(void **ctx)
{
    (void)ctx;
    seen_index = 0;
    seen_runs = 0;
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
