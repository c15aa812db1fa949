/* Watchers: on every node, one for each of some registers. A watcher reads the index of its
 * register with a confirmed read and waits for a change (src/state/watch.h); from time to time it
 * begins anew, as a client does that comes back with the index that it has.
 *
 *   never back   no confirmed read gives an index below one that any watcher got before the read
 *                began, and no wake gives one that is not newer than the watcher's
 *   agreed       an index of a register stands for one value, on every node
 *   none lost    once a node has a newer version, the watcher is told at once */
#ifndef HOLDFAST_SIM_WATCH_H
#define HOLDFAST_SIM_WATCH_H

#include "cluster.h"

/* A node's watchers; they vanish with the process. NULL: the profile has none. */
struct watch_service *watch_service_new(struct node *n);
/* Watch no more: the process stops. */
void watch_service_stop(struct watch_service *service);
bool watch_service_idle(const struct watch_service *service);
void watch_service_free(struct watch_service *service); /* stopped and idle; NULL is allowed */
/* The node has published a version. */
void watch_service_published(struct watch_service *service);

#endif
