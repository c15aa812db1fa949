/* Services: when they begin and end, on the raft thread. service_run.c has their own side. */
#include "node/service.h"

#include "base/mem.h"
#include "base/trace.h"
#include "loop/loop.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A term that no node ever leads. */
static const uint64_t no_term = UINT64_MAX;

/* A proposal of a run that has ended is refused like a proposal of an earlier term. */
static void service_propose(struct state_log *log, struct rlog_propose *p)
{
    struct service *s = CONTAINER_OF(log, struct service, log);
    p->term = s->ended ? no_term : s->term;
    rlog_propose(log->ctx, p);
}

static void service_release(struct service *s)
{
    state_free(s->state);
    loop_free(s->env);
    s->state = NULL;
    s->env = NULL;
}

static void on_gone(struct env_task *task)
{
    struct service *s = CONTAINER_OF(task, struct service, gone);
    ASSERT(s->phase != SERVICE_IDLE);
    if (pthread_join(s->thread, NULL) != 0)
        abort(); /* the thread was started and is joined once */
    service_release(s);
    if (s->complained_ms != 0)
        trace(TRACE_INFO, "node", "the service %s has ended", s->row->name);
    s->phase = SERVICE_IDLE;
    s->complained_ms = 0;
    if (s->ended)
        s->term = 0;
}

static enum status service_open(struct service *s)
{
    struct part_host *host = s->all->host;
    TRY(loop_new(NULL, &s->env));
    s->log = state_log_of(host->rlog, host->env);
    s->log.propose = service_propose;
    TRY(state_new(s->env, &s->log, host->barrier, &s->state));
    return pthread_create(&s->thread, NULL, service_main, s) == 0 ? ST_OK : ST_NOMEM;
}

static void service_begin(struct service *s, uint64_t term)
{
    ASSERT(s->phase == SERVICE_IDLE && term != 0 && term != no_term);
    s->term = term;
    s->ended = false;
    s->phase = SERVICE_RUNNING;
    s->gone.run = on_gone;
    s->commit = (struct state_commit){0};
    enum status st = service_open(s);
    if (st == ST_OK)
        return;
    trace(TRACE_WARN, "node", "the service %s does not begin: %s", s->row->name, status_text(st));
    service_release(s);
    s->phase = SERVICE_IDLE;
    s->term = 0; /* the next tick begins the service again */
}

static void service_ask(struct service *s)
{
    ASSERT(s->phase == SERVICE_RUNNING && !s->ended);
    s->phase = SERVICE_ENDING;
    s->ended = true;
    s->asked_ms = env_mono_ms(s->all->host->env);
    loop_stop(s->env); /* ends a wait of the service's run */
}

static void complain_if_late(struct service *s)
{
    uint64_t now_ms = env_mono_ms(s->all->host->env);
    if (s->phase != SERVICE_ENDING ||
        now_ms - MAX(s->asked_ms, s->complained_ms) < SERVICE_COMPLAIN_MS)
        return;
    s->complained_ms = now_ms;
    trace(TRACE_WARN, "node",
          "the service %s of term %" PRIu64 " was asked to end %" PRIu64
          " s ago and still runs: its writes are refused",
          s->row->name, s->term, (now_ms - s->asked_ms) / 1000);
}

static void service_changed(void *self, const struct rlog_status *raft)
{
    struct services *all = self;
    (void)raft;
    ASSERT(part_on_thread(all->host));
    ASSERT(!all->host->stopping || all->host->active_term == 0);
    for (size_t i = 0; i < all->n; i++) {
        struct service *s = &all->items[i];
        bool fits = s->row->standing == all->host->dr_secondary;
        uint64_t term = fits ? all->host->active_term : 0;
        if (s->phase == SERVICE_RUNNING && s->term != term)
            service_ask(s);
        if (s->phase == SERVICE_IDLE && term == 0)
            s->term = 0; /* the node may become active again in the same term */
        if (s->phase == SERVICE_IDLE && s->term != term)
            service_begin(s, term);
        complain_if_late(s);
    }
}

static enum status service_start(void *self, struct part_host *host)
{
    struct services *all = self;
    ASSERT(all->host == NULL && (all->n == 0 || all->time_ms != NULL));
    all->host = host;
    all->items = all->n != 0 ? mem_zalloc(all->n * sizeof *all->items) : NULL;
    if (all->n != 0 && all->items == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < all->n; i++)
        all->items[i] = (struct service){.all = all, .row = &all->rows[i]};
    return ST_OK;
}

/* End the process. A run that hangs may use the replica and the barrier again at any time, so the
 * node cannot be freed. */
static void give_up(struct services *all, const struct service *s)
{
    struct reason reason;
    reason_set(&reason, "the service %s did not end within %u s", s->row->name,
               SERVICE_STOP_MS / 1000);
    /* if the process does not end, wait for the same time again */
    all->stop_ms = env_mono_ms(all->host->env);
    all->host->calls->fail(all->host, ST_TIMEOUT, &reason);
}

static bool service_stop(void *self)
{
    struct services *all = self;
    uint64_t now_ms = env_mono_ms(all->host->env);
    bool rests = true;
    ASSERT(all->host->stopping);
    if (all->stop_ms == 0)
        all->stop_ms = now_ms;
    for (size_t i = 0; i < all->n; i++) {
        struct service *s = &all->items[i];
        if (s->phase == SERVICE_RUNNING)
            service_ask(s);
        if (s->phase == SERVICE_IDLE)
            continue;
        rests = false;
        if (now_ms - all->stop_ms >= SERVICE_STOP_MS)
            give_up(all, s);
    }
    return rests;
}

void services_done(struct services *all)
{
    for (size_t i = 0; i < all->n && all->items != NULL; i++)
        ASSERT(all->items[i].phase == SERVICE_IDLE);
    mem_free(all->items);
    all->items = NULL;
}

const struct part service_part = {
    .name = "services", .start = service_start, .changed = service_changed, .stop = service_stop};
