/* The change of the key of a static seal. A part (cluster/membership/part.h).
 *
 *   cluster under the previous key ─every member is configured for the new key─▶ due
 *        ─the active node's own request (server/reseal.c)─▶ cluster under the new key
 *
 * 1. A node opens a stored seal by its key or by its previous key.
 * 2. Every member reports a mark of the key that it is configured for. The change waits until the
 *    mark of every member is this node's, so no member is locked out: not in the middle of a
 * rolling restart, and not by another key under the same id.
 * 3. Nodes that have the new key alone stay sealed until then, and unseal by themselves after.
 * 4. The root key stays the same, so unsealed nodes go on.
 *
 * It does not write the state: the request does, so that audit devices record the change. */
#ifndef HOLDFAST_NODE_RESEAL_H
#define HOLDFAST_NODE_RESEAL_H

#include "cluster/membership/members/peers.h"

#include <pthread.h>

struct reseal {
    struct part_host *host;
    struct peers *peers;
    const struct seal *seal; /* configured seal; NULL: key shares */
    _Atomic bool due;        /* the active node is to change the key now; any thread */
    pthread_mutex_t lock;    /* guards `why` */
    struct reason why;       /* members that the change waits for; "": the change waits for none */
};

extern const struct part reseal_part;
/* Release what `start` made. No other thread may use `r` any more. */
void reseal_done(struct reseal *r);

/* Whether the cluster is to change to this node's key now. Any thread. */
bool reseal_is_due(const struct reseal *r);
/* Copy what the change waits for on the active node; "": nothing. Any thread. */
void reseal_why(struct reseal *r, struct reason *ret_why);

#endif
