#include "api/platform/platform_run_table.h"

const struct run_row run_rows[] = {
    {RUN_PENDING, RUN_START, RUN_ALWAYS, RUN_PLAN_QUEUED, RUN_TOLD_NOTHING},
    {RUN_PENDING, RUN_DISCARD, RUN_ALWAYS, RUN_DISCARDED, RUN_TOLD_NOTHING},
    {RUN_PENDING, RUN_CANCEL, RUN_ALWAYS, RUN_CANCELED, RUN_TOLD_ERRORED},

    {RUN_PLAN_QUEUED, RUN_CLAIM, RUN_ALWAYS, RUN_PLANNING, RUN_TOLD_PLANNING},
    {RUN_PLAN_QUEUED, RUN_CANCEL, RUN_ALWAYS, RUN_CANCELED, RUN_TOLD_ERRORED},
    {RUN_PLAN_QUEUED, RUN_LOSE, RUN_ALWAYS, RUN_ERRORED, RUN_TOLD_ERRORED},

    {RUN_PLANNING, RUN_FINISH, RUN_WAS_CANCELED, RUN_CANCELED, RUN_TOLD_ERRORED},
    {RUN_PLANNING, RUN_FINISH, RUN_ALWAYS, RUN_PLANNED, RUN_TOLD_NOTHING},
    {RUN_PLANNING, RUN_FAIL, RUN_WAS_CANCELED, RUN_CANCELED, RUN_TOLD_ERRORED},
    {RUN_PLANNING, RUN_FAIL, RUN_ALWAYS, RUN_ERRORED, RUN_TOLD_ERRORED},
    {RUN_PLANNING, RUN_STOP, RUN_WAS_CANCELED, RUN_CANCELED, RUN_TOLD_ERRORED},
    {RUN_PLANNING, RUN_STOP, RUN_ALWAYS, RUN_ERRORED, RUN_TOLD_ERRORED},
    {RUN_PLANNING, RUN_LOSE, RUN_ALWAYS, RUN_ERRORED, RUN_TOLD_ERRORED},
    {RUN_PLANNING, RUN_CANCEL, RUN_ALWAYS, RUN_PLANNING, RUN_TOLD_NOTHING},
    {RUN_PLANNING, RUN_FORCE_CANCEL, RUN_COOLED_OFF, RUN_FORCE_CANCELED, RUN_TOLD_ERRORED},

    {RUN_PLANNED, RUN_GO_ON, RUN_NOTHING_TO_APPLY, RUN_PLANNED_AND_FINISHED, RUN_TOLD_COMPLETED},
    {RUN_PLANNED, RUN_GO_ON, RUN_SAVES, RUN_PLANNED_AND_SAVED, RUN_TOLD_NEEDS_ATTENTION},
    {RUN_PLANNED, RUN_GO_ON, RUN_AUTO_APPLIES, RUN_CONFIRMED, RUN_TOLD_NOTHING},
    {RUN_PLANNED, RUN_GO_ON, RUN_ALWAYS, RUN_PLANNED, RUN_TOLD_NEEDS_ATTENTION},
    {RUN_PLANNED, RUN_CONFIRM, RUN_ALWAYS, RUN_CONFIRMED, RUN_TOLD_NOTHING},
    {RUN_PLANNED, RUN_DISCARD, RUN_ALWAYS, RUN_DISCARDED, RUN_TOLD_NOTHING},
    {RUN_PLANNED, RUN_LOSE, RUN_ALWAYS, RUN_ERRORED, RUN_TOLD_ERRORED},

    {RUN_PLANNED_AND_SAVED, RUN_CONFIRM, RUN_UNLOCKED, RUN_CONFIRMED, RUN_TOLD_NOTHING},
    {RUN_PLANNED_AND_SAVED, RUN_DISCARD, RUN_ALWAYS, RUN_DISCARDED, RUN_TOLD_NOTHING},

    {RUN_CONFIRMED, RUN_GO_ON, RUN_ALWAYS, RUN_APPLY_QUEUED, RUN_TOLD_NOTHING},

    {RUN_APPLY_QUEUED, RUN_CLAIM, RUN_ALWAYS, RUN_APPLYING, RUN_TOLD_APPLYING},
    {RUN_APPLY_QUEUED, RUN_CANCEL, RUN_ALWAYS, RUN_CANCELED, RUN_TOLD_ERRORED},
    {RUN_APPLY_QUEUED, RUN_LOSE, RUN_ALWAYS, RUN_ERRORED, RUN_TOLD_ERRORED},

    /* an apply that finished before the interrupt reached it has applied everything */
    {RUN_APPLYING, RUN_FINISH, RUN_ALWAYS, RUN_APPLIED, RUN_TOLD_COMPLETED},
    {RUN_APPLYING, RUN_FAIL, RUN_WAS_CANCELED, RUN_CANCELED, RUN_TOLD_ERRORED},
    {RUN_APPLYING, RUN_FAIL, RUN_ALWAYS, RUN_ERRORED, RUN_TOLD_ERRORED},
    {RUN_APPLYING, RUN_STOP, RUN_WAS_CANCELED, RUN_CANCELED, RUN_TOLD_ERRORED},
    {RUN_APPLYING, RUN_STOP, RUN_ALWAYS, RUN_ERRORED, RUN_TOLD_ERRORED},
    {RUN_APPLYING, RUN_LOSE, RUN_ALWAYS, RUN_ERRORED, RUN_TOLD_ERRORED},
    {RUN_APPLYING, RUN_CANCEL, RUN_ALWAYS, RUN_APPLYING, RUN_TOLD_NOTHING},
    {RUN_APPLYING, RUN_FORCE_CANCEL, RUN_COOLED_OFF, RUN_FORCE_CANCELED, RUN_TOLD_ERRORED},
};
const size_t run_n_rows = ARRAY_LEN(run_rows);

#define PENDING RUN_PHASE_PENDING
#define QUEUED RUN_PHASE_QUEUED
#define RUNNING RUN_PHASE_RUNNING
#define FINISHED RUN_PHASE_FINISHED
#define UNREACHABLE RUN_PHASE_UNREACHABLE

static const struct run_state states[RUN_STATUSES] = {
    [RUN_PENDING] = {"pending", "plan-queueable-at", false, false, false, PENDING, PENDING,
                     "Run Created"},
    [RUN_PLAN_QUEUED] = {"plan_queued", "plan-queued-at", false, true, true, QUEUED, PENDING,
                         "Run Queued"},
    [RUN_PLANNING] = {"planning", "planning-at", false, true, true, RUNNING, PENDING,
                      "Run Planning"},
    [RUN_PLANNED] = {"planned", "planned-at", false, true, true, FINISHED, PENDING,
                     "Run Needs Attention"},
    [RUN_PLANNED_AND_SAVED] = {"planned_and_saved", "planned-and-saved-at", false, false, false,
                               FINISHED, PENDING, "Run Needs Attention"},
    [RUN_CONFIRMED] = {"confirmed", "confirmed-at", false, true, true, FINISHED, PENDING,
                       "Run Confirmed"},
    [RUN_APPLY_QUEUED] = {"apply_queued", "apply-queued-at", false, true, true, FINISHED, QUEUED,
                          "Run Queued"},
    [RUN_APPLYING] = {"applying", "applying-at", false, true, true, FINISHED, RUNNING,
                      "Run Applying"},
    [RUN_APPLIED] = {"applied", "applied-at", true, false, false, FINISHED, FINISHED,
                     "Run Applied"},
    [RUN_PLANNED_AND_FINISHED] = {"planned_and_finished", "planned-and-finished-at", true, false,
                                  false, FINISHED, UNREACHABLE, "Run Planned and Finished"},
    [RUN_DISCARDED] = {"discarded", "discarded-at", true, false, false, UNREACHABLE, UNREACHABLE,
                       "Run Discarded"},
    [RUN_ERRORED] = {"errored", "errored-at", true, false, false, RUN_PHASE_ERRORED,
                     RUN_PHASE_ERRORED, "Run Errored"},
    [RUN_CANCELED] = {"canceled", "canceled-at", true, false, false, RUN_PHASE_CANCELED,
                      RUN_PHASE_CANCELED, "Run Canceled"},
    [RUN_FORCE_CANCELED] = {"force_canceled", "force-canceled-at", true, false, false,
                            RUN_PHASE_CANCELED, RUN_PHASE_CANCELED, "Run Canceled"},
};

const struct run_state *run_state_of(enum run_status status)
{
    ASSERT(status < RUN_STATUSES);
    return &states[status];
}

bool run_status_find(const char *name, enum run_status *ret_status)
{
    for (unsigned i = 0; i < RUN_STATUSES; i++)
        if (strcmp(states[i].name, name) == 0) {
            *ret_status = (enum run_status)i;
            return true;
        }
    return false;
}

const char *run_event_name(enum run_event event)
{
    static const char *const names[RUN_EVENTS] = {
        [RUN_START] = "start",     [RUN_CLAIM] = "claim",
        [RUN_FINISH] = "finish",   [RUN_FAIL] = "fail",
        [RUN_STOP] = "stop",       [RUN_LOSE] = "lose",
        [RUN_CONFIRM] = "confirm", [RUN_DISCARD] = "discard",
        [RUN_CANCEL] = "cancel",   [RUN_FORCE_CANCEL] = "force-cancel",
        [RUN_GO_ON] = "go on",
    };
    ASSERT(event < RUN_EVENTS);
    return names[event];
}

const char *run_guard_name(enum run_guard guard)
{
    static const char *const names[RUN_GUARDS] = {
        [RUN_ALWAYS] = "",
        [RUN_NOTHING_TO_APPLY] = "nothing to apply",
        [RUN_SAVES] = "save-plan",
        [RUN_AUTO_APPLIES] = "auto-apply",
        [RUN_WAS_CANCELED] = "a client asked for the cancel",
        [RUN_COOLED_OFF] = "10 s after a cancel",
        [RUN_UNLOCKED] = "the workspace is unlocked",
    };
    ASSERT(guard < RUN_GUARDS);
    return names[guard];
}

const char *run_phase_status_name(enum run_phase_status status)
{
    static const char *const names[] = {
        [RUN_PHASE_PENDING] = "pending",         [RUN_PHASE_QUEUED] = "queued",
        [RUN_PHASE_RUNNING] = "running",         [RUN_PHASE_FINISHED] = "finished",
        [RUN_PHASE_ERRORED] = "errored",         [RUN_PHASE_CANCELED] = "canceled",
        [RUN_PHASE_UNREACHABLE] = "unreachable",
    };
    ASSERT(status < ARRAY_LEN(names));
    return names[status];
}

const char *run_told_name(enum run_told told)
{
    static const char *const names[] = {
        [RUN_TOLD_NOTHING] = NULL,
        [RUN_TOLD_CREATED] = "run:created",
        [RUN_TOLD_PLANNING] = "run:planning",
        [RUN_TOLD_NEEDS_ATTENTION] = "run:needs_attention",
        [RUN_TOLD_APPLYING] = "run:applying",
        [RUN_TOLD_COMPLETED] = "run:completed",
        [RUN_TOLD_ERRORED] = "run:errored",
    };
    ASSERT(told < ARRAY_LEN(names));
    return names[told];
}

const struct run_row *run_row_find(enum run_status from, enum run_event event, unsigned guards)
{
    for (size_t i = 0; i < run_n_rows; i++)
        if (run_rows[i].from == from && run_rows[i].event == event &&
            (run_rows[i].guard == RUN_ALWAYS || (guards & 1U << run_rows[i].guard) != 0))
            return &run_rows[i];
    return NULL;
}

enum run_phase_status run_phase_after(enum run_status to, bool plan, enum run_phase_status before)
{
    const struct run_state *state = run_state_of(to);
    enum run_phase_status wanted = plan ? state->plan : state->apply;
    bool ended = before > RUN_PHASE_RUNNING;
    if (ended)
        return before;
    return state->final && before == RUN_PHASE_PENDING ? RUN_PHASE_UNREACHABLE : wanted;
}
