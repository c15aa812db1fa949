/* A file beside the replica marks an initialised cluster. After a start the state is empty until
 * the log is applied again; without the mark the node would report "not initialised". Raft thread.
 */
#ifndef HOLDFAST_NODE_MARK_H
#define HOLDFAST_NODE_MARK_H

#include "cluster/membership/part.h"

/* The replica starts: set host->initialized from the mark, or because this node joins a cluster. */
void mark_read(struct part_host *host, bool joins);
/* Write the mark that says that the state is initialised, once. */
void mark_write(struct part_host *host);

#endif
