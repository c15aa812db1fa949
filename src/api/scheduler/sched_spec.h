/* The specification of a job: from the JSON of a client, checked, with every default filled in. */
#ifndef HOLDFAST_API_SCHEDULER_SCHED_SPEC_H
#define HOLDFAST_API_SCHEDULER_SCHED_SPEC_H

#include "router/request/req.h"

enum {
    SCHED_COUNT_MAX = 10000,
    SCHED_ERRORS_MAX = 16,
    SCHED_WORK_MAX = 64 * 1024 * 1024, /* bytes of a job, times its allocations */
};

/* Check and fill `job`, the member Job of a body. ST_INVALID: a field has the wrong type;
 * ST_REFUSED (500): upstream's multi-error; ST_TOO_BIG: longer than SCHED_SPEC_MAX with its
 * defaults, or than SCHED_WORK_MAX times its counts. All with the request's error. ST_NOMEM. */
NODISCARD enum status sched_spec_fill(struct req *req, const struct text_value *job,
                                      const struct text_value **ret_spec);

/* Members of a filled specification; texts end in a zero byte. */
const char *spec_text(const struct text_value *object, const char *name);
int64_t spec_int(const struct text_value *object, const char *name);
bool spec_bool(const struct text_value *object, const char *name);
const struct text_value *spec_item(const struct text_value *object, const char *list,
                                   const char *name);
/* The task group with a name; NULL: none. */
const struct text_value *spec_group(const struct text_value *spec, const char *name);

#endif
