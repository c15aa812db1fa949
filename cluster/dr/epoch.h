/* Epochs that this cluster hears of from others (PROTOCOL R19).
 *
 *   HELLO of a (former) secondary ──▶ dr_epoch_note, in memory ──▶ dr_epoch_hear, a transaction of
 *                                                                  the active node
 *   REFUSE of the primary ───────────────────────────────────────▶ dr_epoch_learn, the same
 *
 * 1. A claim is stored only with the record of the one who made it as a precondition: a secondary
 *    that is revoked meanwhile is not believed.
 * 2. A claim counts for the set in which it was made, and for no other. */
#ifndef HOLDFAST_CLUSTER_DR_EPOCH_H
#define HOLDFAST_CLUSTER_DR_EPOCH_H

#include "cluster/dr/role.h"

#include <pthread.h>

/* A claim: the holder of a certificate has this epoch. Epoch 0: there is no claim. */
struct dr_heard {
    uint64_t epoch;
    uint8_t set[DR_SET_BYTES];
    char id[DR_ID_MAX]; /* of the certificate, as its key */
    uint8_t key_sha256[32];
};

/* Stage what a claim means for this cluster: a primary is superseded, an idle secondary takes the
 * epoch over. ST_INVALID with a reason: the claim is of another set, no higher than the own epoch,
 * or of a cluster that this one does not believe; nothing was staged. Else as state_put. */
NODISCARD enum status dr_epoch_hear(struct state_txn *txn, const struct dr_heard *heard,
                                    struct reason *reason);
/* Stage the epoch that the primary of this secondary has told in a refusal. `set`: the set that the
 * secondary named to the primary. Statuses as dr_epoch_hear. */
NODISCARD enum status dr_epoch_learn(struct state_txn *txn, const uint8_t set[DR_SET_BYTES],
                                     uint64_t epoch, struct reason *reason);

/* The claim that this node heard and the active node has not stored yet. The functions below are
 * for any thread. */
struct dr_epochs {
    pthread_mutex_t lock;
    bool open;
    struct dr_heard heard;     /* guarded by the lock, like the next */
    uint64_t heard_ms;         /* monotonic: when it was noted last */
    struct dr_heard announced; /* the newest announcement of a primary */
    uint64_t announced_ms;
};
/* ST_NOMEM. */
NODISCARD enum status dr_epochs_init(struct dr_epochs *epochs);
void dr_epochs_done(struct dr_epochs *epochs);
/* Note a claim, at `now_ms`, monotonic. Of several in one set, the highest is kept. */
void dr_epoch_note(struct dr_epochs *epochs, const struct dr_heard *heard, uint64_t now_ms);
/* The claim that was noted. */
void dr_epoch_noted(struct dr_epochs *epochs, struct dr_heard *ret_heard);
/* Note that a primary announced its epoch. True: within the last minute another one announced the
 * same epoch of the same set. */
bool dr_epoch_announced(struct dr_epochs *epochs, const struct dr_heard *heard, uint64_t now_ms);
/* The claim was dealt with, if it is still the noted one. */
void dr_epoch_forget(struct dr_epochs *epochs, const struct dr_heard *heard);
/* The highest epoch that is known in the set of `role`: a claim counts here for a few seconds,
 * until the active node has stored it, or has refused it because the secondary was revoked. */
uint64_t dr_epoch_known(struct dr_epochs *epochs, const struct dr_role *role, uint64_t now_ms);

#endif
