/* The barrier's records in the state: unsealing, following, first initialisation. */
#ifndef HOLDFAST_STATE_STATE_CORE_H
#define HOLDFAST_STATE_STATE_CORE_H

#include "state/state.h"

/* Whether the newest applied state has been initialised. ST_NOT_FOUND when not; ST_BUSY. Any
 * thread. */
NODISCARD enum status state_is_initialized(struct store *store);
/* barrier_unseal with the newest applied state. As that; ST_BUSY. Any thread. */
NODISCARD enum status state_unseal(struct store *store, struct barrier *barrier,
                                   const struct seal *seal, struct reason *reason);
/* barrier_follow with the newest applied state. As that; ST_BUSY. Any thread. */
NODISCARD enum status state_follow(struct store *store, struct barrier *barrier);

/* First initialisation, on an active node: stages the four records of `created` on condition that
 * there are none. What the transaction stages from then on is encrypted with the new keys, whether
 * or not the node's own barrier is sealed. Once committed, unseal as any other node would.
 * `created` lives until the transaction ended. ST_EXISTS: initialised before. ST_NOMEM. */
struct state_init {
    struct barrier_created created;
    struct barrier_seat *seat;
};
NODISCARD enum status state_init_begin(struct state_txn *txn, const struct seal *seal,
                                       int64_t time_ms, struct state_init *ret_init);
void state_init_done(struct state_init *init); /* wipes; after state_end */

#endif
