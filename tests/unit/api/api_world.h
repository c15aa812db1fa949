/* For tests of the API: a world (router/world.h) with the route tables of every API; set-up,
 * teardown and requests. */
#ifndef HOLDFAST_TESTS_UNIT_API_API_WORLD_H
#define HOLDFAST_TESTS_UNIT_API_API_WORLD_H

#include "auth/token_tree.h"
#include "base/mem.h"
#include "router/world.h"
#include "state/feature.h"

static struct world w;
static char root[64]; /* the first token, also where a test gives w.token another one */

static inline int open_fresh(void **ctx)
{
    static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                                   &kv_module};
    (void)ctx;
    world_open(&w, modules, ARRAY_LEN(modules));
    return 0;
}

/* Apply an entry that puts `value` at `key` as it is, not encrypted. */
static inline void world_put(const char *key, const char *value)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    CLEANUP(buf_done) struct buf encoded = {0};
    CLEANUP(buf_done) struct buf entry = {0};
    rlog_txn_put(&txn, bytes_str(key), bytes_str(value));
    assert_status(rlog_txn_encode(&txn, &encoded), ST_OK);
    const struct bytes one = buf_bytes(&encoded);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &one, 1, &entry), ST_OK);
    rlog_machine_apply(&w.m, ++w.index, buf_bytes(&entry), NULL, NULL);
}

/* The record of the newest feature level: what is stored from now on has its forms. */
static inline void world_raise(void)
{
    char level[8];
    (void)snprintf(level, sizeof level, "%u", RLOG_FEATURE);
    world_put(STATE_FEATURE_RAISED, level);
}

static inline int open_world(void **ctx)
{
    (void)open_fresh(ctx);
    world_init(&w);
    world_raise();
    (void)snprintf(root, sizeof root, "%s", w.token);
    return 0;
}

static inline int close_world(void **ctx)
{
    (void)ctx;
    world_close(&w);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

static inline const char *text(const struct test_request *t)
{
    return (const char *)t->body.data;
}

static inline void full_propose(struct state_log *log, struct rlog_propose *p)
{
    if (p->upkeep)
        world_propose(log, p);
    else
        p->done(p, ST_STATE_FULL);
}

/* From now on the state takes only what a full one takes. */
static inline void set_full(bool full)
{
    w.log.propose = full ? full_propose : world_propose;
}

/* With this status, and with this text in it unless NULL. */
static inline struct test_request *expect(struct test_request *t, int http, const char *part)
{
    if (t->http != http || (part != NULL && strstr(text(t), part) == NULL))
        fail_msg("%.*s: wanted %d %s, have %d %s", (int)t->request.target.full.len,
                 (const char *)t->request.target.full.data, http, part != NULL ? part : "", t->http,
                 text(t));
    return t;
}

/* A call of root's. */
static inline struct test_request *request(enum http_method method, const char *target,
                                           const char *body, int http)
{
    return expect(world_request(&w, method, target, body), http, NULL);
}

/* A call that speaks for `token`; `path` is below "/v1/". */
static inline struct test_request *as(const char *token, enum http_method method, const char *path,
                                      const char *body)
{
    static struct test_request t;
    static char target[AUTH_TOKEN_MAX + 100];
    (void)snprintf(target, sizeof target, "/v1/%s", path);
    test_request_done(&t);
    test_request_init(&t, method, target, body);
    test_request_header(&t, "x-secrets-token", token);
    world_handle(&w, &t);
    return &t;
}

/* Keys of the namespaces' data in the state, and of the indexes of all namespaces. */
static inline unsigned count_keys(void)
{
    static const char *const prefixes[] = {"s/ns/", "s/expire/", "s/unfinished/"};
    struct store_pin pin;
    struct store_iter *iter = mem_alloc(sizeof *iter);
    unsigned n = 0;
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        store_iter_init(iter, &pin, bytes_str(prefixes[i]), BYTES(""));
        while (store_iter_next(iter))
            n++;
    }
    store_unpin(&pin);
    mem_free(iter);
    return n;
}

static inline void saved(struct state_commit *c, enum status st)
{
    (void)c;
    assert_status(st, ST_OK);
}

/* One round of a part of the active node's background work; false: there was nothing to do. */
static inline bool round_of(enum status (*part)(struct state_txn *txn, int64_t now_ms))
{
    struct arena arena = {0};
    struct state_txn txn;
    struct state_commit commit = {.done = saved};
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(part(&txn, 1700000000000 + w.later_ms), ST_OK);
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

static inline enum status upkeep_part(struct state_txn *txn, int64_t now_ms)
{
    static struct expiry_counts counts;
    struct lease_kinds leases = {0};
    struct expiry_kinds kinds = {.leases = &leases, .counts = &counts};
    module_lease_kinds(&w.router.options.modules, &leases);
    module_expiry_kinds(&w.router.options.modules, &kinds);
    return expiry_upkeep(&kinds, txn, now_ms, EXPIRY_STEPS);
}

/* One round of the duty that ends what ends by itself. */
static inline bool upkeep(void)
{
    return round_of(upkeep_part);
}

#endif
