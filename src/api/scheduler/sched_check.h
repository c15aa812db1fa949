/* The checks of a filled specification. */
#ifndef HOLDFAST_API_SCHEDULER_SCHED_CHECK_H
#define HOLDFAST_API_SCHEDULER_SCHED_CHECK_H

#include "router/request/req.h"

/* ST_REFUSED with all that is wrong, as one multi-error; ST_NOMEM. */
NODISCARD enum status sched_spec_check(struct req *req, const struct text_value *spec);

#endif
