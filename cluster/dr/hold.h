/* The sync mode of a primary: the reply to a write waits until a secondary has stored the write.
 *
 *           settings                  a reply waited longer than the timeout
 *   OFF ◀──────────────▶ CONFIRMING ──────────────────────────────────────────▶ FALLEN_BACK
 *                            ▲                                                       │
 *                            └───── a secondary confirms in time again ──────────────┘
 *
 * dr_hold_set leads from OFF and to OFF, dr_hold_tick to FALLEN_BACK, dr_hold_confirm back. While
 * FALLEN_BACK no reply waits. From each phase dr_hold_supersede leads to SUPERSEDED, and from there
 * dr_hold_set.
 *
 * 1. The write is committed before its reply waits, so a reply that was not confirmed in time is
 *    not an error: it says that no secondary has confirmed the write.
 * 2. A version counts as confirmed when one secondary, whichever it is, has acknowledged it on a
 *    connection of the set and epoch. The version in a heartbeat does not count: the state of a
 *    secondary that does not follow may have another history.
 * 3. A reply waits on no thread and under no lock: the owner of the hold is told on its own thread.
 *    There are never more holds than requests under way.
 * 4. Each hold that waits ends exactly once. A change of the role ends them all, and so do the end
 * of the node's term and of the node. */
#ifndef HOLDFAST_CLUSTER_DR_HOLD_H
#define HOLDFAST_CLUSTER_DR_HOLD_H

#include "base/env.h"

#include <pthread.h>
#include <stdatomic.h>

/* Knowledge about a write when its reply leaves. */
enum dr_hold_end {
    DR_HOLD_CONFIRMED,   /* a secondary has it */
    DR_HOLD_UNCONFIRMED, /* committed here; no secondary has confirmed the write */
    /* Committed here, but another cluster took the place of this one before a secondary confirmed
     * the write: the set may not have it. */
    DR_HOLD_SUPERSEDED,
};

/* One reply that waits. Zero-initialise, and set `env`, `version` and `task.run`: the function runs
 * on the thread of `env`, when `end` is set. */
struct dr_hold {
    struct list link;
    struct env *env;
    struct env_task task;
    uint64_t version; /* of the state after the write */
    uint64_t since_ms;
    enum dr_hold_end end;
};

enum dr_hold_phase {
    DR_HOLDS_OFF,
    DR_HOLDS_CONFIRMING,
    DR_HOLDS_FALLEN_BACK,
    DR_HOLDS_SUPERSEDED,
};

/* For the status and the metrics. */
struct dr_hold_facts {
    enum dr_hold_phase phase;
    int64_t fallen_wall_ms; /* wall clock of the fall back; 0: the phase is another */
    uint64_t timeout_ms;
    uint64_t waiting;                            /* replies that wait now */
    uint64_t confirmed, unconfirmed, superseded; /* ends since the process began */
    uint64_t falls;                              /* falls back since the process began */
};

struct dr_holds {
    pthread_mutex_t lock;
    bool open;
    atomic_bool on; /* the phase is not DR_HOLDS_OFF */

    /* The members below are guarded by the lock. */
    struct list waiting; /* by version */
    struct dr_hold_facts facts;
    uint64_t confirmed; /* newest version that a secondary has acknowledged */
    uint64_t mark;      /* FALLEN_BACK: a version of the state, */
    uint64_t mark_ms;   /* and when it was the newest; 0: there is none yet */
};

/* ST_NOMEM. */
NODISCARD enum status dr_holds_init(struct dr_holds *holds);
void dr_holds_done(struct dr_holds *holds);

/* Wait for a secondary. False: there is nothing to wait for, `end` is set, and `task` does not run.
 * Any thread; `now_ms` monotonic, here and below. */
NODISCARD bool dr_hold_begin(struct dr_holds *holds, struct dr_hold *hold, uint64_t now_ms);
/* A secondary has stored everything up to `version`. Any thread. */
void dr_hold_confirm(struct dr_holds *holds, uint64_t version, uint64_t now_ms);
/* Set whether replies wait, and how long. Off: those that wait end as DR_HOLD_UNCONFIRMED. */
void dr_hold_set(struct dr_holds *holds, bool on, uint64_t timeout_ms);
/* Fall back if a reply has waited too long. `version`: newest version of the state. */
void dr_hold_tick(struct dr_holds *holds, uint64_t version, uint64_t now_ms, int64_t wall_ms);
/* Another cluster took this one's place: what was not confirmed may be lost. */
void dr_hold_supersede(struct dr_holds *holds);
/* This node is not active: its holds end as DR_HOLD_UNCONFIRMED. */
void dr_hold_release(struct dr_holds *holds);
void dr_hold_get(struct dr_holds *holds, struct dr_hold_facts *ret_facts);

#endif
