/* The challenge and its proof, for a node that joins without a token.
 *
 *   node ─ name, public key ─▶ member
 *        ◀─ challenge, the cluster's seal (the root key, wrapped) ─
 *        ─ proof of the root key over challenge, name, public key ─▶
 *        ◀─ certificate, authority, proof of the root key over challenge and these ─
 *
 * Either side proves that it can open the seal, and says nothing that helps anybody who cannot:
 * an answer is good for one challenge, name and key. Proofs are those of barrier_prove; here is
 * only what they are made over. Any thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_CHALLENGE_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_CHALLENGE_H

#include "base/buf.h"

/* Challenges as text are opaque to who answers them. */
enum { CHALLENGE_TEXT_MAX = 128 };

/* All appended. ST_NOMEM. */
NODISCARD enum status challenge_answer(struct bytes challenge, struct bytes name,
                                       struct bytes public_key, struct buf *out);
NODISCARD enum status challenge_accepted(struct bytes challenge, struct bytes certificate,
                                         struct bytes ca, struct buf *out);

#endif
