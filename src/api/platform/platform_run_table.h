/* The one table of the transitions of a run.
 *
 * A run is in one status. An event moves the run by the first row that has the status, the event
 * and a guard that holds; without such a row the event is refused (409). Rows of RUN_GO_ON are
 * taken by themselves, in the same transaction as the row before. The documentation
 * (docs/platform.md) and the tests are made from this table. Source: spec/platform.md 2.6.
 *
 * Stages of run tasks become statuses of their own between the present ones, and rows that lead
 * through them. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_RUN_TABLE_H
#define HOLDFAST_API_PLATFORM_PLATFORM_RUN_TABLE_H

#include "base/bytes.h"

enum run_status {
    RUN_PENDING,
    RUN_PLAN_QUEUED,
    RUN_PLANNING,
    RUN_PLANNED,
    RUN_PLANNED_AND_SAVED,
    RUN_CONFIRMED,
    RUN_APPLY_QUEUED,
    RUN_APPLYING,
    RUN_APPLIED,
    RUN_PLANNED_AND_FINISHED,
    RUN_DISCARDED,
    RUN_ERRORED,
    RUN_CANCELED,
    RUN_FORCE_CANCELED,
    RUN_STATUSES,
};

enum run_event {
    RUN_START,   /* the run's turn has come: head of the queue, or a run that needs no lock */
    RUN_CLAIM,   /* a worker took the phase that is queued */
    RUN_FINISH,  /* the worker reports a phase that ended well */
    RUN_FAIL,    /* the worker reports a failure */
    RUN_STOP,    /* the worker reports that the phase was interrupted */
    RUN_LOSE,    /* the lease of the worker ended, or the state was restored */
    RUN_CONFIRM, /* actions of clients */
    RUN_DISCARD,
    RUN_CANCEL,
    RUN_FORCE_CANCEL,
    RUN_GO_ON, /* taken by itself */
    RUN_EVENTS,
};

enum run_guard {
    RUN_ALWAYS,
    RUN_NOTHING_TO_APPLY, /* plan-only, or without changes and not allowed to apply nothing */
    RUN_SAVES,            /* save-plan */
    RUN_AUTO_APPLIES,
    RUN_WAS_CANCELED, /* a client asked for the cancel */
    RUN_COOLED_OFF,   /* and long enough ago */
    RUN_UNLOCKED,     /* the lock of the workspace is free */
    RUN_GUARDS,
};

/* The status of the plan or the apply of a run. */
enum run_phase_status {
    RUN_PHASE_PENDING,
    RUN_PHASE_QUEUED,
    RUN_PHASE_RUNNING,
    RUN_PHASE_FINISHED,
    RUN_PHASE_ERRORED,
    RUN_PHASE_CANCELED,
    RUN_PHASE_UNREACHABLE,
};

/* The event that the notification configurations of the workspace are told. */
enum run_told {
    RUN_TOLD_NOTHING,
    RUN_TOLD_CREATED,
    RUN_TOLD_PLANNING,
    RUN_TOLD_NEEDS_ATTENTION,
    RUN_TOLD_APPLYING,
    RUN_TOLD_COMPLETED,
    RUN_TOLD_ERRORED,
};

struct run_row {
    enum run_status from;
    enum run_event event;
    enum run_guard guard;
    enum run_status to; /* `from`: the run stays, and no RUN_GO_ON follows */
    enum run_told told;
};

/* The facts of a status. */
struct run_state {
    const char *name;                  /* "plan_queued" */
    const char *time;                  /* name of its time in status-timestamps */
    bool final;                        /* no event moves the run */
    bool under_way;                    /* a worker may have it; a restore ends it */
    bool holds_lock;                   /* for a run that needs the lock */
    enum run_phase_status plan, apply; /* of a run that came here the long way */
    const char *message;               /* of what is told about it */
};

extern const struct run_row run_rows[];
extern const size_t run_n_rows;

/* The facts of a status. */
const struct run_state *run_state_of(enum run_status status);
/* Find the status with this name. False: there is none. */
bool run_status_find(const char *name, enum run_status *ret_status);
const char *run_event_name(enum run_event event);
const char *run_guard_name(enum run_guard guard);
const char *run_phase_status_name(enum run_phase_status status);
/* The trigger of configurations: "run:created"; NULL: nothing is told. */
const char *run_told_name(enum run_told told);

/* The first row that fits; `guards` has a bit (1 << guard) for each guard that holds. NULL: the
 * event is refused. */
const struct run_row *run_row_find(enum run_status from, enum run_event event, unsigned guards);

/* The status of a phase after its run went to `to`; `before` is that of the phase. A phase that
 * ended stays as it is. `plan`: the plan, else the apply. */
enum run_phase_status run_phase_after(enum run_status to, bool plan, enum run_phase_status before);

#endif
