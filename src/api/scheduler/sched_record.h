/* The stored form of the scheduler, below the keys of a namespace (state/ns_key.h).
 *
 *   sched-job/ID                 the head of a job; its versions are CreateIndex and ModifyIndex
 *   sched-spec/VERSION/ID        the specification of a version, JSON; modified: JobModifyIndex
 *   sched-job-alloc/ID/ALLOC     an allocation of the job (no value)
 *   sched-node-alloc/NODE/ALLOC  an allocation on the node (no value)
 *   sched-alloc/ALLOC/plan       what the servers decide
 *   sched-alloc/ALLOC/node       what the node reports
 *   sched-eval/EVAL              an evaluation
 *   sched-queue/EVAL             the evaluation is pending (no value)
 *   sched-blocked/EVAL           the evaluation waits for capacity (no value)
 *   sched-node/NODE              a node as it registered
 *   sched-node-now/NODE          its status and eligibility
 *   sched-policy/NAME            a policy of ACLs (auth/scheduler)
 *
 * ID of a job may have slashes: an entry of sched-job-alloc/ belongs to the job if exactly a UUID
 * follows its prefix. */
#ifndef HOLDFAST_API_SCHEDULER_SCHED_RECORD_H
#define HOLDFAST_API_SCHEDULER_SCHED_RECORD_H

#include "state/state.h"

enum { SCHED_JOB_ID_MAX = 128, SCHED_SPEC_MAX = 512 * 1024, SCHED_UUID_LEN = 36 };

struct sched_job {
    const char *id;
    uint64_t version;
    bool stop;
    int64_t submit_ms;
    uint64_t created, modified, spec_modified; /* versions */
    const struct text_value *spec;             /* of `version` */
};

/* The numbers are stored. */
enum sched_desired { SCHED_RUN, SCHED_STOP, SCHED_EVICT, SCHED_DESIRED };
enum sched_client {
    SCHED_PENDING,
    SCHED_RUNNING,
    SCHED_COMPLETE,
    SCHED_FAILED,
    SCHED_LOST,
    SCHED_UNKNOWN,
    SCHED_CLIENTS,
};
enum sched_transition {
    SCHED_MIGRATE = 1 << 0,
    SCHED_RESCHEDULE = 1 << 1,
    SCHED_NO_SHUTDOWN_DELAY = 1 << 2,
};

/* The decisions of the servers about an allocation. */
struct sched_plan {
    const char *eval, *name, *node, *node_name, *job, *group;
    const char *desired_text;
    const char *previous, *next, *followup;
    const char *tracker; /* JSON: events of the reschedule tracker; "" */
    const char *metrics; /* JSON */
    const char *ports;   /* JSON: a list of {Label, Value, To, HostIP} */
    uint64_t job_version;
    uint64_t cpu, memory_mb, disk_mb;
    int64_t created_ms, modified_ms;
    uint32_t transition; /* bits of enum sched_transition */
    uint8_t desired;
};

/* The report of the node about an allocation. */
struct sched_report {
    const char *text;     /* ClientDescription */
    const char *states;   /* JSON: TaskStates; "" */
    const char *services; /* JSON: a list of registrations; "" */
    const char *checks;   /* JSON: results by id; "" */
    int64_t modified_ms;
    uint8_t status; /* enum sched_client */
};

struct sched_alloc {
    const char *id;
    struct sched_plan plan;
    struct sched_report report;
    uint64_t created, plan_modified, modified; /* versions */
};

enum sched_eval_status {
    SCHED_EVAL_PENDING,
    SCHED_EVAL_BLOCKED,
    SCHED_EVAL_COMPLETE,
    SCHED_EVAL_FAILED,
    SCHED_EVAL_CANCELED,
    SCHED_EVAL_STATUSES,
};
struct sched_eval {
    const char *id;
    const char *type, *trigger, *job, *node, *text;
    const char *previous, *next, *blocked;
    const char *failed, *queued; /* JSON; "" */
    uint64_t job_modified, priority;
    int64_t created_ms, modified_ms;
    int64_t wait_until_ms; /* not before; 0: at once */
    uint8_t status;
    uint64_t created, modified; /* versions */
};

enum sched_node_status { SCHED_NODE_INIT, SCHED_NODE_READY, SCHED_NODE_DOWN, SCHED_NODE_STATUSES };
struct sched_node {
    const char *id;
    const char *name, *datacenter, *pool, *class_name, *accessor;
    const char *facts; /* JSON: Attributes, Meta, Drivers */
    uint64_t cpu, memory_mb, disk_mb;
    uint8_t status;
    bool ineligible;
    int64_t status_ms;
    uint64_t created, modified; /* versions */
};

/* Names of statuses, and back. */
const char *sched_desired_name(unsigned desired);
/* As ClientStatus. */
const char *sched_client_name(unsigned status);
/* False: no status has this name. */
bool sched_client_find(struct bytes name, uint8_t *ret_status);
bool sched_client_ended(unsigned status); /* complete, failed or lost */
const char *sched_eval_status_name(unsigned status);
const char *sched_node_status_name(unsigned status);

/* Keys, in the arena; of "" the prefix of all. ST_NOMEM; ST_INVALID: too long. */
NODISCARD enum status sched_key(struct arena *arena, const char *kind, const char *first,
                                const char *second, struct bytes *ret_key);

/* Loading. ST_NOT_FOUND; ST_CORRUPT; else as state_get. Texts lie in the transaction's arena. */
NODISCARD enum status sched_job_load(struct state_txn *txn, const char *id,
                                     struct sched_job *ret_job);
NODISCARD enum status sched_spec_load(struct state_txn *txn, const char *id, uint64_t version,
                                      const struct text_value **ret_spec, uint64_t *ret_modified);
NODISCARD enum status sched_alloc_load(struct state_txn *txn, const char *id,
                                       struct sched_alloc *ret_alloc);
NODISCARD enum status sched_eval_load(struct state_txn *txn, const char *id,
                                      struct sched_eval *ret_eval);
NODISCARD enum status sched_node_load(struct state_txn *txn, const char *id,
                                      struct sched_node *ret_node);
/* Staging. As state_put. */
NODISCARD enum status sched_job_put(struct state_txn *txn, const struct sched_job *job);
NODISCARD enum status sched_plan_put(struct state_txn *txn, const struct sched_alloc *alloc);
NODISCARD enum status sched_report_put(struct state_txn *txn, const struct sched_alloc *alloc);
NODISCARD enum status sched_node_put(struct state_txn *txn, const struct sched_node *node);
NODISCARD enum status sched_node_now_put(struct state_txn *txn, const struct sched_node *node);
/* Stage an evaluation, and its entry in the queue of its status. */
NODISCARD enum status sched_eval_put(struct state_txn *txn, const struct sched_eval *eval);

/* The ids of allocations of a job or a node, or (kind "sched-alloc") of all, which the transaction
 * reads as one precondition. */
struct sched_ids {
    const char **items;
    size_t n;
};
NODISCARD enum status sched_ids_of(struct state_txn *txn, const char *kind, const char *owner,
                                   struct sched_ids *ret_ids);
/* Stage a new evaluation of a job, pending from `wait_until_ms` on. *ret_id is its id. */
struct sched_cause {
    const char *trigger, *node;
    int64_t wait_until_ms;
};
NODISCARD enum status sched_evaluate(struct state_txn *txn, int64_t now_ms,
                                     const struct sched_job *job, const struct sched_cause *cause,
                                     const char **ret_id);
/* Stage every blocked evaluation as pending: capacity may have appeared. */
NODISCARD enum status sched_unblock(struct state_txn *txn, int64_t now_ms);
/* A new UUID in the transaction's arena. ST_NOMEM. */
NODISCARD enum status sched_uuid(struct state_txn *txn, const char **ret_uuid);

#endif
