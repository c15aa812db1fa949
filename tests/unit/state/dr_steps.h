/* Steps of a test with two clusters, and what a step is to leave behind. */
#ifndef HOLDFAST_TESTS_UNIT_STATE_DR_STEPS_H
#define HOLDFAST_TESTS_UNIT_STATE_DR_STEPS_H

#include "dr_world.h"

static inline void dr_assert_reads(struct state_world *w, const char *secret, const char *own)
{
    struct state_txn txn;
    struct state_value value;
    sw_begin(w, &txn);
    assert_status(state_get(&txn, BYTES("s/secret"), &value), ST_OK);
    assert_bytes(value.value, bytes_str(secret));
    if (own != NULL) {
        assert_status(state_get(&txn, BYTES("l/own"), &value), ST_OK);
        assert_bytes(value.value, bytes_str(own));
    }
    state_end(&txn);
}

/* What a node finds that starts anew and unseals by `seal`. */
static inline enum status dr_opens(struct state_world *w, const struct seal *seal)
{
    struct barrier *b = NULL;
    assert_status(barrier_new(&b), ST_OK);
    enum status st = state_unseal(w->m.store, b, seal, NULL);
    barrier_free(b);
    return st;
}

static inline enum status dr_opens_by(struct state_world *w, const uint8_t key[SEAL_KEY_BYTES])
{
    struct seal seal = {0};
    dr_shares(key, &seal);
    enum status st = dr_opens(w, &seal);
    seal_done(&seal);
    return st;
}

/* Start every node of a cluster anew, by its static seal or by shares of `key`. */
static inline void dr_restart(struct state_world *w, const struct seal *own,
                              const uint8_t key[SEAL_KEY_BYTES])
{
    struct seal shares = {0};
    struct reason why = {{0}};
    dr_shares(key, &shares);
    barrier_seal(w->barrier);
    assert_status(state_unseal(w->m.store, w->barrier, own != NULL ? own : &shares, &why), ST_OK);
    seal_done(&shares);
}

static inline enum status dr_check_key(struct state_world *w, const uint8_t key[SEAL_KEY_BYTES])
{
    struct state_txn txn;
    sw_begin(w, &txn);
    enum status st = state_check_key(&txn, bytes_of(key, SEAL_KEY_BYTES));
    state_end(&txn);
    return st;
}

/* A new root key; a cluster of key shares gets shares of `key`. */
static inline enum status dr_rekey(struct state_world *w, const struct seal *own,
                                   const uint8_t key[SEAL_KEY_BYTES])
{
    struct state_txn txn;
    struct seal seal = {0};
    if (own == NULL)
        dr_shares(key, &seal);
    sw_begin(w, &txn);
    enum status st = state_rekey(&txn, own != NULL ? own : &seal, DR_NOW_MS);
    seal_done(&seal);
    if (st != ST_OK) {
        state_end(&txn);
        return st;
    }
    assert_status(sw_commit(w, &txn), ST_OK);
    assert_status(state_follow(w->m.store, w->barrier), ST_OK);
    return ST_OK;
}

/* One run of the secondary's background work: whether nothing had to be renewed. */
static inline bool dr_upkeep(struct state_world *w, const struct seal *own, int64_t now_ms,
                             struct reason *ret_why)
{
    struct state_txn txn;
    struct state_dr_keys keys;
    sw_begin(w, &txn);
    assert_status(state_dr_upkeep(&txn, own, now_ms, &keys), ST_OK);
    if (state_staged(&txn))
        assert_status(sw_commit(w, &txn), ST_OK);
    else
        state_end(&txn);
    assert_status(state_follow(w->m.store, w->barrier), ST_OK);
    *ret_why = keys.why;
    return keys.settled;
}

static inline uint64_t dr_count(struct state_world *w, const char *prefix)
{
    struct store_pin pin;
    assert_status(store_pin(w->m.store, "test", 0, &pin), ST_OK);
    uint64_t n = store_count(&pin, bytes_str(prefix));
    store_unpin(&pin);
    return n;
}

/* The primary's background work, an hour later. */
static inline void dr_expire(struct state_world *w, uint64_t confirmed)
{
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_status(state_superseded_upkeep(&txn, DR_NOW_MS + DR_HOUR_MS, confirmed), ST_OK);
    if (state_staged(&txn))
        assert_status(sw_commit(w, &txn), ST_OK);
    else
        state_end(&txn);
}

/* The secondary becomes a primary. */
static inline enum status dr_promote(struct state_world *w, const struct seal *own,
                                     struct reason *reason)
{
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_status(state_delete(&txn, BYTES(STATE_FOLLOWING)), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK); /* replicated keys can be written from now on */
    sw_begin(w, &txn);
    enum status st = state_dr_promote(&txn, own, DR_NOW_MS, reason);
    if (st != ST_OK) {
        state_end(&txn);
        return st;
    }
    assert_status(sw_commit(w, &txn), ST_OK);
    return state_follow(w->m.store, w->barrier);
}

#endif
