#include "state/state_internal.h"

#include "base/mem.h"
#include "base/plant.h"

enum status state_new(struct env *env, struct state_log *log, struct barrier *barrier,
                      struct state **ret_state)
{
    struct state *state = mem_zalloc(sizeof *state);
    if (state == NULL)
        return ST_NOMEM;
    state->env = env;
    state->log = log;
    state->barrier = barrier;
    env_random(env, &state->seed, sizeof state->seed);
    state->seed |= 1; /* the generator never leaves 0 */
    enum status st = barrier_cipher_new(barrier, env, &state->cipher);
    if (st != ST_OK) {
        mem_free(state);
        return st;
    }
    *ret_state = state;
    return ST_OK;
}

bool state_idle(const struct state *state)
{
    for (int i = 0; i < BARRIER_RINGS; i++)
        if (state->upkeep[i] != NULL)
            return false;
    return true;
}

void state_close(struct state *state)
{
    state->closing = true;
}

void state_free(struct state *state)
{
    if (state == NULL)
        return;
    state->closing = state->freed = true;
    if (!state_idle(state))
        return; /* the upkeep will */
    barrier_cipher_free(state->cipher);
    mem_free(state);
}

struct barrier_cipher *state_cipher(struct state *state)
{
    return state->cipher;
}

struct env *state_env(struct state *state)
{
    return state->env;
}

uint64_t state_random(struct state *state)
{
    uint64_t x = state->seed; /* xorshift64: heights need no better */
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return state->seed = x;
}

/* To the raft thread and back */

static void read_finish(struct env_task *task)
{
    struct state_read *read = CONTAINER_OF(task, struct state_read, task);
    read->confirmed = read->status == ST_OK;
    read->done(read, read->status);
}

static void read_on_done(struct rlog_read *rlog, enum status st)
{
    struct state_read *read = CONTAINER_OF(rlog, struct state_read, rlog);
    read->status = st;
    read->time_ms = rlog->time_ms;
    read->task.run = read_finish;
    env_post_round(read->state->env, &read->task);
}

static void read_start(struct env_task *task)
{
    struct state_read *read = CONTAINER_OF(task, struct state_read, task);
    struct state_log *log = read->state->log;
    log->read(log, &read->rlog);
}

void state_read_begin(struct state *state, struct state_read *read)
{
    ASSERT(read->done != NULL);
    read->state = state;
    read->confirmed = false;
    if (planted(PLANT_WATCH_STALE)) {
        read->status = ST_OK;
        read->task.run = read_finish;
        env_post(state->env, &read->task);
        return;
    }
    read->rlog = (struct rlog_read){.done = read_on_done, .deadline_ms = read->deadline_ms};
    read->task.run = read_start;
    env_post_round(state->log->env, &read->task);
}
