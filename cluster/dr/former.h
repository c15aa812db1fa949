/* Former secondaries: keys of certificates that this cluster gave as a primary of an earlier epoch.
 *
 * A cluster that was demoted and promoted again serves none of them: they need new tokens. But one
 * of them may have been promoted meanwhile, and its announcement of a higher epoch must be believed
 * (PROTOCOL R19), until this cluster follows another one.
 *
 *   l/dr/former/KEY   KEY: SHA-256 of the certificate's public key, in hexadecimal; no value
 *
 * The record of a secondary and its key are in `secondary/` while this cluster is the primary that
 * activated it, or is demoted; a promotion moves the key here. The records hold no secret and are
 * not encrypted. A secondary that was revoked leaves no key here. */
#ifndef HOLDFAST_CLUSTER_DR_FORMER_H
#define HOLDFAST_CLUSTER_DR_FORMER_H

#include "cluster/dr/records.h"

#define DR_FORMER_PREFIX DR_PREFIX "former/"

enum {
    DR_FORMER_MAX = 64, /* most keys that are kept; beyond that, none is added */
    DR_FORMER_KEY_MAX = sizeof DR_FORMER_PREFIX + 64,
};

/* The keys to keep over a promotion. */
struct dr_former {
    unsigned n;
    uint8_t keys[DR_FORMER_MAX][32];
};

/* Read what a promotion keeps: the keys of the activated secondaries, then those of former ones.
 * ST_CORRUPT; else as state_scan. */
NODISCARD enum status dr_former_collect(struct state_txn *txn, struct dr_former *ret_former);
/* Stage them. As state_put_raw. */
NODISCARD enum status dr_former_put(struct state_txn *txn, const struct dr_former *former);
/* Whether the key is one of a former secondary, as this transaction sees it; the answer becomes a
 * precondition. ST_OK, ST_NOT_FOUND; else as state_exists. */
NODISCARD enum status dr_former_get(struct state_txn *txn, const uint8_t key_sha256[32]);
/* The same at a pin. Any thread. */
bool dr_former_at(const struct store_pin *pin, const uint8_t key_sha256[32]);

#endif
