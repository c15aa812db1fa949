/* A worker thread and a raft thread, simulated: each has an env that the test steps by hand, over a
 * log that applies at once. */
#ifndef HOLDFAST_TESTS_UNIT_STATE_STATE_WORLD_H
#define HOLDFAST_TESTS_UNIT_STATE_STATE_WORLD_H

#include "state/fake_env.h"
#include "support.h"

#include "base/mem.h"
#include "raft/txn/rlog_txn.h"
#include "state/feature.h"
#include "state/state_core.h"

#include <stdio.h>

struct state_world {
    struct fake_env worker, raft;
    struct rlog_machine m;
    uint64_t index;
    struct state_log log;
    struct seal seal;
    struct barrier *barrier;
    struct state *state;
    struct arena arena;
    /* What the log does: */
    enum status propose_status, read_status; /* instead of its work, when not ST_OK */
    uint64_t ticket_next, ticket_dropped, ticket_seen;
    unsigned proposals, reads;
    bool upkeep_seen;
    struct buf last_txn;
    bool deaf; /* tasks of the raft thread are not run */
};

static inline void sw_each(void *ctx, unsigned i, const struct rlog_applied *applied)
{
    (void)i;
    *(struct rlog_applied *)ctx = *applied;
}

static inline void sw_propose(struct state_log *log, struct rlog_propose *p)
{
    struct state_world *w = log->ctx;
    struct buf entry = {0};
    w->proposals++;
    w->ticket_seen = p->ticket;
    w->upkeep_seen = p->upkeep;
    enum status st = w->propose_status;
    if (st == ST_OK)
        st = rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &p->txn, 1, &entry);
    if (st == ST_OK) {
        assert_status(rlog_txn_check(p->txn), ST_OK);
        buf_clear(&w->last_txn);
        buf_add(&w->last_txn, p->txn);
        rlog_machine_apply(&w->m, ++w->index, buf_bytes(&entry), sw_each, &p->applied);
        if (p->applied.outcome == RLOG_CONFLICTED) {
            st = ST_CONFLICT;
            p->ticket = w->ticket_next;
        }
    }
    p->done(p, st);
    buf_done(&entry);
}

static inline void sw_read(struct state_log *log, struct rlog_read *r)
{
    struct state_world *w = log->ctx;
    w->reads++;
    r->time_ms = 4711;
    r->done(r, w->read_status);
}

static inline void sw_ticket_drop(struct state_log *log, uint64_t ticket)
{
    ((struct state_world *)log->ctx)->ticket_dropped = ticket;
}

/* Until nothing is left to do on either thread. */
static inline void sw_run(struct state_world *w)
{
    while (fake_env_step(&w->worker) || (!w->deaf && fake_env_step(&w->raft)))
        ;
}

/* Uninitialised. */
static inline void sw_open(struct state_world *w)
{
    static const uint8_t key[32] = {9};
    *w = (struct state_world){.ticket_next = 77};
    fake_env_init(&w->worker, 1);
    fake_env_init(&w->raft, 2);
    assert_status(crypto_init(NULL), ST_OK);
    assert_status(store_new(&w->raft.env, &w->m.store), ST_OK);
    w->log = (struct state_log){&w->raft.env, w->m.store, sw_propose, sw_read, sw_ticket_drop, w};
    assert_status(seal_static(bytes_of(key, 32), "k", &w->seal, NULL), ST_OK);
    assert_status(barrier_new(&w->barrier), ST_OK);
    assert_status(state_new(&w->worker.env, &w->log, w->barrier, &w->state), ST_OK);
}

static inline void sw_close(struct state_world *w)
{
    w->deaf = false;
    sw_run(w);
    state_free(w->state);
    barrier_free(w->barrier);
    seal_done(&w->seal);
    store_free(w->m.store);
    arena_done(&w->arena);
    buf_done(&w->last_txn);
}

/* A commit and what it came to. */
struct sw_commit {
    struct state_commit c;
    unsigned calls;
    enum status st;
};

static inline void sw_on_commit(struct state_commit *c, enum status st)
{
    struct sw_commit *s = CONTAINER_OF(c, struct sw_commit, c);
    s->calls++;
    s->st = st;
}

static inline enum status sw_commit_with(struct state_world *w, struct state_txn *txn,
                                         struct sw_commit *s)
{
    s->c.done = sw_on_commit;
    s->calls = 0;
    enum status st = state_commit(txn, &s->c);
    state_end(txn);
    if (st != ST_OK)
        return st;
    assert_int_equal(s->calls, 0); /* never from inside */
    sw_run(w);
    assert_int_equal(s->calls, 1);
    return s->st;
}

static inline enum status sw_commit(struct state_world *w, struct state_txn *txn)
{
    struct sw_commit s = {0};
    enum status st = sw_commit_with(w, txn, &s);
    state_commit_done(&s.c);
    sw_run(w);
    return st;
}

static inline void sw_begin(struct state_world *w, struct state_txn *txn)
{
    assert_status(state_begin(w->state, &w->arena, NULL, txn), ST_OK);
}

static inline void sw_begin_looking(struct state_world *w, struct state_txn *txn)
{
    const struct state_read read = {.confirmed = true};
    assert_status(state_begin(w->state, &w->arena, &read, txn), ST_OK);
    state_set_read_only(txn);
}

/* One put, committed. */
static inline void sw_put(struct state_world *w, const char *key, const char *value)
{
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_status(state_put(&txn, bytes_str(key), bytes_str(value)), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
}

static inline void sw_delete(struct state_world *w, const char *key)
{
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_status(state_delete(&txn, bytes_str(key)), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
}

static inline void sw_init(struct state_world *w)
{
    struct state_txn txn;
    struct state_init init;
    sw_begin(w, &txn);
    assert_status(state_init_begin(&txn, &w->seal, 500, &init), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    state_init_done(&init);
    assert_status(state_unseal(w->m.store, w->barrier, &w->seal, NULL), ST_OK);
    sw_put(w, "s/first", "x"); /* the rings are renewed beside their first use */
    sw_put(w, "l/first", "x");
    sw_delete(w, "s/first");
    sw_delete(w, "l/first");
}

/* Raise the feature level to the newest one. */
static inline void sw_raise(struct state_world *w)
{
    struct state_txn txn;
    char text[8];
    (void)snprintf(text, sizeof text, "%u", RLOG_FEATURE);
    sw_begin(w, &txn);
    assert_status(state_put_raw(&txn, BYTES(STATE_FEATURE_RAISED), bytes_str(text)), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
}

#define assert_gets(txn, key, wanted)                              \
    do {                                                           \
        struct state_value got_ = {0};                             \
        assert_status(state_get((txn), BYTES(key), &got_), ST_OK); \
        assert_bytes(got_.value, BYTES(wanted));                   \
    } while (0)
#define assert_gets_none(txn, key)                                        \
    do {                                                                  \
        struct state_value got_;                                          \
        assert_status(state_get((txn), BYTES(key), &got_), ST_NOT_FOUND); \
    } while (0)

#endif
