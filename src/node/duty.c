#include "node/duty.h"

#include "base/trace.h"

static void duty_step(struct duties *d);

static void on_timer(struct env_timer *timer)
{
    duty_step(CONTAINER_OF(timer, struct duties, timer));
}

/* Set the timer only while the node is active: a timer that is set when the node stops outlives its
 * loop. */
static void duty_again_in(struct duties *d, uint64_t ms)
{
    ASSERT(d->term != 0 && !d->host->stopping);
    d->timer.fire = on_timer;
    env_timer_set(d->host->env, &d->timer, env_mono_ms(d->host->env) + ms);
}

static void on_turn_over(struct state_commit *commit, enum status st)
{
    struct duties *d = CONTAINER_OF(commit, struct duties, commit);
    ASSERT(d->committing);
    ASSERT(d->running != NULL);
    d->committing = false;
    bool again = st == ST_CONFLICT && d->term != 0 && d->reruns < DUTY_RERUNS_MAX;
    d->reruns = again ? d->reruns + 1 : 0;
    if (again)
        d->next = d->ran;
    else
        state_commit_done(commit);
    if (st == ST_OK) {
        d->own++;
        if (d->running->committed != NULL)
            d->running->committed(d->running->with);
    }
    uint64_t now_ms = env_mono_ms(d->host->env);
    ASSERT(now_ms >= d->began_ms);
    uint64_t rest_ms = pace_committed(&d->pace, now_ms - d->began_ms);
    if (d->reruns > 1) /* others wait for the rerun: the ticket claims a key (PROTOCOL R5) */
        rest_ms = 0;
    /* The term may have ended, or the node may stop, since the commit began. */
    if (d->term != 0 && !d->host->stopping)
        duty_again_in(d, st == ST_OK || st == ST_CONFLICT ? rest_ms : DUTY_EVERY_MS);
}

static bool is_asked(const struct duties *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->rows[i].asked != NULL && d->rows[i].asked(d->rows[i].with))
            return true;
    return false;
}

/* How much clients have made this node do since its start. */
static void look_at_clients(struct duties *d)
{
    struct rlog_status raft;
    rlog_status(d->host->rlog, &raft);
    const struct pace_clients clients = {.txns = raft.txns_applied - MIN(raft.txns_applied, d->own),
                                         .reads = raft.reads_confirmed};
    pace_look(&d->pace, &clients, is_asked(d), env_mono_ms(d->host->env));
}

static enum status stage(struct duties *d, const struct node_duty *duty, struct state_txn *txn)
{
    int64_t now_ms = rlog_time_ms(d->host->rlog);
    ASSERT((duty->run != NULL) != (duty->run_with != NULL));
    return duty->run != NULL ? duty->run(txn, now_ms)
                             : duty->run_with(duty->with, txn, now_ms, pace_steps(&d->pace));
}

enum ran { RAN_OUT, RAN_COMMITTING, RAN_AGAIN };

/* The work that met a conflict is done or given up: others may claim its key. */
static void forget_conflict(struct duties *d)
{
    ASSERT(!d->committing);
    if (d->reruns != 0)
        state_commit_done(&d->commit);
    d->reruns = 0;
}

/* Run one duty. RAN_OUT: nothing is left to do, or the duty failed. RAN_AGAIN: with less. */
static enum ran duty_run(struct duties *d, const struct node_duty *duty)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct state_txn txn;
    ASSERT(!d->committing);
    d->began_ms = env_mono_ms(d->host->env);
    enum status st = state_begin(d->state, &arena, NULL, &txn);
    if (st == ST_OK) {
        st = stage(d, duty, &txn);
        if (st == ST_OK && state_staged(&txn)) {
            d->commit.done = on_turn_over;
            d->running = duty;
            st = state_commit(&txn, &d->commit);
            d->committing = st == ST_OK;
        }
        state_end(&txn);
    }
    if (st == ST_TOO_BIG && duty->run_with != NULL && pace_too_big(&d->pace))
        return RAN_AGAIN;
    if (st != ST_OK && st != ST_SEALED)
        trace(TRACE_WARN, "node", "%s: %s", duty->name, status_text(st));
    return d->committing ? RAN_COMMITTING : RAN_OUT;
}

static size_t duty_count(const struct duties *d)
{
    ASSERT(d->n_first <= DUTY_FIRST_MAX);
    return d->n_first + d->n;
}

/* The duty at a place in the order of a round. */
static const struct node_duty *duty_at(const struct duties *d, size_t at)
{
    ASSERT(at < duty_count(d));
    return at < d->n_first ? &d->first[at] : &d->rows[at - d->n_first];
}

/* A DR secondary runs duties that change local keys alone. */
static void skip_others(struct duties *d, size_t n)
{
    while (d->next < n && !duty_may_run(duty_at(d, d->next), d->host->dr_secondary)) {
        forget_conflict(d);
        d->next++;
    }
}

static void duty_step(struct duties *d)
{
    if (d->term == 0 || d->committing || d->host->stopping)
        return;
    uint64_t began_ms = env_mono_ms(d->host->env);
    look_at_clients(d);
    size_t n = duty_count(d);
    for (skip_others(d, n); d->next < n; skip_others(d, n)) {
        d->ran = d->next;
        enum ran ran = duty_run(d, duty_at(d, d->next));
        d->next += ran != RAN_AGAIN;
        if (ran == RAN_COMMITTING) {
            d->due = true;
            return;
        }
        if (ran == RAN_OUT)
            forget_conflict(d);
        if (d->next < n && env_mono_ms(d->host->env) - began_ms >= DUTY_TURN_MS) {
            duty_again_in(d, 1); /* let the raft thread do its own work first */
            return;
        }
    }
    state_upkeep(d->state);
    if (!d->due)
        pace_idle(&d->pace);
    duty_again_in(d, d->due ? 0 : DUTY_EVERY_MS);
    d->next = 0;
    d->due = false;
}

static void duty_end(struct duties *d)
{
    d->term = 0;
    env_timer_stop(d->host->env, &d->timer);
    if (!d->committing)
        forget_conflict(d);
}

static void duty_changed(void *self, const struct rlog_status *raft)
{
    struct duties *d = self;
    struct part_host *host = d->host;
    (void)raft;
    ASSERT(!host->stopping || host->active_term == 0);
    if (host->active_term == 0) {
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
    pace_init(&d->pace);
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
