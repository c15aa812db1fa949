/* The challenge and its proof, for a node that joins without a token.
 *
 *   node ─ name, public key ─▶ member
 *        ◀─ challenge, the cluster's seal (the root key, wrapped) ─
 *        ─ proof of the root key over challenge, name, public key ─▶
 *        ◀─ certificate, authority, proof of the root key over challenge and these ─
 *
 * Each side proves that it can open the seal. A proof reveals nothing to a third party: it is valid
 * for one challenge, one name and one key. barrier_prove makes the proofs; this file makes the
 * messages that are proved. Any thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_CHALLENGE_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_CHALLENGE_H

#include "base/buf.h"

/* The text of a challenge is opaque to the node that proves its key. */
enum { CHALLENGE_TEXT_MAX = 128 };

/* Append the message that the node proves, and the message that the member proves. ST_NOMEM. */
NODISCARD enum status challenge_answer(struct bytes challenge, struct bytes name,
                                       struct bytes public_key, struct buf *out);
NODISCARD enum status challenge_accepted(struct bytes challenge, struct bytes certificate,
                                         struct bytes ca, struct buf *out);

#endif
