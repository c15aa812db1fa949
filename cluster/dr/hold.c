#include "cluster/dr/hold.h"

#include "base/trace.h"

#include <inttypes.h>

enum status dr_holds_init(struct dr_holds *holds)
{
    ASSERT(!holds->open);
    list_init(&holds->waiting);
    holds->open = pthread_mutex_init(&holds->lock, NULL) == 0;
    return holds->open ? ST_OK : ST_NOMEM;
}

void dr_holds_done(struct dr_holds *holds)
{
    if (!holds->open)
        return;
    ASSERT(list_empty(&holds->waiting)); /* the mode was switched off, and no worker is left */
    (void)pthread_mutex_destroy(&holds->lock); /* no thread holds the lock */
    holds->open = false;
}

static void enter(struct dr_holds *holds)
{
    int failed = pthread_mutex_lock(&holds->lock);
    ASSERT(failed == 0);
}

static void leave(struct dr_holds *holds)
{
    int failed = pthread_mutex_unlock(&holds->lock);
    ASSERT(failed == 0);
}

static void count(struct dr_hold_facts *facts, enum dr_hold_end end)
{
    switch (end) {
    case DR_HOLD_CONFIRMED: facts->confirmed++; return;
    case DR_HOLD_UNCONFIRMED: facts->unconfirmed++; return;
    case DR_HOLD_SUPERSEDED: facts->superseded++; return;
    }
}

/* Move the holds up to `version` to `ended`. The caller holds the lock. */
static void take_ended(struct dr_holds *holds, uint64_t version, enum dr_hold_end end,
                       struct list *ended)
{
    LIST_FOR_SAFE (link, next, &holds->waiting) {
        struct dr_hold *hold = CONTAINER_OF(link, struct dr_hold, link);
        if (hold->version > version)
            break; /* the list is in the order of the versions */
        hold->end = end;
        count(&holds->facts, end);
        ASSERT(holds->facts.waiting > 0);
        holds->facts.waiting--;
        list_remove(link);
        list_push(ended, link);
    }
}

/* Tell the owners, without the lock. An owner may free its hold at once. */
static void tell(struct list *ended)
{
    LIST_FOR_SAFE (link, next, ended) {
        struct dr_hold *hold = CONTAINER_OF(link, struct dr_hold, link);
        list_remove(link);
        env_post(hold->env, &hold->task);
    }
}

/* Commits end in the order of their versions, but not on one thread: a hold belongs near the end.
 */
static void insert(struct dr_holds *holds, struct dr_hold *hold)
{
    struct list *at = &holds->waiting;
    while (at->prev != &holds->waiting &&
           CONTAINER_OF(at->prev, struct dr_hold, link)->version > hold->version)
        at = at->prev;
    list_insert_before(at, &hold->link);
    holds->facts.waiting++;
}

bool dr_hold_begin(struct dr_holds *holds, struct dr_hold *hold, uint64_t now_ms)
{
    ASSERT(hold->env != NULL && hold->task.run != NULL);
    hold->since_ms = now_ms;
    hold->end = DR_HOLD_UNCONFIRMED;
    if (!atomic_load(&holds->on))
        return false;
    enter(holds);
    bool waits = holds->facts.phase == DR_HOLDS_CONFIRMING && hold->version > holds->confirmed;
    if (hold->version <= holds->confirmed)
        hold->end = DR_HOLD_CONFIRMED;
    else if (holds->facts.phase == DR_HOLDS_SUPERSEDED)
        hold->end = DR_HOLD_SUPERSEDED;
    if (waits)
        insert(holds, hold);
    else if (holds->facts.phase != DR_HOLDS_OFF)
        count(&holds->facts, hold->end);
    leave(holds);
    return waits;
}

/* Whether a version that was the newest shortly before is confirmed now. */
static bool is_in_time(const struct dr_holds *holds, uint64_t version, uint64_t now_ms)
{
    return holds->mark_ms != 0 && version >= holds->mark &&
           now_ms - MIN(holds->mark_ms, now_ms) <= holds->facts.timeout_ms / 2;
}

void dr_hold_confirm(struct dr_holds *holds, uint64_t version, uint64_t now_ms)
{
    struct list ended;
    bool returns = false;
    if (!atomic_load(&holds->on))
        return;
    list_init(&ended);
    enter(holds);
    holds->confirmed = MAX(holds->confirmed, version);
    take_ended(holds, holds->confirmed, DR_HOLD_CONFIRMED, &ended);
    if (holds->facts.phase == DR_HOLDS_FALLEN_BACK && is_in_time(holds, version, now_ms)) {
        returns = true;
        holds->facts.phase = DR_HOLDS_CONFIRMING;
        holds->facts.fallen_wall_ms = 0;
        holds->mark_ms = 0;
    }
    leave(holds);
    tell(&ended);
    if (returns)
        trace(TRACE_INFO, "dr",
              "sync mode: a secondary has caught up, so writes wait for it again");
}

void dr_hold_set(struct dr_holds *holds, bool on, uint64_t timeout_ms)
{
    struct list ended;
    list_init(&ended);
    enter(holds);
    enum dr_hold_phase phase = holds->facts.phase;
    bool was_on = phase == DR_HOLDS_CONFIRMING || phase == DR_HOLDS_FALLEN_BACK;
    holds->facts.timeout_ms = timeout_ms;
    if (on != was_on || phase == DR_HOLDS_SUPERSEDED) {
        holds->facts.phase = on ? DR_HOLDS_CONFIRMING : DR_HOLDS_OFF;
        holds->facts.fallen_wall_ms = 0;
        holds->confirmed = holds->mark_ms = 0;
    }
    if (!on)
        take_ended(holds, UINT64_MAX, DR_HOLD_UNCONFIRMED, &ended);
    atomic_store(&holds->on, on);
    leave(holds);
    tell(&ended);
}

/* Whether a reply waits for longer than the timeout. The caller holds the lock. */
static bool is_late(const struct dr_holds *holds, uint64_t now_ms)
{
    LIST_FOR (link, &holds->waiting) {
        const struct dr_hold *hold = CONTAINER_OF(link, struct dr_hold, link);
        if (now_ms > hold->since_ms + holds->facts.timeout_ms)
            return true;
    }
    return false;
}

void dr_hold_tick(struct dr_holds *holds, uint64_t version, uint64_t now_ms, int64_t wall_ms)
{
    struct list ended;
    uint64_t timeout_ms = 0;
    if (!atomic_load(&holds->on))
        return;
    list_init(&ended);
    enter(holds);
    if (holds->facts.phase == DR_HOLDS_CONFIRMING && is_late(holds, now_ms)) {
        timeout_ms = holds->facts.timeout_ms;
        holds->facts.phase = DR_HOLDS_FALLEN_BACK;
        holds->facts.fallen_wall_ms = wall_ms;
        holds->facts.falls++;
        holds->mark_ms = 0;
        take_ended(holds, UINT64_MAX, DR_HOLD_UNCONFIRMED, &ended);
    }
    if (holds->facts.phase == DR_HOLDS_FALLEN_BACK &&
        (holds->mark_ms == 0 || now_ms - holds->mark_ms > holds->facts.timeout_ms / 2)) {
        holds->mark = version;
        holds->mark_ms = now_ms;
    }
    leave(holds);
    tell(&ended);
    if (timeout_ms != 0)
        trace(TRACE_WARN, "dr",
              "sync mode: no secondary confirmed a write within %" PRIu64
              " ms. Writes are acknowledged without it until a secondary has caught up",
              timeout_ms);
}

void dr_hold_supersede(struct dr_holds *holds)
{
    struct list ended;
    list_init(&ended);
    enter(holds);
    holds->facts.phase = DR_HOLDS_SUPERSEDED;
    holds->facts.fallen_wall_ms = 0;
    take_ended(holds, UINT64_MAX, DR_HOLD_SUPERSEDED, &ended);
    atomic_store(&holds->on, true);
    leave(holds);
    tell(&ended);
}

void dr_hold_release(struct dr_holds *holds)
{
    struct list ended;
    list_init(&ended);
    enter(holds);
    take_ended(holds, UINT64_MAX, DR_HOLD_UNCONFIRMED, &ended);
    leave(holds);
    tell(&ended);
}

void dr_hold_get(struct dr_holds *holds, struct dr_hold_facts *ret_facts)
{
    enter(holds);
    *ret_facts = holds->facts;
    leave(holds);
}
