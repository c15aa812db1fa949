/* Renewal of a secondary's certificate, on the primary: from the session that got the request to
 * the active node's service, which alone may write (PROTOCOL R1), and back. One renewal at a time.
 *
 *   FREE ──dr_renewal_ask──▶ ASKED ──dr_renewal_serve──▶ ANSWERED ──dr_renewal_take──▶ FREE
 *     ▲                        │                            │
 *     └────────────────────────┴──dr_renewal_drop───────────┘  the session ended
 *
 * Both certificates of a secondary count from the answer on, until the new one was used: then
 * dr_renewal_used ends the old one. A secondary that never got the answer asks again, with another
 * key. */
#ifndef HOLDFAST_CLUSTER_DR_RENEWAL_H
#define HOLDFAST_CLUSTER_DR_RENEWAL_H

#include "cluster/dr/link/dr_cert.h"
#include "state/state_txn.h"

#include <pthread.h>

enum dr_renewal_step { DR_RENEWAL_FREE, DR_RENEWAL_ASKED, DR_RENEWAL_ANSWERED };

struct dr_renewal {
    pthread_mutex_t lock; /* guards the rest */
    bool open;
    enum dr_renewal_step step;
    const void *owner; /* the session that asked */
    struct dr_cert_peer peer;
    struct buf pem;     /* of the request: the new public key; of the answer: the certificate */
    enum status answer; /* DR_RENEWAL_ANSWERED */
    bool used;          /* `user` was accepted by the next certificate of its record */
    struct dr_cert_peer user;
};
/* ST_NOMEM. */
NODISCARD enum status dr_renewal_init(struct dr_renewal *renewal);
void dr_renewal_done(struct dr_renewal *renewal);

/* For a session. Ask for a certificate for `public_pem`, by the peer's present certificate.
 * ST_BUSY: another renewal is under way. ST_NOMEM. Any thread. */
NODISCARD enum status dr_renewal_ask(struct dr_renewal *renewal, const void *owner,
                                     const struct dr_cert_peer *peer, struct bytes public_pem);
/* The certificate, appended to an empty buffer. ST_NOT_FOUND: not yet. Other statuses: refused. */
NODISCARD enum status dr_renewal_take(struct dr_renewal *renewal, const void *owner,
                                      struct buf *ret_cert);
/* Give up, if `owner` has asked. */
void dr_renewal_drop(struct dr_renewal *renewal, const void *owner);
/* The peer uses its next certificate. */
void dr_renewal_used(struct dr_renewal *renewal, const struct dr_cert_peer *peer);

/* For the service of the active node: stage the answer to what was asked, and what was used. The
 * functions of a transaction belong between begin and end. */
struct dr_renewal_work {
    bool sign, use;
    struct dr_cert_peer peer, user;
    struct buf public_pem, cert;
    int64_t now_s; /* wall clock: nodes check certificates by theirs */
    uint8_t cluster[MESH_CLUSTER_ID_BYTES];
};
/* Fills in all but `now_s` and `cluster`. False: there is nothing to do. */
NODISCARD bool dr_renewal_begin(struct dr_renewal *renewal, struct dr_renewal_work *ret_work);
/* Stage the new keys in the records, and sign. Repeatable. ST_INVALID: the secondary was revoked,
 * or this cluster is no running primary; ST_OK with `use` alone then changes nothing. Else as
 * state_put; ST_CRYPTO. */
NODISCARD enum status dr_renewal_stage(struct dr_renewal_work *work, struct state_txn *txn);
/* Give the answer: the certificate counts only if `st`, the result of the transaction, is ST_OK. */
void dr_renewal_end(struct dr_renewal *renewal, struct dr_renewal_work *work, enum status st);

#endif
