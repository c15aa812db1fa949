#include "watch.h"

#include "base/mem.h"
#include "sim_mem.h"
#include "state/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    READ_DEADLINE_MS = 1500,
    AGAIN_MS = 100, /* after a read that failed */
    STAY_MS = 700,  /* at least, before a watcher begins anew */
    GAP_MS = 40,
    TOLD_MS = 100,   /* within which a watcher is told */
    SEEN_MAX = 8192, /* indexes whose values are compared, for each register */
};

/* What watchers have seen of a register; it outlives processes. */
struct register_seen {
    uint64_t newest; /* greatest index */
    struct {
        uint64_t index, value;
    } seen[SEEN_MAX];
    unsigned n;
};

struct watch_seen {
    struct register_seen of[SIM_WATCHED];
};

struct call {
    struct watch_service *service;
    unsigned key;
    struct state_watcher watcher;
    struct state_read read;
    struct env_timer timer;
    struct env_timer gap; /* between a read and its watch */
    struct state_txn txn; /* of the read */
    struct arena arena;
    bool present; /* the register is there */
    bool reading, missed;
    uint64_t floor; /* greatest index that was seen when the read began */
    uint64_t index; /* that the watcher has; 0: none yet */
};

struct watch_service {
    struct node *n;
    struct state_watches *watches;
    bool stopped;
    struct call calls[SIM_WATCHED];
};

static struct register_seen *seen_of(const struct call *call)
{
    struct cluster *c = call->service->n->cluster;
    if (c->watch == NULL) {
        c->watch = sim_alloc(sizeof *c->watch);
        memset(c->watch, 0, sizeof *c->watch);
    }
    return &c->watch->of[call->key];
}

static struct bytes key_of(const struct call *call, char buf[32])
{
    return bytes_of(buf, (size_t)snprintf(buf, 32, "s/reg/%u", call->key));
}

static void timer_in(struct call *call, uint64_t ms)
{
    struct env *env = &call->service->n->env.env;
    env_timer_set(env, &call->timer, env_mono_ms(env) + ms);
}

/* The same index stands for the same value everywhere. */
static void agree(const struct call *call, uint64_t index, uint64_t value)
{
    struct register_seen *seen = seen_of(call);
    for (unsigned i = seen->n; i-- > 0;)
        if (seen->seen[i].index == index && seen->seen[i].value != value)
            core_fail(call->service->n->cluster->core,
                      "register %u has two values at index %" PRIu64, call->key, index);
        else if (seen->seen[i].index == index)
            return;
    if (seen->n < SEEN_MAX) {
        seen->seen[seen->n].index = index;
        seen->seen[seen->n++].value = value;
    }
}

static void see(struct call *call, const struct state_index *found, uint64_t value, bool told)
{
    struct node *n = call->service->n;
    struct register_seen *seen = seen_of(call);
    if (!told && found->version < call->floor)
        core_fail(n->cluster->core,
                  "%s: a confirmed read of register %u gives index %" PRIu64 " after %" PRIu64,
                  n->name, call->key, found->version, call->floor);
    if (told && found->version <= call->index)
        core_fail(n->cluster->core,
                  "%s: a watcher of register %u that has index %" PRIu64
                  " is told of a change, and finds %" PRIu64,
                  n->name, call->key, call->index, found->version);
    if (found->present)
        agree(call, found->version, value);
    n->cluster->tally.reached[REACH_WATCH_TOLD] += told;
    call->index = found->version;
    seen->newest = MAX(seen->newest, found->version);
}

static void on_changed(struct state_watcher *watcher);

/* Wait for a change of what the transaction has read. */
static void watch(struct call *call)
{
    struct node *n = call->service->n;
    char buf[32];
    const struct state_watched watched = {.key = key_of(call, buf), .present = call->present};
    call->reading = call->missed = false;
    call->watcher = (struct state_watcher){.changed = on_changed};
    if (!call->service->stopped &&
        state_watch_begin(call->service->watches, &call->watcher, &call->txn, &watched, 1) != ST_OK)
        core_fail(n->cluster->core, "%s: a watch does not begin", n->name);
    state_end(&call->txn);
    arena_done(&call->arena);
    n->requests--;
    if (!call->service->stopped)
        timer_in(call, STAY_MS + rng_below(&n->env.rng, 2 * STAY_MS));
}

static void on_gap(struct env_timer *timer)
{
    watch(CONTAINER_OF(timer, struct call, gap));
}

/* Read the index on the newest version of this node, and wait for a newer one: at once, or after a
 * while in which the index may change. */
static void look(struct call *call, bool told)
{
    struct node *n = call->service->n;
    struct env *env = &n->env.env;
    const struct state_read confirmed = {.confirmed = true};
    struct state_stamp stamp = {0};
    char buf[32];
    const struct bytes key = key_of(call, buf);
    if (state_begin(n->service, &call->arena, &confirmed, &call->txn) != ST_OK) {
        timer_in(call, AGAIN_MS);
        return;
    }
    const struct state_index found = state_index_of(&call->txn, key);
    if (found.present && state_stamp(&call->txn, key, &stamp) != ST_OK)
        core_fail(n->cluster->core, "%s: a register that is there has no stamp", n->name);
    see(call, &found, stamp.seal, told);
    call->present = found.present;
    call->reading = true;
    n->requests++;
    if (rng_chance(&n->env.rng, 300))
        env_timer_set(env, &call->gap, env_mono_ms(env) + rng_between(&n->env.rng, 1, GAP_MS));
    else
        watch(call);
}

static void on_changed(struct state_watcher *watcher)
{
    look(CONTAINER_OF(watcher, struct call, watcher), true);
}

static void on_read(struct state_read *read, enum status st)
{
    struct call *call = CONTAINER_OF(read, struct call, read);
    struct node *n = call->service->n;
    call->reading = false;
    n->requests--;
    if (call->service->stopped)
        return;
    if (st == ST_OK)
        look(call, false);
    else
        timer_in(call, AGAIN_MS);
}

static void begin(struct call *call)
{
    struct node *n = call->service->n;
    state_watch_end(call->service->watches, &call->watcher);
    call->floor = seen_of(call)->newest;
    call->reading = true;
    n->requests++;
    call->read = (struct state_read){.done = on_read,
                                     .deadline_ms = env_mono_ms(&n->env.env) + READ_DEADLINE_MS};
    state_read_begin(n->service, &call->read);
}

/* The index on this node now. */
static uint64_t index_now(const struct call *call)
{
    struct store_pin pin;
    struct store_item item;
    char buf[32];
    if (store_pin(rlog_store(call->service->n->rlog), "sim", 0, &pin) != ST_OK)
        return 0;
    uint64_t index = store_get(&pin, key_of(call, buf), &item) == ST_OK ? item.modified : 0;
    store_unpin(&pin);
    return index;
}

/* A watcher that still waits must have the newest index, or be told at once. */
static void on_timer(struct env_timer *timer)
{
    struct call *call = CONTAINER_OF(timer, struct call, timer);
    struct node *n = call->service->n;
    bool behind = call->watcher.begun && index_now(call) > call->index;
    if (behind && call->missed)
        core_fail(n->cluster->core,
                  "%s: a watcher of register %u that has index %" PRIu64 " is not told of %" PRIu64,
                  n->name, call->key, call->index, index_now(call));
    call->missed = behind;
    if (behind)
        timer_in(call, TOLD_MS);
    else if (!call->reading)
        begin(call);
}

struct watch_service *watch_service_new(struct node *n)
{
    if (!n->cluster->profile.watchers)
        return NULL;
    struct watch_service *service = mem_must_alloc(sizeof *service);
    *service = (struct watch_service){.n = n};
    if (state_watches_new(n->service, &service->watches) != ST_OK)
        core_fail(n->cluster->core, "%s: out of memory", n->name);
    for (unsigned i = 0; i < SIM_WATCHED; i++) {
        struct call *call = &service->calls[i];
        call->service = service;
        call->key = i;
        call->timer.fire = on_timer;
        call->gap.fire = on_gap;
        timer_in(call, AGAIN_MS);
    }
    return service;
}

void watch_service_stop(struct watch_service *service)
{
    if (service == NULL || service->stopped)
        return;
    service->stopped = true;
    for (unsigned i = 0; i < SIM_WATCHED; i++) {
        env_timer_stop(&service->n->env.env, &service->calls[i].timer);
        state_watch_end(service->watches, &service->calls[i].watcher);
    }
}

bool watch_service_idle(const struct watch_service *service)
{
    return service == NULL || state_watches_idle(service->watches);
}

void watch_service_free(struct watch_service *service)
{
    if (service == NULL)
        return;
    ASSERT(service->stopped);
    state_watches_free(service->watches);
    mem_free(service);
}

void watch_service_published(struct watch_service *service)
{
    if (service != NULL && !service->stopped)
        state_watches_published(service->watches);
}
