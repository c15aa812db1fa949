/* One line of JSON for each reply: what operators correlate with the audit
 * log by its request id. No token, no query, no body, no value. */
#ifndef HOLDFAST_ROUTER_PIPELINE_REQUEST_LOG_H
#define HOLDFAST_ROUTER_PIPELINE_REQUEST_LOG_H

#include "router/pipeline/pipe.h"

/* Write the line of a request whose reply was made. */
void request_log(const struct pipe *p);

#endif
