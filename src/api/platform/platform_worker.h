/* Between the files of the protocol of workers (docs/worker-protocol.md). */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_WORKER_H
#define HOLDFAST_API_PLATFORM_PLATFORM_WORKER_H

#include "api/platform/platform_pool.h"

enum { PLATFORM_CLAIM_MIN = 16, PLATFORM_CLAIM_MAX = 64 };

/* The agent of the path, which belongs to the pool of the request's token. ST_NOT_FOUND. */
NODISCARD enum status platform_worker_agent(struct req *req, struct platform_object *ret_agent);
/* Load the flow of a phase that runs, and that the agent of the path claimed by `claim`.
 * ST_NOT_FOUND: there is no such phase in the pool. ST_EXISTS with the request's error: it is not
 * this agent's, or not any more. */
NODISCARD enum status platform_worker_phase(struct req *req, const char *claim,
                                            struct platform_flow *ret_flow,
                                            struct platform_object **ret_phase);
/* Whether the phase was claimed so, by the agent. */
bool platform_worker_owns(const struct platform_object *agent, const struct platform_object *phase,
                          const char *claim);
/* The phase of the flow that has the id. NULL: neither has. */
struct platform_object *platform_worker_find(struct platform_flow *flow, const char *id);

/* platform_job.c: reply with all that a worker needs for a phase it has claimed. */
NODISCARD enum status platform_job_reply(struct req *req, const struct platform_flow *flow,
                                         const struct platform_object *phase,
                                         const char *run_token);
/* The form of that reply. */
extern const struct schema platform_job_schema;
/* The version of the tool that a phase of the run needs. */
const char *platform_job_version(const struct platform_flow *flow, bool plan);
/* How long a phase of the run may take. ST_CORRUPT. */
NODISCARD enum status platform_job_timeout(struct state_txn *txn, const struct platform_flow *flow,
                                           bool plan, int64_t *ret_s);

#endif
