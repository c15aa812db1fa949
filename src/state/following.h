/* Whether this cluster is a DR secondary: it follows a primary, and nothing but the primary's
 * transactions may change its replicated keys (`s/`). */
#ifndef HOLDFAST_STATE_FOLLOWING_H
#define HOLDFAST_STATE_FOLLOWING_H

#include "state/state_txn.h"

/* Exists exactly while the cluster is a secondary; empty, not encrypted. */
#define STATE_FOLLOWING STATE_LOCAL "dr/following"
/* The version at which the primary's state last replaced the replicated keys, as decimal text; not
 * encrypted. It counts like STATE_RESTORED. */
#define STATE_SYNCED STATE_LOCAL "core/synced"

/* Whether the cluster is a secondary in the pinned state; a precondition. As state_exists, without
 * ST_NOT_FOUND. */
NODISCARD enum status state_is_following(struct state_txn *txn, bool *ret_following);

#endif
