#include "node/duty.h"

#include "base/trace.h"

static void duty_step(struct duties *d);

static void on_timer(struct env_timer *timer)
{
    duty_step(CONTAINER_OF(timer, struct duties, timer));
}

/* The rest after a commit: as long as the commit took. So clients' writes have at least half of the
 * log, and background work becomes slower when the log is busy or the disk is slow. */
static uint64_t rest_ms(const struct duties *d)
{
    uint64_t now_ms = env_mono_ms(d->host->env);
    ASSERT(now_ms >= d->began_ms);
    return MIN(now_ms - d->began_ms, (uint64_t)DUTY_REST_MS);
}

/* Set the timer only while the node is active: a timer that is set when the node stops outlives its
 * loop. */
static void duty_again_in(struct duties *d, uint64_t ms)
{
    ASSERT(d->term != 0 && !d->host->stopping);
    d->timer.fire = on_timer;
    env_timer_set(d->host->env, &d->timer, env_mono_ms(d->host->env) + ms);
}

static void on_committed(struct state_commit *commit, enum status st)
{
    struct duties *d = CONTAINER_OF(commit, struct duties, commit);
    ASSERT(d->committing);
    state_commit_done(commit);
    d->committing = false;
    /* The term may have ended, or the node may stop, since the commit began. */
    if (d->term != 0 && !d->host->stopping)
        duty_again_in(d, st == ST_OK || st == ST_CONFLICT ? rest_ms(d) : DUTY_EVERY_MS);
}

/* Run one duty. True: it staged something, and the commit is under way. */
static bool duty_run(struct duties *d, const struct node_duty *duty)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct state_txn txn;
    ASSERT(!d->committing);
    enum status st = state_begin(d->state, &arena, NULL, &txn);
    if (st == ST_OK) {
        int64_t now_ms = rlog_time_ms(d->host->rlog);
        ASSERT((duty->run != NULL) != (duty->run_with != NULL));
        st = duty->run != NULL ? duty->run(&txn, now_ms) : duty->run_with(duty->with, &txn, now_ms);
        if (st == ST_OK && state_staged(&txn)) {
            d->commit.done = on_committed;
            d->began_ms = env_mono_ms(d->host->env);
            st = state_commit(&txn, &d->commit);
            d->committing = st == ST_OK;
        }
        state_end(&txn);
    }
    if (st != ST_OK && st != ST_SEALED)
        trace(TRACE_WARN, "node", "%s: %s", duty->name, status_text(st));
    return d->committing;
}

static void duty_step(struct duties *d)
{
    if (d->term == 0 || d->committing || d->host->stopping)
        return;
    uint64_t began_ms = env_mono_ms(d->host->env);
    while (d->next < d->n) {
        if (duty_run(d, &d->rows[d->next++])) {
            d->due = true;
            return;
        }
        if (d->next < d->n && env_mono_ms(d->host->env) - began_ms >= DUTY_TURN_MS) {
            duty_again_in(d, 1); /* let the raft thread do its own work first */
            return;
        }
    }
    state_upkeep(d->state);
    duty_again_in(d, d->due ? 0 : DUTY_EVERY_MS);
    d->next = 0;
    d->due = false;
}

static void duty_end(struct duties *d)
{
    d->term = 0;
    env_timer_stop(d->host->env, &d->timer);
}

static void duty_changed(void *self, const struct rlog_status *raft)
{
    struct duties *d = self;
    struct part_host *host = d->host;
    (void)raft;
    ASSERT(!host->stopping || host->active_term == 0);
    if (host->active_term == 0 || host->dr_secondary) {
        duty_end(d);
        return;
    }
    if (d->term == host->active_term)
        return;
    if (d->state == NULL) {
        d->log = state_log_of(host->rlog, host->env);
        if (state_new(host->env, &d->log, host->barrier, &d->state) != ST_OK)
            return; /* out of memory: the next tick tries again */
    }
    d->term = host->active_term;
    d->next = 0;
    if (!d->committing)
        duty_again_in(d, 0);
}

static enum status duty_start(void *self, struct part_host *host)
{
    struct duties *d = self;
    ASSERT(d->host == NULL && d->term == 0);
    d->host = host;
    return ST_OK;
}

/* Stop at once: a proposal under way ends with the replica. */
static bool duty_stop(void *self)
{
    struct duties *d = self;
    ASSERT(d->host->stopping);
    duty_end(d);
    if (!d->host->replica_closed || d->state == NULL)
        return true;
    if (d->committing || !state_idle(d->state))
        return false;
    state_free(d->state);
    d->state = NULL;
    return true;
}

const struct part duty_part = {
    .name = "duties", .start = duty_start, .changed = duty_changed, .stop = duty_stop};
