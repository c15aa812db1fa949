/* Shared by unseal.c and unseal_share.c, and private to them. */
#ifndef HOLDFAST_NODE_UNSEAL_INTERNAL_H
#define HOLDFAST_NODE_UNSEAL_INTERNAL_H

#include "node/unseal.h"

void unseal_lock(struct unseal *u);
void unseal_unlock(struct unseal *u);
/* Forget the shares that were given. The caller holds the lock. */
void unseal_forget(struct unseal *u);
/* Unseal by the stored key rings. The lock is held. As state_unseal. */
NODISCARD enum status unseal_with(struct unseal *u, const struct seal *seal, struct reason *reason);
/* Show the seal in this node's own status; the next tick tells the rest of the node. */
void unseal_publish(struct unseal *u, bool sealed);

#endif
