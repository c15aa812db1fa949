/* Jobs, allocations, evaluations and nodes as replies show them (B3, B7, B8, B9). */
#ifndef HOLDFAST_API_SCHEDULER_SCHED_SHOW_H
#define HOLDFAST_API_SCHEDULER_SCHED_SHOW_H

#include "api/scheduler/sched_record.h"
#include "text/json.h"

struct sched_stub {
    bool states, resources;
    uint64_t job_version;
    const char *job_type;
};

/* An entry of a list, whose object stays open. */
void sched_show_stub(const struct sched_alloc *alloc, const struct sched_stub *how,
                     struct text_writer *w);
/* The member AllocatedResources. */
void sched_show_resources(const struct sched_alloc *alloc, const struct text_value *spec,
                          struct text_writer *w);
/* A whole allocation; `spec` is that of its version. `created` 0: of a version that this
 * transaction makes. */
void sched_show_alloc(const struct sched_alloc *alloc, const struct text_value *spec,
                      struct text_writer *w);
/* A job with its status. */
void sched_show_job(const struct sched_job *job, const char *status, struct text_writer *w);
void sched_show_eval(const struct sched_eval *eval, struct text_writer *w);
void sched_show_node(const struct sched_node *node, bool whole, struct text_writer *w);
/* JSON that was stored, or `otherwise` where there is none. */
void sched_put_json(struct text_writer *w, const char *name, const char *json,
                    const char *otherwise);
/* Nanoseconds of a time in ms. */
void sched_put_ns(struct text_writer *w, const char *name, int64_t ms);

#endif
