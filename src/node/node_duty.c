/* Duties: transactions the active node makes by itself, one at a time.
 *
 *   STOPPED ──active in a new term──▶ WAITING ──timer──▶ running each duty in turn
 *      ▲                                 ▲                  │ staged: COMMITTING, then the next
 *      └──no longer active, or stopping──┴──none was due────┘
 *
 * What was proposed in a term that has ended is decided by the log like any other write: its
 * preconditions hold, or nothing happens. */
#include "node/node_internal.h"

#include "base/trace.h"

static void step(struct node *n);

static void on_timer(struct env_timer *timer)
{
    step(CONTAINER_OF(timer, struct node, duty.timer));
}

/* While active only: a timer that is set when the node stops outlives its loop. */
static void again_in(struct node *n, uint64_t ms)
{
    ASSERT(n->duty.term != 0 && !n->stopping);
    n->duty.timer.fire = on_timer;
    env_timer_set(n->env, &n->duty.timer, env_mono_ms(n->env) + ms);
}

static void on_committed(struct state_commit *commit, enum status st)
{
    struct node *n = CONTAINER_OF(commit, struct node, duty.commit);
    state_commit_done(commit);
    n->duty.committing = false;
    if (n->duty.term != 0) /* else the term has ended, or the node stops, while this was under way */
        again_in(n, st == ST_OK || st == ST_CONFLICT ? 0 : NODE_DUTY_MS);
}

/* Whether the duty staged something that is being committed. */
static bool run(struct node *n, const struct node_duty *duty)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct state_txn txn;
    enum status st = state_begin(n->duty.state, &arena, NULL, &txn);
    if (st == ST_OK) {
        st = duty->run(&txn, rlog_time_ms(n->rlog));
        if (st == ST_OK && state_staged(&txn)) {
            n->duty.commit.done = on_committed;
            st = state_commit(&txn, &n->duty.commit);
            n->duty.committing = st == ST_OK;
        }
        state_end(&txn);
    }
    if (st != ST_OK && st != ST_SEALED)
        trace(TRACE_WARN, "node", "%s: %s", duty->name, status_text(st));
    return n->duty.committing;
}

static void step(struct node *n)
{
    struct node_duties *d = &n->duty;
    if (d->term == 0 || d->committing || n->stopping)
        return;
    while (d->next < n->options.n_duties) {
        if (run(n, &n->options.duties[d->next++])) {
            d->due = true;
            return;
        }
    }
    state_upkeep(d->state);
    again_in(n, d->due ? 0 : NODE_DUTY_MS);
    d->next = 0;
    d->due = false;
}

void node_duty_look(struct node *n, bool active, uint64_t term)
{
    struct node_duties *d = &n->duty;
    if (!active || n->stopping) {
        d->term = 0;
        env_timer_stop(n->env, &d->timer);
        return;
    }
    if (d->term == term)
        return;
    if (d->state == NULL) {
        d->log = state_log_of(n->rlog, n->env);
        if (state_new(n->env, &d->log, n->barrier, &d->state) != ST_OK)
            return; /* the next tick tries again */
    }
    d->term = term;
    d->next = 0;
    if (!d->committing)
        again_in(n, 0);
}

bool node_duty_idle(const struct node *n)
{
    return n->duty.state == NULL || (!n->duty.committing && state_idle(n->duty.state));
}

void node_duty_done(struct node *n)
{
    ASSERT(node_duty_idle(n));
    state_free(n->duty.state);
    n->duty.state = NULL;
}
