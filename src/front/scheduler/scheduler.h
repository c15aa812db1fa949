/* The dialect of the scheduler: how clients of the upstream product send requests. */
#ifndef HOLDFAST_FRONT_SCHEDULER_SCHEDULER_H
#define HOLDFAST_FRONT_SCHEDULER_SCHEDULER_H

#include "router/request/dialect.h"

extern const struct dialect scheduler_dialect;

/* The parameter of the query, or the first of several; empty: absent. */
struct bytes scheduler_parameter(const struct req *req, const char *name);
/* A boolean of the query; false if absent. ST_REFUSED with upstream's text. */
NODISCARD enum status scheduler_flag(struct req *req, const char *name, bool otherwise,
                                     bool *ret_truth);
/* The same for a value that the schema of the row gave; "": absent. */
NODISCARD enum status scheduler_truth(struct req *req, const char *name, const char *value,
                                      bool otherwise, bool *ret_truth);

#endif
