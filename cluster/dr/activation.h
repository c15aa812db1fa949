/* The activation of a secondary: what it asks of its primary, and what it proves about the answer
 * before it changes anything. The bytes are JSON, over the primary's cluster port.
 *
 * Request: id, secret, public_key (PEM), box_key (base64), version, feature, protocol.
 * Answer:  certificate (PEM), root_key (base64 of a box), set, cluster_id, epoch, version, keys,
 *          bytes, feature, protocol, seal, recovery, addresses.
 *
 * Any thread. */
#ifndef HOLDFAST_CLUSTER_DR_ACTIVATION_H
#define HOLDFAST_CLUSTER_DR_ACTIVATION_H

#include "barrier/seal.h"
#include "cluster/dr/pending.h"

enum { DR_ANSWER_BYTES_MAX = 64 * 1024 };

/* Facts of the secondary cluster. */
struct dr_own {
    uint64_t version; /* version that its state may have, at most, when it begins to follow */
    uint16_t feature; /* feature level that all its members understand */
    enum seal_type seal;
    uint64_t free_bytes;      /* free space for its data; 0: not known */
    uint64_t state_bytes_max; /* most bytes of its state; 0: no limit */
};

/* Append the request. ST_NOMEM. */
NODISCARD enum status dr_activation_ask(const struct dr_pending *pending, const struct dr_own *own,
                                        struct buf *out);
/* Append what is authenticated with the boxed root key: the secondary, and the key of its
 * certificate. `name` without its epoch is read. buf_status(out) tells a failed allocation. */
void dr_activation_context(const struct dr_name *name, struct bytes public_pem, struct buf *out);

struct dr_answer {
    struct buf cert;
    struct secret root;
    struct dr_name name; /* as the certificate has it */
    struct dr_addresses addresses;
    uint64_t version, keys, bytes, feature, protocol;
    enum seal_type seal;
    bool recovery; /* key shares authorise at the primary: of the seal, or of a recovery key */
};
void dr_answer_done(struct dr_answer *answer); /* wipes */

/* Read an answer and open its root key. ST_INVALID with a reason; ST_CRYPTO, ST_NOMEM. The caller
 * calls dr_answer_done, also after a failure. */
NODISCARD enum status dr_answer_read(const struct dr_pending *pending, struct bytes text,
                                     struct dr_answer *ret_answer, struct reason *reason);
/* Prove what can be proved: the certificate is for this secondary and its key; the primary is that
 * of the bundle; this cluster understands the primary's feature level, has room for its state, and
 * can be unsealed by its own seal. ST_INVALID with a reason; ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status dr_answer_check(const struct dr_pending *pending,
                                      const struct dr_answer *answer, const struct dr_own *own,
                                      struct reason *reason);

#endif
