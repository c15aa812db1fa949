/* The scheduler: jobs, allocations of their task groups to nodes, and actions on them. */
#ifndef HOLDFAST_API_SCHEDULER_SCHEDULER_H
#define HOLDFAST_API_SCHEDULER_SCHEDULER_H

#include "api/scheduler/sched_record.h"
#include "auth/scheduler/scheduler.h"
#include "router/table/module.h"
#include "text/config_block.h"

struct req;

extern const struct module scheduler_module;

/* Times of nodes, from the configuration. */
struct sched_settings {
    int64_t beat_ttl_ms, beat_grace_ms, beat_first_ms;
};
const struct sched_settings *sched_settings(void);

/* The allocation of the path. ST_NOT_FOUND with the text `absent`, whose %s is the id. */
NODISCARD enum status sched_alloc_find(struct req *req, const char *absent,
                                       struct sched_alloc *ret_alloc)
    __attribute__((format(printf, 2, 0)));
/* The specification of an allocation's version; NULL: the job was purged. */
NODISCARD enum status sched_alloc_spec(struct state_txn *txn, const struct sched_alloc *alloc,
                                       const struct text_value **ret_spec);
/* Specifications that a transaction read: allocations of one version of a job share one. */
struct sched_specs {
    struct sched_spec_read *items;
    size_t n, room;
};
/* As sched_alloc_spec, read once for each version. Zero-initialise `specs`; `txn` owns its memory. */
NODISCARD enum status sched_specs_get(struct state_txn *txn, struct sched_specs *specs,
                                      const struct sched_alloc *alloc,
                                      const struct text_value **ret_spec);
/* Parameters of lists of allocations. */
extern const struct schema sched_list_schema;
/* Reply with the list of the allocations of a job or a node. The row has sched_list_schema. */
NODISCARD enum status sched_allocs_of(struct req *req, const char *kind, const char *owner);

/* sched_beat.c: when each node was last heard, in the memory of the active node. Any thread. */
void sched_beat(const char *node);
/* Whether a node's time is over; a node that was never heard since `since_ms` has longer. */
bool sched_beat_is_late(const char *node, uint64_t since_ms);
/* How long a node may wait until its next beat. */
int64_t sched_beat_ttl_ms(void);

/* sched_place.c: carry out one pending evaluation. */
NODISCARD enum status sched_place(struct state_txn *txn, struct sched_eval *eval, int64_t now_ms);
/* sched_loop.c */
struct service;
void sched_loop_run(struct service *service);
/* Stage that a node is down, and what follows. */
NODISCARD enum status sched_node_down(struct state_txn *txn, const char *node, int64_t now_ms);

extern const struct route_table sched_alloc_list_table, sched_alloc_read_table,
    sched_client_checks_table, sched_act_table, sched_client_act_table, sched_exec_table,
    sched_jobs_table, sched_job_table, sched_evals_table, sched_eval_table, sched_nodes_table,
    sched_node_table, sched_agent_table, sched_acl_table;

#endif
