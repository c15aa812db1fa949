/* Links from superseded root keys to the present one: how long a primary keeps them for its
 * secondaries. */
#ifndef HOLDFAST_CLUSTER_DR_SETTLED_H
#define HOLDFAST_CLUSTER_DR_SETTLED_H

#include "cluster/dr/live.h"
#include "cluster/dr/records.h"

/* The version up to which each activated secondary has renewed its own keys, as heartbeats told
 * this node; 0: one was not heard. STATE_NO_SECONDARY: none is activated. A token that was not used
 * needs no link: its activation gives the root key of that moment. */
uint64_t dr_settled(const struct dr_secondaries *secondaries, const struct dr_facts *facts);

/* A duty of the active node, `self` is struct dr: state_superseded_upkeep, with what the
 * secondaries that are not revoked need. As state_superseded_upkeep. */
NODISCARD enum status dr_settled_upkeep(const void *self, struct state_txn *txn, int64_t now_ms,
                                        unsigned steps);

#endif
