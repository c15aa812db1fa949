/* Upkeep of the key rings: grants of uses in advance, and new terms. Commits and the duties of the
 * active node start the upkeep, so no other node does it. If several nodes or workers try at once,
 * one of them wins and the commits of the others conflict. */
#include "state/following.h"
#include "state/state_core.h"
#include "state/state_internal.h"

#include "base/mem.h"
#include "base/trace.h"

struct state_upkeep {
    struct state *state;
    enum barrier_ring ring;
    int64_t grant;
    struct state_commit commit;
};

static void upkeep_free(struct state_upkeep *u)
{
    struct state *state = u->state;
    ASSERT(state->upkeep[u->ring] == u);
    state->upkeep[u->ring] = NULL;
    state_commit_done(&u->commit);
    mem_free(u);
    if (state->freed && state_idle(state))
        state_free(state);
}

static void on_committed(struct state_commit *commit, enum status st)
{
    struct state_upkeep *u = CONTAINER_OF(commit, struct state_upkeep, commit);
    struct state *state = u->state;

    if (st == ST_OK && state->closing)
        st = ST_CLOSED;
    if (st == ST_OK)
        st = state_follow(state->log->store, state->barrier);
    if (st == ST_OK)
        barrier_upkeep_done(state->barrier, u->ring, u->grant);
    upkeep_free(u);
}

/* Stage the next record of a ring; a `grant` of 0 begins a new term. The stored record that the new
 * record extends is a precondition. */
static enum status stage_record(struct state_txn *txn, enum barrier_ring ring, int64_t grant,
                                int64_t time_ms)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct state *state = txn->state;
    struct state_value stored;
    struct bytes key =
        ring == BARRIER_SHARED ? BYTES(BARRIER_KEYRING) : BYTES(BARRIER_LOCAL_KEYRING);

    enum status st = state_get_raw(txn, key, &stored);
    if (st != ST_NOT_FOUND || ring != BARRIER_LOCAL) /* else the first local ring */
        TRY(st);
    TRY(core_follow(&txn->pin, state->barrier));
    TRY(barrier_upkeep(state->barrier, state->env, ring, grant, time_ms, &record));
    return state_put_raw(txn, key, buf_bytes(&record));
}

enum status state_rotate(struct state_txn *txn, int64_t time_ms)
{
    return stage_record(txn, BARRIER_SHARED, 0, time_ms);
}

enum status state_ring_info(struct state_txn *txn, struct barrier_ring_info *ret_info)
{
    struct state_value stored;
    TRY(state_get_raw(txn, BYTES(BARRIER_KEYRING), &stored)); /* makes the ring a precondition */
    TRY(core_follow(&txn->pin, txn->state->barrier));
    return barrier_ring_info(txn->state->barrier, BARRIER_SHARED, ret_info);
}

static enum status upkeep_start(struct state_upkeep *u)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct state_txn txn;

    TRY(state_begin(u->state, &arena, NULL, &txn));
    u->grant = barrier_grant(u->state->barrier, u->ring);
    ASSERT(u->grant > 0); /* a grant of 0 would begin a new term */
    bool following = false;
    enum status st = state_is_following(&txn, &following);
    if (st == ST_OK && following && u->ring == BARRIER_SHARED)
        st = ST_SEALED; /* the primary's ring: nothing is encrypted under it here */
    if (st == ST_OK)
        st = stage_record(&txn, u->ring, u->grant, env_wall_ms(u->state->env));
    if (st == ST_OK)
        st = state_commit(&txn, &u->commit);
    state_end(&txn);
    return st;
}

void state_upkeep_start(struct state *state)
{
    for (enum barrier_ring ring = BARRIER_SHARED; ring < BARRIER_RINGS; ring++) {
        if (state->upkeep[ring] != NULL || state->closing ||
            !barrier_upkeep_due(state->barrier, ring))
            continue;
        struct state_upkeep *u = mem_zalloc(sizeof *u);
        if (u == NULL)
            return; /* the next commit tries again */
        u->state = state;
        u->ring = ring;
        u->commit.done = on_committed;
        state->upkeep[ring] = u;
        enum status st = upkeep_start(u);
        if (st == ST_OK)
            continue;
        if (st != ST_SEALED && st != ST_NOMEM)
            trace(TRACE_WARN, "state", "the key ring was not renewed: %s", status_name(st));
        upkeep_free(u);
    }
}

void state_upkeep(struct state *state)
{
    state_upkeep_start(state);
}
