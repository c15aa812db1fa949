/* The agent: runs the tasks of allocations on this machine. A client of the HTTP API, a process of
 * its own. */
#ifndef HOLDFAST_AGENT_AGENT_H
#define HOLDFAST_AGENT_AGENT_H

#include "base/status.h"

/* Run with a configuration file until SIGTERM or SIGINT, which end the process. Returns the exit code
 * of a failure. */
int agent_run(const char *config);

#endif
