/* Grants of a primary to a secondary: the one-time secret of its token, and the activation by
 * that secret.
 *
 *   none ─dr_grant_make─▶ TOKEN GIVEN ─dr_grant_use─▶ ACTIVATED ─┐ dr_grant_use again, with the
 *     ▲                       │ expires       │          │   ▲    │ same secret and the same key,
 *     └───────────────────────┴───────────────┴──────────┘   └────┘ within DR_GRANT_AGAIN_MS
 *            dr_secondary_delete: revoked by an operator
 *
 * 1. The secret itself is stored nowhere; its name is compared in constant time.
 * 2. A secret activates one pair of keys: that of the certificate, and that of the box for the root
 *    key. In the record of an activated secondary, the second half of the secret's name gives way
 *    to the first half of the name of secret and keys. A lost reply does not burn the token: the
 *    same secondary repeats its request. */
#ifndef HOLDFAST_CLUSTER_DR_GRANT_H
#define HOLDFAST_CLUSTER_DR_GRANT_H

#include "cluster/dr/bundle.h"
#include "cluster/dr/records.h"

#define DR_VERSION_MAX (UINT64_C(1) << 62) /* highest version that a secondary's state may have */
/* How far a secondary's version may be above the primary's. A version is one write: this many take
 * years. So one that lies cannot use the versions up. */
#define DR_VERSION_AHEAD (UINT64_C(1) << 42)

enum {
    DR_GRANT_TTL_MAX_S = 30 * 86400,
    DR_GRANT_AGAIN_MS = 10 * 60 * 1000,
};

/* Stage the record of a secondary that gets a token, and make its secret, which the caller wipes.
 * Records of expired tokens are deleted. ST_INVALID with a reason: a secondary of this id lives, or
 * DR_SECONDARIES_MAX do. Else as state_put. */
struct dr_grant_order {
    const char *id; /* dr_name_id_valid */
    int64_t now_ms, ttl_s;
};
NODISCARD enum status dr_grant_make(struct state_txn *txn, struct env *env,
                                    const struct dr_grant_order *order,
                                    char ret_secret[DR_SECRET_LEN + 1], struct reason *reason);

/* A secondary, as it asks for its activation. */
struct dr_claim {
    const char *id, *secret;
    struct bytes public_pem; /* key of its certificate */
    const uint8_t *box_key;  /* BOX_PUBLIC_BYTES: the key that the root key is sent to */
    uint64_t version;        /* of its state */
    uint64_t protocol, feature;
};
/* Judge a claim, in the order of the checks: this cluster is a running primary; the secret is that
 * of a token that was not used, except by the same keys, and has not expired; the secondary's build
 * is not older than this cluster's feature level; its version is possible. Stage the activation,
 * and that the version of this state rises to the secondary's. `txn` stages no other state_more.
 * ST_INVALID with a reason; else as state_put. */
NODISCARD enum status dr_grant_use(struct state_txn *txn, const struct dr_claim *claim,
                                   uint16_t feature, int64_t now_ms, struct reason *reason);

#endif
