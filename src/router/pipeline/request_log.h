/* One log line of JSON for each reply. The request id in the line leads operators to the records of
 * the audit log. The line contains no token, query, body or value. */
#ifndef HOLDFAST_ROUTER_PIPELINE_REQUEST_LOG_H
#define HOLDFAST_ROUTER_PIPELINE_REQUEST_LOG_H

#include "router/pipeline/pipe.h"

/* Write the log line of a request that has its reply. */
void request_log(const struct pipe *p);

#endif
