/* A state machine with a store of its own, and short functions to apply entries and read the store.
 * */
#ifndef HOLDFAST_TESTS_UNIT_RAFT_MACHINE_WORLD_H
#define HOLDFAST_TESTS_UNIT_RAFT_MACHINE_WORLD_H

#include "state/fake_env.h"
#include "support.h"

#include "base/mem.h"
#include "raft/txn/rlog_txn.h"

struct world {
    struct fake_env env;
    struct rlog_machine m;
    uint64_t index;
    int64_t time_ms;
    struct rlog_applied applied; /* of the last transaction; `conflict` and `response` copied: */
    char conflict[64], response[64];
};

static inline void world_open(struct world *w)
{
    *w = (struct world){.time_ms = 1000};
    fake_env_init(&w->env, 1);
    assert_status(store_new(&w->env.env, &w->m.store), ST_OK);
}

static inline void world_close(struct world *w)
{
    fake_env_run(&w->env); /* background release */
    store_free(w->m.store);
}

static inline void world_copy(char out[64], struct bytes b)
{
    assert_true(b.len < 64);
    if (b.len != 0)
        memcpy(out, b.data, b.len);
    out[b.len] = '\0';
}

static inline void world_each(void *ctx, unsigned i, const struct rlog_applied *applied)
{
    struct world *w = ctx;
    (void)i;
    w->applied = *applied;
    world_copy(w->conflict, applied->conflict);
    if (applied->response.len < 64)
        world_copy(w->response, applied->response);
}

/* One entry of encoded transactions. */
static inline void world_apply_all(struct world *w, const struct bytes *txns, unsigned n)
{
    struct buf entry = {0};
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, w->time_ms, txns, n, &entry), ST_OK);
    assert_status(rlog_entry_check(buf_bytes(&entry)), ST_OK);
    rlog_machine_apply(&w->m, ++w->index, buf_bytes(&entry), world_each, w);
    buf_done(&entry);
    fake_env_run(&w->env);
}

/* One entry with what `b` holds, which is then empty again. */
static inline enum rlog_outcome world_apply(struct world *w, struct rlog_txn_builder *b)
{
    struct buf txn = {0};
    assert_status(rlog_txn_encode(b, &txn), ST_OK);
    world_apply_all(w, &(struct bytes){txn.data, txn.len}, 1);
    buf_done(&txn);
    rlog_txn_done(b);
    return w->applied.outcome;
}

static inline enum rlog_outcome world_put(struct world *w, const char *key, const char *value)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_put(&b, bytes_str(key), bytes_str(value));
    return world_apply(w, &b);
}

static inline enum rlog_outcome world_delete(struct world *w, const char *key)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_delete(&b, bytes_str(key));
    return world_apply(w, &b);
}

static inline void world_pin(struct world *w, struct store_pin *pin)
{
    assert_status(store_pin(w->m.store, "test", 0, pin), ST_OK);
}

/* The version that last changed `key`, 0 when it is absent; NULL or its value otherwise. */
static inline uint64_t world_get(struct world *w, const char *key, char ret_value[64])
{
    struct store_pin pin;
    struct store_item item = {0};
    world_pin(w, &pin);
    if (store_get(&pin, bytes_str(key), &item) == ST_OK && ret_value != NULL)
        world_copy(ret_value, item.value);
    store_unpin(&pin);
    return item.modified;
}

static inline uint64_t world_newest(struct world *w, const char *prefix)
{
    struct store_pin pin;
    world_pin(w, &pin);
    uint64_t newest = store_newest(&pin, bytes_str(prefix));
    store_unpin(&pin);
    return newest;
}

#define assert_value(w, key, wanted)                     \
    do {                                                 \
        char value_[64] = "";                            \
        assert_true(world_get((w), (key), value_) != 0); \
        assert_string_equal(value_, (wanted));           \
    } while (0)
#define assert_absent(w, key) assert_int_equal(world_get((w), (key), NULL), 0)
#define assert_versions(w, shared, local)                \
    do {                                                 \
        assert_int_equal((w)->m.version, (shared));      \
        assert_int_equal((w)->m.local_version, (local)); \
    } while (0)

static inline enum status world_collect(void *ctx, struct bytes content)
{
    buf_add(ctx, content);
    return buf_status(ctx);
}

static inline void world_dump(struct world *w, struct buf *out)
{
    struct rlog_machine_dump dump;
    assert_status(rlog_machine_dump_begin(&w->m, &dump), ST_OK);
    assert_status(rlog_machine_dump_run(&dump, world_collect, out), ST_OK);
    rlog_machine_dump_end(&dump);
}

/* In pieces of `piece` bytes. */
static inline enum status world_load(struct world *w, struct bytes content, size_t piece)
{
    struct rlog_machine_load *l = NULL;
    TRY(rlog_machine_load_begin(&w->m, &l));
    for (size_t at = 0; at < content.len; at += piece) {
        struct bytes part = bytes_from(content, at);
        part.len = MIN(part.len, piece);
        if (rlog_machine_load_piece(l, part) != ST_OK)
            break; /* and rlog_machine_load_end says why */
    }
    return rlog_machine_load_end(l);
}

#endif
