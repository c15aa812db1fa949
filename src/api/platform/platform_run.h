/* Runs: the step that moves a run, and what surrounds it.
 *
 *   s/platform/open/ORG/TIME/RUN         a run that has not ended
 *   s/platform/queue/WS/TIME/RUN         a run that waits for its turn in the workspace
 *   s/platform/job/POOL/RANK/TIME/PHASE  a plan or apply that waits for a worker; RANK 0: applies,
 *                                        1: plans, 2: speculative plans
 *   s/platform/age/WS/TIME/ID            a run or configuration version, the oldest first
 *   s/platform/lease/TIME/PHASE          a phase that a worker has, until TIME
 *   s/platform/outbox-restored           the version of the last restore after which the outbox
 *   s/platform/restored                  was emptied, and runs that were under way ended
 *
 * TIME is cluster time in 12 hex digits: of the creation, or of the end of the lease.
 *
 * 1. One transaction takes a step: the run, its phases, the lock of the workspace, the queues, the
 *    rows of the outbox and the end of the log. No client sees half of it.
 * 2. A phase has one owner, who shows the claim. It is claimed once, and never again after it
 *    ended: an apply is run at most once.
 * 3. The lock of a workspace has one holder. A run has it from its turn on, plan-only runs never,
 *    and saved plans from their confirmation on. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_RUN_H
#define HOLDFAST_API_PLATFORM_PLATFORM_RUN_H

#include "api/platform/platform_kinds.h"
#include "api/platform/platform_run_table.h"

#define PLATFORM_POOL_DEFAULT "apool-default" /* the site-wide pool */

enum {
    PLATFORM_COOL_OFF_MS = 10 * 1000,
    PLATFORM_RUNS_MAX = 500,   /* of a workspace; the oldest that ended go */
    PLATFORM_OPEN_MAX = 5000,  /* runs of an organization that have not ended */
    PLATFORM_QUEUE_MAX = 1000, /* runs of a workspace that wait for their turn */
};

/* A run with all that a step changes. */
struct platform_flow {
    struct state_txn *txn;
    int64_t now_ms;
    const char *actor;   /* id of the user who acts; "": the system */
    const char *comment; /* of an action; "": none */
    const char *why;     /* of a failure, for people; "": none */
    struct platform_object ws, run, plan, apply;
    bool ws_changed;
};

/* Load a run with its workspace and phases. ST_NOT_FOUND: the run, or what it belongs to, is gone.
 */
NODISCARD enum status platform_flow_load(struct state_txn *txn, int64_t now_ms, const char *run,
                                         struct platform_flow *ret_flow);
/* The same for the run of a plan or apply. */
NODISCARD enum status platform_flow_of_phase(struct state_txn *txn, int64_t now_ms,
                                             const char *phase, struct platform_flow *ret_flow);
/* Stage a step, and those that follow by themselves; when the lock of the workspace becomes free,
 * also the start of its next run. ST_EXISTS: no row of the table fits, nothing is staged. */
NODISCARD enum status platform_run_step(struct platform_flow *flow, enum run_event event);
/* Stage a new run, whose objects are in the flow and not stored yet, and its start if its turn has
 * come. ST_BUSY: a restore is still being followed. */
NODISCARD enum status platform_run_enter(struct platform_flow *flow);
/* Stage the start of the run whose turn has come, if the workspace is unlocked. */
NODISCARD enum status platform_run_next(struct state_txn *txn, int64_t now_ms, const char *ws);
/* Stage that the holder of the lock is discarded, and that the pending run `next` of the workspace
 * starts in its place. ST_EXISTS: the holder cannot be discarded. */
NODISCARD enum status platform_run_replace(struct platform_flow *holder, const char *next);
/* Stage the flow's objects as they are. */
NODISCARD enum status platform_flow_put(struct platform_flow *flow);

/* The status of a run, from its attributes. */
enum run_status platform_run_status(const struct platform_object *run);
/* Whether an event would be taken now. */
bool platform_run_takes(const struct platform_flow *flow, enum run_event event);
/* Whether the plan of the run needs no lock: plan-only, or only saved. */
bool platform_run_passes(const struct platform_object *run);

/* Stage the end of the keys that a run, phase or configuration version has besides its record, and
 * is being deleted; other objects have none. */
NODISCARD enum status platform_run_forget(const struct auth_scope *scope,
                                          const struct platform_object *object);

/* Keys, and the prefix of keys, in the arena. `of` "": the kind has no such part. ST_NOMEM. */
NODISCARD enum status platform_run_key(struct state_txn *txn, const char *kind, const char *of,
                                       int64_t time_ms, const char *id, struct bytes *ret_key);
NODISCARD enum status platform_run_prefix(struct state_txn *txn, const char *kind, const char *of,
                                          struct bytes *ret_prefix);
/* The id at the end of such a key. NULL: no memory. */
const char *platform_run_key_id(struct state_txn *txn, struct bytes key);

/* Stage the lease of a phase until `until_ms`; it replaces the former one. 0: it ends. */
NODISCARD enum status platform_lease_set(struct state_txn *txn, struct platform_object *phase,
                                         int64_t until_ms);

/* Note the age of a new run or configuration version, and stage the deletion of the oldest that are
 * not needed, a few at a time. As state_put. */
NODISCARD enum status platform_age_add(struct state_txn *txn, const char *ws, int64_t created_ms,
                                       const char *id);

/* platform_run.c: resources */
extern const struct platform_kind platform_run_kind;
extern const struct platform_resource platform_run;
/* platform_phase.c */
extern const struct platform_kind platform_plan_kind, platform_apply_kind;
extern const struct platform_resource platform_plan, platform_apply;
/* platform_config_version.c */
extern const struct platform_kind platform_config_kind;
extern const struct platform_resource platform_config_version;
/* The newest usable configuration of a workspace. ST_NOT_FOUND. */
NODISCARD enum status platform_config_newest(struct state_txn *txn,
                                             const struct platform_object *ws,
                                             struct platform_object *ret_config);
/* Stage a run of an uploaded configuration, as its `auto-queue-runs` asks. */
NODISCARD enum status platform_run_of_config(struct req *req, const struct platform_object *ws,
                                             const struct platform_object *config);

#endif
