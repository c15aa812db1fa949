/* The feature level of the cluster as a transaction sees it (cluster/membership/members/feature.h
 * raises it).
 *
 * The entry that raises the level also writes a record of the local state, so every version of the
 * state says which level it has.
 *
 * 1. A transaction that finds a level reached needs no precondition: the level never falls, and a
 *    restore does not touch the local state.
 * 2. A transaction that finds a level not reached has the record as a precondition. It conflicts
 *    with the entry that raises the level, and runs again at the new level. So nothing that was
 *    staged in the form of the former level is applied after the raise, on whatever node it was
 *    staged and however late that node learned of the raise. */
#ifndef HOLDFAST_STATE_FEATURE_H
#define HOLDFAST_STATE_FEATURE_H

#include "state/state.h"

/* The record: the level as decimal text, not encrypted. */
#define STATE_FEATURE_RAISED STATE_LOCAL "core/feature/raised"

/* Whether the cluster has reached feature level `level` in the pinned state. ST_NOMEM. */
NODISCARD enum status state_has_feature(struct state_txn *txn, uint16_t level, bool *ret_has);

#endif
