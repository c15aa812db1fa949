/* The bundle: what a secondary needs to know of its primary before the two have met. The primary
 * gives it to an operator, either wrapped behind a token, or sealed for the public key of one
 * secondary cluster.
 *
 * The wrapped form is an object of JSON:
 *
 *   id, set, epoch                 the name of the secondary in the set (link/dr_name.h)
 *   cluster_id                     id of the primary's cluster, 32 hexadecimal digits like `set`
 *   primary_cluster_addr           the cluster port to try first
 *   known_primary_cluster_addrs    the cluster ports of all nodes
 *   ca                             authority of the cluster ports, PEM
 *   secret                         one-time secret that authorises the activation
 *
 * The sealed form is BUNDLE_PREFIX and the base64url of that object in a box (crypto/box.h).
 *
 * Readers ignore members that they do not know. Any thread. */
#ifndef HOLDFAST_CLUSTER_DR_BUNDLE_H
#define HOLDFAST_CLUSTER_DR_BUNDLE_H

#include "cluster/dr/link/dr_frame.h"
#include "crypto/box.h"

#define DR_BUNDLE_PREFIX "hdr1."

enum {
    DR_SECRET_LEN = 32,
    DR_BUNDLE_BYTES_MAX = BOX_PLAIN_MAX, /* the object, so that a box can hold it */
    DR_BUNDLE_TEXT_MAX = 6 * 1024,       /* the sealed form: longer texts are none */
};

struct dr_bundle {
    struct dr_name name;           /* of the secondary; `cluster` is the primary's */
    struct dr_addresses addresses; /* cluster ports of the primary, the one to try first in front */
    struct buf ca;
    char secret[DR_SECRET_LEN + 1];
};
void dr_bundle_done(struct dr_bundle *bundle); /* wipes */

/* Append the object. Addresses at the end are left out where it would be too long. ST_TOO_BIG: the
 * authority is too long; ST_NOMEM. */
NODISCARD enum status dr_bundle_put(const struct dr_bundle *bundle, struct buf *out);
/* Read an object. ST_INVALID with a reason that shows nothing of it; ST_NOMEM. The caller calls
 * dr_bundle_done, also after a failure. */
NODISCARD enum status dr_bundle_read(struct bytes object, struct dr_bundle *ret_bundle,
                                     struct reason *reason);

/* Whether a token is meant as a bundle in its sealed form. */
bool dr_bundle_is_sealed(struct bytes token);
/* Append the sealed form for the holder of a key. ST_INVALID: `receiver` is no usable public key;
 * else as dr_bundle_put; ST_CRYPTO. */
NODISCARD enum status dr_bundle_seal(const struct dr_bundle *bundle,
                                     const uint8_t receiver[BOX_PUBLIC_BYTES], struct buf *out);
/* Open the sealed form. ST_INVALID with a reason; ST_CRYPTO, ST_NOMEM. As dr_bundle_read. */
NODISCARD enum status dr_bundle_open(const struct box_key *key, struct bytes token,
                                     struct dr_bundle *ret_bundle, struct reason *reason);

#endif
