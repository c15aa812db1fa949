/* The replication authority of a primary, and the certificates that it signs for secondaries.
 *
 * 1. The authority signs for one cluster and one set, which stand in its own certificate, and for
 *    nothing else: no node of a cluster trusts it as a node's.
 * 2. Names come from a certificate that TLS has verified, never from a frame.
 *
 * Any thread. */
#ifndef HOLDFAST_CLUSTER_DR_LINK_DR_CERT_H
#define HOLDFAST_CLUSTER_DR_LINK_DR_CERT_H

#include "cluster/dr/link/dr_name.h"
#include "crypto/cert.h"
#include "crypto/tls.h"

enum {
    DR_CERT_DAYS = 90, /* validity of a secondary's certificate */
    DR_CERT_CA_DAYS = 3650,
};

/* Make the authority for the cluster and the set of `of`; epoch and id are not read. The result is
 * empty before. `now_s` since 1970. ST_INVALID with a reason; ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status dr_cert_ca_make(const struct dr_name *of, int64_t now_s,
                                      struct cert_pair *ret_ca, struct reason *reason);
/* Whether `ca` is the authority for the cluster and the set of `of`, with its key. ST_INVALID with
 * a reason. */
NODISCARD enum status dr_cert_ca_check(const struct cert_pair *ca, const struct dr_name *of,
                                       struct reason *reason);

/* Order for a certificate: a secondary, its public key as PEM text, and the time in seconds since
 * 1970. */
struct dr_cert_order {
    const struct dr_name *name;
    struct bytes public_pem;
    int64_t now_s;
};
/* Make a secondary's certificate. `ret_cert` is empty before. ST_INVALID with a reason: the
 * authority is another cluster's or set's, or the key is not of the curve P-256. ST_CRYPTO,
 * ST_NOMEM. */
NODISCARD enum status dr_cert_sign(const struct cert_pair *ca, const struct dr_cert_order *order,
                                   struct buf *ret_cert, struct reason *reason);
/* Read the name in a certificate, which is not verified. ST_INVALID: not a secondary's. */
NODISCARD enum status dr_cert_name(struct bytes cert_pem, struct dr_name *ret_name);
/* Whether a certificate that expires at `not_after_s` has less than half of its validity left. */
bool dr_cert_due(int64_t not_after_s, int64_t now_s);

/* A secondary at the other end of a connection. */
struct dr_cert_peer {
    struct dr_name name;
    uint8_t
        fingerprint[TLS_FINGERPRINT_BYTES];    /* SHA-256 of the certificate, as cert_fingerprint */
    uint8_t key_sha256[TLS_FINGERPRINT_BYTES]; /* of its key: cert_public_fingerprint */
    int64_t not_after_s;                       /* expiry, seconds since 1970 */
};
/* Read the peer's certificate after the handshake. ST_DENIED: none, not verified, or not a
 * secondary's. */
NODISCARD enum status dr_cert_read_peer(const struct tls_conn *conn, struct dr_cert_peer *ret_peer);

/* PEM texts that a secondary has from its activation. */
struct dr_cert_own {
    struct bytes ca; /* authority of the primary's cluster port */
    struct bytes cert, key;
};
/* Make the context for connections to the primary: it trusts any node of the primary's cluster and
 * no other peer, shows the secondary's certificate and speaks DR_ALPN. ST_INVALID with a reason:
 * the texts do not belong together. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status dr_cert_tls(const struct dr_cert_own *own, struct tls_ctx **ret_ctx,
                                  struct reason *reason);

#endif
