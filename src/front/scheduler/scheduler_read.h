/* Reads of the scheduler: waits for a newer state, and how new the state is. */
#ifndef HOLDFAST_FRONT_SCHEDULER_SCHEDULER_READ_H
#define HOLDFAST_FRONT_SCHEDULER_SCHEDULER_READ_H

#include "router/request/reply.h"

/* Read stale, index and wait of a GET. ST_INVALID with the request's error. */
NODISCARD enum status scheduler_read_query(struct req *req);
/* Add the index of the reply. */
void scheduler_index_header(const struct req *req, struct router_reply *reply);
/* Add the headers that say how new the state is; without memory they are missing. */
void scheduler_read_headers(const struct req *req, struct router_reply *reply);

#endif
