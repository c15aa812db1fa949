/* The mark beside the replica that the cluster is initialised: until the log is applied again after
 * a start, the state looks empty, and "not initialised" would be a lie. Raft thread. */
#ifndef HOLDFAST_NODE_MARK_H
#define HOLDFAST_NODE_MARK_H

#include "cluster/membership/part.h"

/* The replica starts: learn from the mark, or because this node joins a cluster. */
void mark_read(struct part_host *host, bool joins);
/* The state is initialised: write the mark, once. */
void mark_write(struct part_host *host);

#endif
