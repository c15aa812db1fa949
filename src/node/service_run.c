/* Services: what a run may call, on its own thread. Apart from service.c, so that a module's
 * service does not need the replica to be linked. */
#include "node/service.h"

#include "base/cpus.h"
#include "loop/loop.h"

enum { IDLE_POLL_MS = 5 };

static void on_timer(struct env_timer *timer)
{
    struct service *s = CONTAINER_OF(timer, struct service, timer);
    s->fired = true;
    loop_stop(s->env);
}

static void set_timer(struct service *s, uint64_t ms)
{
    s->fired = false;
    s->timer.fire = on_timer;
    env_timer_set(s->env, &s->timer, env_mono_ms(s->env) + ms);
}

bool service_wait(struct service *s, uint64_t ms)
{
    ASSERT(pthread_equal(s->self, pthread_self()));
    set_timer(s, ms);
    while (!s->fired && !s->ended)
        loop_run(s->env);
    env_timer_stop(s->env, &s->timer);
    return !s->ended;
}

int64_t service_time_ms(const struct service *s)
{
    return s->all->time_ms(s->all->time_ctx);
}

bool service_asked(const struct service *s)
{
    return s->ended;
}

struct snapshot *service_snapshot(const struct service *s)
{
    ASSERT(s->all->snapshot != NULL);
    return s->all->snapshot;
}

const struct member_options *service_options(const struct service *s)
{
    return s->all->host->options;
}

static void on_committed(struct state_commit *commit, enum status st)
{
    struct service *s = CONTAINER_OF(commit, struct service, commit);
    ASSERT(!s->committed);
    s->st = st;
    s->committed = true;
    loop_stop(s->env);
}

/* One try of a transaction. A conflict leaves its ticket in s->commit for the next try. */
static enum status try_once(struct service *s, service_stage stage, void *ctx)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct state_txn txn;
    TRY(state_begin(s->state, &arena, NULL, &txn));
    enum status st = stage(&txn, ctx, service_time_ms(s));
    bool proposes = st == ST_OK && state_staged(&txn);
    if (proposes) {
        s->committed = false;
        s->commit.done = on_committed;
        st = state_commit(&txn, &s->commit);
    }
    state_end(&txn);
    if (!proposes || st != ST_OK)
        return st;
    while (
        !s->committed) /* bounded by the replica: it answers each proposal, also when it closes */
        loop_run(s->env);
    return s->st;
}

enum status service_transact(struct service *s, service_stage stage, void *ctx)
{
    enum status st = ST_CONFLICT;
    ASSERT(pthread_equal(s->self, pthread_self()));
    for (unsigned i = 0; i < SERVICE_TRIES_MAX && st == ST_CONFLICT; i++)
        st = s->ended ? ST_CLOSED : try_once(s, stage, ctx);
    state_commit_done(&s->commit);
    return s->ended && st == ST_NOT_LEADER ? ST_CLOSED : st;
}

/* The renewal of a key ring that a commit began ends on this env. */
static void wait_until_idle(struct service *s)
{
    state_close(s->state);
    while (!state_idle(s->state)) {
        set_timer(s, IDLE_POLL_MS);
        while (!s->fired)
            loop_run(s->env);
    }
}

void *service_main(void *arg)
{
    struct service *s = arg;
    s->self = pthread_self();
    cpus_background();
    s->row->run(s);
    wait_until_idle(s);
    env_post(s->all->host->env, &s->gone);
    return NULL;
}
