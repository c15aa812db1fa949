#include "router/pipeline/parking.h"

#include "base/mem.h"
#include "base/tally.h"
#include "http/budget.h"
#include "router/pipeline/worker.h"

static struct env *env_of(const struct parking *parking)
{
    return parking->worker->env;
}

static void on_turn(struct env_task *task);
static void on_retry(struct env_timer *timer);
static void on_tick(struct env_timer *timer);

void parking_init(struct parking *parking, struct router_worker *worker)
{
    parking->worker = worker;
    list_init(&parking->parked);
    list_init(&parking->woken);
    parking->task.run = on_turn;
    parking->retry.fire = on_retry;
    parking->tick.fire = on_tick;
}

enum status parking_begin(struct parking *parking, struct state *state)
{
    struct state_watches *watches;
    TRY(state_watches_new(state, &watches));
    atomic_store(&parking->watches, watches);
    return ST_OK;
}

void parking_done(struct parking *parking)
{
    ASSERT(list_empty(&parking->parked) && list_empty(&parking->woken) && !parking->probing);
    env_timer_stop(env_of(parking), &parking->tick);
    env_timer_stop(env_of(parking), &parking->retry);
    state_watches_free(parking->watches);
}

void parked_free(struct parked *parked)
{
    if (parked == NULL)
        return;
    struct parking *parking = &parked->worker->parking;
    struct http_budget *budget = parked->worker->router->options.host->parking;
    ASSERT(parking->watches != NULL);
    list_remove(&parked->link);
    env_timer_stop(env_of(parking), &parked->timer);
    state_watch_end(parking->watches, &parked->watcher);
    if (budget != NULL)
        http_budget_give(budget, &parked->client, 1);
    mem_free(parked);
}

/* Waking */

static void post_turn(struct parking *parking)
{
    if (parking->posted)
        return;
    parking->posted = true;
    env_post(env_of(parking), &parking->task);
}

static void wake(struct parked *parked, enum parked_why why)
{
    struct parking *parking = &parked->worker->parking;
    env_timer_stop(env_of(parking), &parked->timer);
    state_watch_end(parking->watches, &parked->watcher);
    ASSERT(!list_empty(&parked->link));
    list_remove(&parked->link);
    list_push(&parking->woken, &parked->link);
    parked->why = why;
    post_turn(parking);
}

static void wake_all(struct parking *parking, enum parked_why why)
{
    LIST_FOR_SAFE (link, after, &parking->parked)
        wake(CONTAINER_OF(link, struct parked, link), why);
}

/* Wake the requests that need a leader. */
static void wake_confirmed(struct parking *parking, enum parked_why why)
{
    LIST_FOR_SAFE (link, after, &parking->parked) {
        struct parked *parked = CONTAINER_OF(link, struct parked, link);
        if (!parked->stale)
            wake(parked, why);
    }
}

static void on_changed(struct state_watcher *watcher)
{
    wake(CONTAINER_OF(watcher, struct parked, watcher), PARKED_CHANGED);
}

static void on_timer(struct env_timer *timer)
{
    struct parked *parked = CONTAINER_OF(timer, struct parked, timer);
    bool over = env_mono_ms(parked->worker->env) >= parked->deadline_ms;
    wake(parked, over ? PARKED_TIME : PARKED_TOKEN);
}

/* Run the next woken request. */
static void resume_one(struct parking *parking)
{
    struct parked *parked = CONTAINER_OF(list_pop(&parking->woken), struct parked, link);
    ASSERT(parked->worker == parking->worker && !parked->watcher.begun);
    tally_add(&parking->now, (uint64_t)-1);
    parked->handle.resume(&parked->handle); /* maybe the last touch of `parked` */
}

static void on_turn(struct env_task *task)
{
    struct parking *parking = CONTAINER_OF(task, struct parking, task);
    const struct router_worker *worker = parking->worker;
    uint64_t end_ms = env_mono_ms(env_of(parking)) + PARKING_TURN_MS;
    unsigned most = MIN((unsigned)PARKING_RUNNING_MAX, worker->inflight_max);
    ASSERT(parking->posted && most > 0);
    parking->posted = false;
    while (!list_empty(&parking->woken) && worker->running < most &&
           env_mono_ms(env_of(parking)) < end_ms)
        resume_one(parking);
    if (list_empty(&parking->woken) || parking->retry.slot != 0)
        return;
    if (worker->running < most)
        post_turn(parking);
    else /* other requests have to end first */
        env_timer_set(env_of(parking), &parking->retry, end_ms - PARKING_TURN_MS + 1);
}

static void on_retry(struct env_timer *timer)
{
    post_turn(CONTAINER_OF(timer, struct parking, retry));
}

/* The state of the node */

static void on_probed(struct state_read *read, enum status st)
{
    struct parking *parking = CONTAINER_OF(read, struct parking, probe);
    ASSERT(parking->probing);
    parking->probing = false;
    if (st == ST_OK)
        parking->alone_ms = 0;
    else if (parking->alone_ms == 0)
        parking->alone_ms = parking->probe_ms;
}

/* Ask from time to time whether a node leads. While no node does, ask at every tick. */
static void probe(struct parking *parking, uint64_t now_ms)
{
    bool due = parking->alone_ms != 0 || now_ms >= parking->probe_ms + PARKING_PROBE_MS;
    if (parking->probing || !due)
        return;
    parking->probing = true;
    parking->probe_ms = now_ms;
    parking->probe =
        (struct state_read){.done = on_probed, .deadline_ms = now_ms + PARKING_ANSWER_MS};
    state_read_begin(parking->worker->state, &parking->probe);
}

/* Wake what cannot stay parked. A standby that serves reads keeps its parked requests while no node
 * leads, and fails them when none was found for PARKING_PATIENCE_MS. */
static void judge_node(struct parking *parking, uint64_t now_ms)
{
    struct router_host *host = parking->worker->router->options.host;
    const struct node_brief node = host->node_ops->brief(host->node);
    struct node_status status;
    ASSERT(!list_empty(&parking->parked));
    bool refuses =
        node.sealed || node.removed || node.secondary || !node.initialized || host->maintenance;
    if (host->leaving || parking->leaving) {
        wake_all(parking, PARKED_LEAVING);
        return;
    }
    host->node_ops->status(host->node, &status);
    bool moves = !node.active && !node.perf_standby && status.has_leader;
    bool alone = !node.active && !status.has_leader;
    if (refuses) {
        wake_all(parking, PARKED_NODE);
        return;
    }
    if (moves)
        wake_confirmed(parking, PARKED_NODE);
    if (alone && parking->alone_ms == 0)
        parking->alone_ms = now_ms;
    if (parking->alone_ms != 0 && now_ms >= parking->alone_ms + PARKING_PATIENCE_MS)
        wake_confirmed(parking, PARKED_ALONE);
    probe(parking, now_ms);
}

static void on_tick(struct env_timer *timer)
{
    struct parking *parking = CONTAINER_OF(timer, struct parking, tick);
    uint64_t now_ms = env_mono_ms(env_of(parking));
    if (list_empty(&parking->parked)) { /* after router_worker_leave it stays empty */
        parking->alone_ms = 0;
        return;
    }
    judge_node(parking, now_ms);
    env_timer_set(env_of(parking), timer, now_ms + PARKING_TICK_MS);
}

/* Parking */

enum status parking_add(struct parking *parking, struct parked *parked, const struct state_txn *txn,
                        const struct state_watched *keys, size_t n)
{
    uint64_t now_ms = env_mono_ms(env_of(parking));
    ASSERT(list_empty(&parked->link) && !parking->leaving);
    ASSERT(n > 0 && parked->deadline_ms != 0);
    parked->watcher = (struct state_watcher){.changed = on_changed};
    parked->timer = (struct env_timer){.fire = on_timer};
    TRY(state_watch_begin(parking->watches, &parked->watcher, txn, keys, n));
    list_push(&parking->parked, &parked->link);
    env_timer_set(env_of(parking), &parked->timer, parked->deadline_ms);
    tally_add(&parking->now, 1);
    tally_add(&parking->n_parked, 1);
    if (parking->tick.slot == 0) {
        parking->probe_ms = now_ms; /* the request itself was confirmed */
        env_timer_set(env_of(parking), &parking->tick, now_ms + PARKING_TICK_MS);
    }
    return ST_OK;
}

void parking_until(struct parked *parked, uint64_t token_ms)
{
    uint64_t at_ms = token_ms != 0 ? MIN(token_ms, parked->deadline_ms) : parked->deadline_ms;
    env_timer_set(parked->worker->env, &parked->timer, at_ms);
}

void router_parked_drop(struct router_parked *handle)
{
    struct parked *parked = CONTAINER_OF(handle, struct parked, handle);
    struct parking *parking = &parked->worker->parking;
    if (!list_empty(&parked->link))
        tally_add(&parking->now, (uint64_t)-1);
    tally_add(&parking->gone, 1);
    parked_free(parked);
}

void router_worker_published(struct router_worker *worker)
{
    struct state_watches *watches = atomic_load(&worker->parking.watches);
    if (watches != NULL)
        state_watches_published(watches);
}

bool router_worker_idle(const struct router_worker *worker)
{
    return !worker->parking.probing;
}

void parking_leave(struct parking *parking)
{
    parking->leaving = true;
    wake_all(parking, PARKED_LEAVING);
}

void parking_counters(const struct parking *parking, struct router_parked_counters *ret_counters)
{
    struct state_watch_counters watches = {0};
    if (parking->watches != NULL)
        state_watches_counters(parking->watches, &watches);
    *ret_counters = (struct router_parked_counters){
        .now = tally_get(&parking->now),
        .parked = tally_get(&parking->n_parked),
        .refused = tally_get(&parking->refused),
        .changed = tally_get(&parking->changed),
        .timeouts = tally_get(&parking->timeouts),
        .gone = tally_get(&parking->gone),
        .ended = tally_get(&parking->ended),
        .again = tally_get(&parking->again),
        .walks = watches.walks,
        .visited = watches.visited,
    };
}
