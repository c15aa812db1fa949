/* Clients whose requests are recorded, and the faults of audit devices. Each client has one request
 * under way, through a random node, and gives it up after some time. */
#include "trail.h"

#include "cluster.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    PATIENCE_MS_MIN = 200,
    PATIENCE_MS_MAX = 6000,
    FAULT_MS_MAX = 1500,
    WATCH_MS = 200,
    ENDED_MS = 15000
};

struct agent {
    struct cluster *cluster;
    struct rng rng;
    struct event event; /* the next request, or the end of the patience with this one */
    bool waiting;
    uint64_t number;
    unsigned slot;
    uint64_t process;
};

struct trails {
    struct agent *agents;
    unsigned n;
    bool stopped;
    struct trail trail;
    struct event fault, watch;
    struct rng faults;
};

bool trails_enabled(const struct cluster *c)
{
    return c->profile.recorders != 0;
}

struct trail *trails_log(struct cluster *c)
{
    return &c->trails->trail;
}

static enum trail_kind choose_kind(struct rng *r)
{
    static const enum trail_kind kinds[] = {TRAIL_LOOK,   TRAIL_LOOK,    TRAIL_LOOK,   TRAIL_TOUCH,
                                            TRAIL_TOUCH,  TRAIL_CHANGE,  TRAIL_CHANGE, TRAIL_CHANGE,
                                            TRAIL_REFUSE, TRAIL_OUTSIDE, TRAIL_STEP};
    return kinds[rng_below(r, ARRAY_LEN(kinds))];
}

static void ask(struct agent *ag)
{
    struct cluster *c = ag->cluster;
    bool patient = rng_chance(&ag->rng, 800);
    ag->number = trail_add(&c->trails->trail, choose_kind(&ag->rng));
    ag->slot = clients_choose_slot(c, &ag->rng);
    ag->process = c->nodes[ag->slot].process;
    ag->waiting = true;
    core_say(c->core, "recorded request %" PRIu64 " to %s", ag->number, c->nodes[ag->slot].name);
    trail_send(c, ag->number, ag->slot);
    core_after(c->core, &ag->event,
               (patient ? PATIENCE_MS_MAX : PATIENCE_MS_MIN + rng_below(&ag->rng, 500)) * SIM_MS);
}

static void rest(struct agent *ag)
{
    struct cluster *c = ag->cluster;
    ag->waiting = false;
    core_after(c->core, &ag->event, rng_between(&ag->rng, 1, c->profile.think_ms_max) * SIM_MS);
}

/* A read may change something all the same, as the uses of its token: nothing is said of that. */
static void give_up(struct agent *ag)
{
    struct cluster *c = ag->cluster;
    struct trail_call *call = &c->trails->trail.calls[ag->number];
    struct node *n = &c->nodes[ag->slot];
    if (n->process == ag->process && trail_give_up(n, ag->number))
        call->untouched = call->kind != TRAIL_TOUCH;
}

static void on_agent(struct event *event)
{
    struct agent *ag = CONTAINER_OF(event, struct agent, event);
    struct cluster *c = ag->cluster;
    if (ag->waiting) {
        give_up(ag);
        rest(ag);
    } else if (!c->trails->stopped && !clients_initialized(c)) {
        core_after(c->core, event, 50 * SIM_MS);
    } else if (!c->trails->stopped) {
        ask(ag);
    }
}

void trails_replied(struct cluster *c, uint64_t number, int http)
{
    for (unsigned i = 0; i < c->trails->n; i++) {
        struct agent *ag = &c->trails->agents[i];
        if (!ag->waiting || ag->number != number)
            continue;
        core_note(c->core, number << 16 | (uint64_t)http);
        rest(ag);
    }
}

static void on_fault(struct event *event)
{
    struct trails *t = CONTAINER_OF(event, struct trails, fault);
    struct cluster *c = t->agents[0].cluster;
    for (unsigned i = 0; i < SLOTS; i++)
        if (c->calm || rng_chance(&t->faults, 150))
            trail_devices_fault(c->nodes[i].trail_devices, &t->faults,
                                !c->calm && rng_chance(&t->faults, 500));
    if (!c->calm)
        core_after(c->core, event, rng_between(&t->faults, 20, FAULT_MS_MAX) * SIM_MS);
}

static void on_watch(struct event *event)
{
    struct trails *t = CONTAINER_OF(event, struct trails, watch);
    struct cluster *c = t->agents[0].cluster;
    core_after(c->core, event, WATCH_MS * SIM_MS);
    for (unsigned i = 0; i < SLOTS; i++)
        if (c->nodes[i].trail != NULL)
            trail_service_watch(c->nodes[i].trail);
}

void trails_start(struct cluster *c)
{
    struct trails *t = sim_alloc(sizeof *t);
    c->trails = t;
    t->n = c->profile.recorders;
    if (t->n == 0)
        return;
    t->agents = sim_alloc(t->n * sizeof *t->agents);
    for (unsigned i = 0; i < t->n; i++) {
        struct agent *ag = &t->agents[i];
        *ag = (struct agent){
            .cluster = c, .rng = rng_make(c->core->seed, 0xA0D1E + i), .event = {.fire = on_agent}};
        core_after(c->core, &ag->event, 340 * SIM_MS + i * SIM_MS);
    }
    t->faults = rng_make(c->core->seed, 0xA0D17);
    t->fault.fire = on_fault;
    core_after(c->core, &t->fault, 400 * SIM_MS);
    t->watch.fire = on_watch;
    core_after(c->core, &t->watch, WATCH_MS * SIM_MS);
}

void trails_stop(struct cluster *c)
{
    c->trails->stopped = true;
}

bool trails_idle(const struct cluster *c)
{
    for (unsigned i = 0; i < c->trails->n; i++)
        if (c->trails->agents[i].waiting)
            return false;
    return true;
}

void trails_check(struct cluster *c)
{
    struct node *leader;
    char text[TRAIL_TEXT];
    if (!trails_enabled(c))
        return;
    cluster_run_for(c, ENDED_MS * (uint64_t)SIM_MS); /* what clients gave up comes to its end */
    trail_handover_check(c);
    leader = cluster_leader(c);
    trail_find_changes(leader, &c->trails->trail);
    if (!trail_judge(&c->trails->trail, text))
        core_fail(c->core, "%s", text);
    for (uint64_t i = 0; i < c->trails->trail.n_calls; i++) {
        const struct trail_call *call = &c->trails->trail.calls[i];
        bool asked = call->n_lines != 0 && call->n_effects == 0;
        c->tally.reached[REACH_ASKED_ONLY] +=
            asked && (call->kind == TRAIL_CHANGE || call->kind == TRAIL_OUTSIDE);
    }
}
