/* Shared by unseal.c, unseal_migrate.c and unseal_share.c, and private to them. */
#ifndef HOLDFAST_NODE_UNSEAL_INTERNAL_H
#define HOLDFAST_NODE_UNSEAL_INTERNAL_H

#include "node/unseal.h"

void unseal_lock(struct unseal *u);
void unseal_unlock(struct unseal *u);
/* Forget the shares that were given. The caller holds the lock. */
void unseal_forget(struct unseal *u);
/* Unseal by the stored key rings. The lock is held. As state_unseal. */
NODISCARD enum status unseal_with(struct unseal *u, const struct seal *seal, struct reason *reason);

/* How this node can be unsealed. */
enum unseal_way {
    UNSEAL_ITSELF,    /* the configured seal opens the root key */
    UNSEAL_SHARES,    /* key shares are needed */
    UNSEAL_MIGRATION, /* shares of the seal to move away from are needed, with `migrate` */
    UNSEAL_NO_WAY     /* the configuration lacks the seal of the cluster */
};
/* The way from a stored seal. `info` is of this cluster. */
enum unseal_way unseal_way_of(const struct unseal *u, const struct seal_info *info);
/* Say what the node needs, for any way but UNSEAL_ITSELF. */
void unseal_explain(const struct unseal *u, const struct seal_info *info, struct reason *ret_why);
/* Forget the migration. The lock is held. */
void unseal_stay(struct unseal *u);
/* Notice that the seal was moved, or replaced otherwise. Raft thread. */
void unseal_look_at_move(struct unseal *u);

/* Show the seal in this node's own status; the next tick tells the rest of the node. */
void unseal_publish(struct unseal *u, bool sealed);

#endif
