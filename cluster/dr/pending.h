/* An activation under way on the secondary, as a record of its local state (l/dr/activation).
 *
 * A wrapping token can be unwrapped once, and a bundle's secret is bound to the key that used it
 * first (grant.h). So what the token wrapped, and the keys made for it, are stored before the
 * primary is asked. If the node ends meanwhile, the operator repeats the request with the same
 * token, and any node goes on. A later activation replaces the record; the end of an activation
 * deletes it. */
#ifndef HOLDFAST_CLUSTER_DR_PENDING_H
#define HOLDFAST_CLUSTER_DR_PENDING_H

#include "cluster/dr/bundle.h"
#include "cluster/dr/role.h"

#define DR_PENDING DR_PREFIX "activation"

struct dr_pending {
    struct dr_bundle bundle;
    struct buf key, public_pem; /* key of the secondary's certificate, PEM, and its public half */
    struct box_key box;         /* opens the root key that the primary sends */
};
void dr_pending_done(struct dr_pending *pending); /* wipes */

/* Make the keys. ST_CRYPTO, ST_NOMEM. Any thread. */
NODISCARD enum status dr_pending_make_keys(struct dr_pending *pending);
/* Append bundle and keys as bytes; the caller wipes them. As dr_bundle_put; ST_CRYPTO. */
NODISCARD enum status dr_pending_encode(const struct dr_pending *pending, struct buf *out);
/* ST_CORRUPT, ST_CRYPTO, ST_NOMEM. The caller calls dr_pending_done, also after a failure. */
NODISCARD enum status dr_pending_decode(struct bytes encoded, struct dr_pending *ret_pending);

/* Stage the record of the activation by `token`, the text that the operator gave. As state_put. */
NODISCARD enum status dr_pending_put(struct state_txn *txn, struct bytes token,
                                     struct bytes encoded);
/* Read the record, if the activation under way is that by `token`; in the arena. ST_NOT_FOUND:
 * there is none, or it is another one's; ST_CORRUPT; else as state_get. */
NODISCARD enum status dr_pending_get(struct state_txn *txn, struct bytes token,
                                     struct bytes *ret_encoded);
NODISCARD enum status dr_pending_delete(struct state_txn *txn);

#endif
