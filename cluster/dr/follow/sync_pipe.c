#include "cluster/dr/follow/sync_pipe.h"

static void lock(struct sync_pipe *pipe)
{
    (void)pthread_mutex_lock(&pipe->lock); /* cannot fail: default mutex, never held twice */
}

static void unlock(struct sync_pipe *pipe)
{
    (void)pthread_mutex_unlock(&pipe->lock); /* cannot fail: this thread holds the lock */
}

/* The thread of the sync may release the pipe as soon as the lock is free. */
static void step_end(struct sync_step *step, enum status st)
{
    struct sync_pipe *pipe = step->pipe;
    lock(pipe);
    ASSERT(step->busy && pipe->running > 0);
    if (st != ST_OK && pipe->st == ST_OK)
        pipe->st = st;
    if (st == ST_OK && step->propose.applied.stage != 0)
        pipe->stage = step->propose.applied.stage;
    step->busy = false;
    pipe->running--;
    (void)pthread_cond_signal(&pipe->ended); /* cannot fail */
    unlock(pipe);
}

static void on_proposed(struct rlog_propose *p, enum status st)
{
    if (st == ST_OK && p->applied.outcome != RLOG_APPLIED)
        st = ST_DENIED; /* the role changed, or another sync has begun */
    step_end(CONTAINER_OF(p, struct sync_step, propose), st);
}

static void propose_on_raft(struct env_task *task)
{
    struct sync_step *step = CONTAINER_OF(task, struct sync_step, task);
    struct part_host *host = step->pipe->host;
    if (host->stopping || host->replica_closed)
        step_end(step, ST_CLOSED);
    else
        rlog_propose(host->rlog, &step->propose);
}

enum status sync_pipe_init(struct sync_pipe *pipe, struct part_host *host)
{
    *pipe = (struct sync_pipe){.host = host};
    if (pthread_mutex_init(&pipe->lock, NULL) != 0)
        return ST_NOMEM;
    if (pthread_cond_init(&pipe->ended, NULL) == 0)
        return ST_OK;
    (void)pthread_mutex_destroy(&pipe->lock); /* no thread holds the lock */
    return ST_NOMEM;
}

/* Wait until at most `most` proposals have not ended. */
static enum status await(struct sync_pipe *pipe, unsigned most)
{
    lock(pipe);
    while (pipe->running > most)
        (void)pthread_cond_wait(&pipe->ended, &pipe->lock); /* cannot fail */
    enum status st = pipe->st;
    unlock(pipe);
    return st;
}

enum status sync_pipe_send(struct sync_pipe *pipe, struct buf *txn, bool upkeep)
{
    TRY(await(pipe, SYNC_PIPE_MAX - 1));
    lock(pipe);
    struct sync_step *step = pipe->steps;
    while (step->busy)
        step++;
    ASSERT(step < pipe->steps + SYNC_PIPE_MAX);
    buf_done(&step->txn);
    step->txn = *txn;
    *txn = (struct buf){0};
    step->task = (struct env_task){.run = propose_on_raft};
    step->propose =
        (struct rlog_propose){.txn = buf_bytes(&step->txn), .upkeep = upkeep, .done = on_proposed};
    step->pipe = pipe;
    step->busy = true;
    pipe->running++;
    unlock(pipe);
    env_post(pipe->host->env, &step->task);
    return ST_OK;
}

enum status sync_pipe_drain(struct sync_pipe *pipe)
{
    return await(pipe, 0);
}

void sync_pipe_done(struct sync_pipe *pipe)
{
    (void)await(pipe, 0); /* the sync asked for the failure, or has a failure of its own */
    for (unsigned i = 0; i < SYNC_PIPE_MAX; i++)
        buf_done(&pipe->steps[i].txn);
    (void)pthread_cond_destroy(&pipe->ended); /* no thread waits */
    (void)pthread_mutex_destroy(&pipe->lock); /* no thread holds the lock */
}
