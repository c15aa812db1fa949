/* Requests in a namespace that does not exist. */
#ifndef HOLDFAST_FRONT_SCHEDULER_SCHEDULER_NAMESPACE_H
#define HOLDFAST_FRONT_SCHEDULER_SCHEDULER_NAMESPACE_H

#include "router/request/req.h"

/* As dialect.serve_no_namespace. */
NODISCARD enum status scheduler_namespace_serve(struct req *req);

#endif
