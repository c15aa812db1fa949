/* Two clusters: a primary, and a secondary with two nodes. Every row of the seal matrix has its
 * own seals. Nothing is sent: `ship` copies the replicated keys. */
#ifndef HOLDFAST_TESTS_UNIT_STATE_DR_WORLD_H
#define HOLDFAST_TESTS_UNIT_STATE_DR_WORLD_H

#include "state_world.h"

#include "raft/txn/rlog_wal.h"

#include "state/following.h"
#include "state/state_dr.h"

enum { DR_SHARES = 5, DR_THRESHOLD = 3 };
#define DR_NOW_MS INT64_C(1700000000000)
#define DR_HOUR_MS INT64_C(3600000)

/* The keys that shares of each cluster combine to, and a new one of the primary. */
static const uint8_t primary_key[SEAL_KEY_BYTES] = "what the primary's shares make.";
static const uint8_t secondary_key[SEAL_KEY_BYTES] = "what the second's shares make. ";
static const uint8_t later_key[SEAL_KEY_BYTES] = "what the primary's next make.  ";

struct dr_row {
    bool primary_static, secondary_static;
};

struct dr_world {
    struct dr_row row;
    struct state_world p, s;
    struct barrier *standby; /* of the secondary's other node */
};

static inline void dr_shares(const uint8_t key[SEAL_KEY_BYTES], struct seal *ret)
{
    assert_status(seal_shamir(bytes_of(key, SEAL_KEY_BYTES), DR_SHARES, DR_THRESHOLD, ret), ST_OK);
}

static inline void dr_cluster_open(struct state_world *w, bool is_static, const char *id,
                                   const uint8_t key[SEAL_KEY_BYTES], uint8_t seed)
{
    struct state_txn txn;
    const uint8_t file[32] = {seed};
    sw_open(w);
    w->worker.seed = 1000u * seed;
    w->raft.seed = 1000u * seed + 500;
    seal_done(&w->seal);
    if (is_static) {
        assert_status(seal_static(bytes_of(file, sizeof file), id, &w->seal, NULL), ST_OK);
        w->seal.shares = DR_SHARES;
        w->seal.threshold = DR_THRESHOLD;
    } else {
        dr_shares(key, &w->seal);
    }
    sw_init(w);
    sw_raise(w);
    if (is_static) {
        sw_begin(w, &txn);
        assert_status(
            state_put(&txn, BYTES(STATE_RECOVERY_KEY), bytes_of(key, STATE_RECOVERY_BYTES)), ST_OK);
        assert_status(sw_commit(w, &txn), ST_OK);
    }
}

static inline void dr_open(struct dr_world *w, struct dr_row row)
{
    *w = (struct dr_world){.row = row};
    dr_cluster_open(&w->p, row.primary_static, "p", primary_key, 3);
    dr_cluster_open(&w->s, row.secondary_static, "s", secondary_key, 7);
    sw_put(&w->p, "s/secret", "of the primary");
    sw_put(&w->s, "s/secret", "of the secondary");
    sw_put(&w->s, "l/own", "local");
    assert_status(barrier_new(&w->standby), ST_OK);
    assert_status(state_unseal(w->s.m.store, w->standby, &w->s.seal, NULL), ST_OK);
}

static inline void dr_close(struct dr_world *w)
{
    barrier_free(w->standby);
    sw_close(&w->p);
    sw_close(&w->s);
}

/* The configured seal of the secondary; NULL: key shares. */
static inline const struct seal *dr_own(struct dr_world *w)
{
    return w->row.secondary_static ? &w->s.seal : NULL;
}

static inline enum rlog_outcome dr_apply(struct state_world *w, struct rlog_txn_builder *b,
                                         uint64_t *ret_stage)
{
    CLEANUP(buf_done) struct buf txn = {0}, entry = {0};
    struct rlog_applied applied = {0};
    assert_status(rlog_txn_encode(b, &txn), ST_OK);
    rlog_txn_done(b);
    const struct bytes one = buf_bytes(&txn);
    assert_status(rlog_txn_check(one), ST_OK);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &one, 1, &entry), ST_OK);
    rlog_machine_apply(&w->m, ++w->index, buf_bytes(&entry), sw_each, &applied);
    if (ret_stage != NULL)
        *ret_stage = applied.stage;
    return applied.outcome;
}

/* Call `each` for every replicated key of a state. */
static inline void dr_walk(struct state_world *w,
                           void (*each)(void *ctx, const struct store_item *item), void *ctx)
{
    struct store_iter iter;
    struct store_pin pin;
    assert_status(store_pin(w->m.store, "test", 0, &pin), ST_OK);
    store_iter_init(&iter, &pin, BYTES("s/"), (struct bytes){0});
    while (store_iter_next(&iter))
        if (iter.item.key.len > 2)
            each(ctx, &iter.item);
    store_unpin(&pin);
}

/* A transaction for one of both states, and the other state. */
struct dr_copy {
    struct rlog_txn_builder txn;
    struct state_world *other;
};

static inline bool dr_has(struct state_world *w, struct bytes key, struct bytes *value)
{
    struct store_item item;
    struct store_pin pin;
    assert_status(store_pin(w->m.store, "test", 0, &pin), ST_OK);
    bool has = store_get(&pin, key, &item) == ST_OK;
    bool same = has && value != NULL && bytes_eq(item.value, *value);
    store_unpin(&pin);
    return value != NULL ? same : has;
}

static inline void dr_put_changed(void *ctx, const struct store_item *item)
{
    struct dr_copy *c = ctx;
    struct bytes value = item->value;
    if (!dr_has(c->other, item->key, &value))
        rlog_txn_put(&c->txn, item->key, item->value);
}

static inline void dr_delete_gone(void *ctx, const struct store_item *item)
{
    struct dr_copy *c = ctx;
    if (!dr_has(c->other, item->key, NULL))
        rlog_txn_delete(&c->txn, item->key);
}

/* Apply encoded operations as the next record of the primary's WAL. */
static inline void dr_follow(struct state_world *w, const struct buf *ops)
{
    struct rlog_txn_builder txn = {0};
    struct buf run = {0};
    buf_add_u8(&run, RLOG_WAL_OPS);
    buf_add_u64(&run, w->m.version + 1);
    buf_add_u64(&run, 0);
    buf_add_u32(&run, (uint32_t)ops->len);
    buf_add(&run, buf_bytes(ops));
    rlog_txn_wal(&txn, buf_bytes(&run));
    assert_int_equal(dr_apply(w, &txn, NULL), RLOG_APPLIED);
    rlog_txn_done(&txn);
    buf_done(&run);
}

/* What the stream does: the replicated keys of the secondary become those of the primary. */
static inline void dr_ship(struct state_world *from, struct state_world *to)
{
    struct dr_copy c = {.other = to};
    dr_walk(from, dr_put_changed, &c);
    c.other = from;
    dr_walk(to, dr_delete_gone, &c);
    if (c.txn.n_ops != 0)
        dr_follow(to, &c.txn.ops);
    rlog_txn_done(&c.txn);
}

static inline void dr_stage_put(void *ctx, const struct store_item *item)
{
    struct dr_copy *c = ctx;
    rlog_txn_stage_put(&c->txn, item->key, item->value, item->created, item->modified);
}

static inline void dr_source_add(void *ctx, const struct store_item *item)
{
    assert_status(state_dr_source_add(ctx, item->key, item->value), ST_OK);
}

/* The root key of a cluster, as activation hands it over. */
static inline void dr_root(struct state_world *w, struct secret *ret)
{
    struct box_key receiver = {0};
    CLEANUP(buf_done) struct buf boxed = {0};
    assert_status(box_key_new(&receiver), ST_OK);
    assert_status(barrier_hand_over(w->barrier, receiver.public_key, BYTES("dr"), &boxed), ST_OK);
    assert_status(box_open(&receiver, BYTES("dr"), buf_bytes(&boxed), ret), ST_OK);
    box_key_done(&receiver);
}

/* The first sync of `to` from `from`. `root` is NULL if links lead to it. */
static inline enum status dr_adopt(struct state_world *from, struct state_world *to,
                                   const struct seal *own, const struct secret *root,
                                   struct reason *reason)
{
    struct dr_copy c = {0};
    struct state_dr_source source = {0};
    uint64_t stage = 0, version = MAX(from->m.version, to->m.version + 1);
    rlog_txn_put(&c.txn, BYTES(STATE_FOLLOWING), BYTES(""));
    rlog_txn_stage_begin(&c.txn);
    assert_int_equal(dr_apply(to, &c.txn, &stage), RLOG_APPLIED);
    rlog_txn_need_stage(&c.txn, stage);
    dr_walk(from, dr_stage_put, &c);
    assert_int_equal(dr_apply(to, &c.txn, NULL), RLOG_APPLIED);
    dr_walk(from, dr_source_add, &source);
    const struct state_dr_adopt in = {.store = to->m.store,
                                      .barrier = to->barrier,
                                      .env = &to->worker.env,
                                      .source = &source,
                                      .root = root,
                                      .own = own,
                                      .version = version,
                                      .now_ms = DR_NOW_MS};
    rlog_txn_need_stage(&c.txn, stage);
    rlog_txn_stage_swap_at(&c.txn, version, 0);
    enum status st = state_dr_adopt(&in, &c.txn, reason);
    if (st == ST_OK)
        assert_int_equal(dr_apply(to, &c.txn, NULL), RLOG_APPLIED);
    rlog_txn_done(&c.txn);
    state_dr_source_done(&source);
    return st;
}

/* Sync the secondary of a world, whose nodes follow. */
static inline void dr_sync(struct dr_world *w)
{
    CLEANUP(secret_done) struct secret root = {0};
    struct reason why = {{0}};
    dr_root(&w->p, &root);
    assert_status(dr_adopt(&w->p, &w->s, dr_own(w), &root, &why), ST_OK);
    assert_status(state_follow(w->s.m.store, w->s.barrier), ST_OK);
}

#endif
