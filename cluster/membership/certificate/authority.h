/* The cluster's certificate authority, and join tokens, as they are kept in the local state.
 *
 * The key is stored as any secret value: encrypted under the local key ring, so neither on a disk
 * in clear nor at a DR secondary. An operator brings it in once, after initialisation; it is the
 * authority the nodes trust already, so no certificate changes. Any thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_CERTIFICATE_AUTHORITY_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_CERTIFICATE_AUTHORITY_H

#include "base/buf.h"
#include "crypto/cert.h"
#include "raft/txn/rlog_txn.h"

#define AUTHORITY_KEY RLOG_LOCAL "pki/authority"
#define AUTHORITY_JOIN_KEY RLOG_LOCAL "pki/join/" /* HMAC of a token's secret in hex behind it */
/* Challenges that were answered, their nonce in hex behind it: u64, the cluster time of their end.
 */
#define AUTHORITY_CHALLENGE_KEY RLOG_LOCAL "pki/challenge/"
#define AUTHORITY_ROTATE_KEY RLOG_LOCAL "pki/rotate" /* struct authority_rotate */

enum { AUTHORITY_NAME_MAX = 64 };

/* ST_NOMEM. */
NODISCARD enum status authority_encode(const struct cert_pair *pair, struct buf *out);
/* `ret_pair` is empty. ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status authority_decode(struct bytes record, struct cert_pair *ret_pair);

/* The record of a join token, kept until it has expired. Once used it is bound to a name and a key:
 * the same machine may ask again, as its answer may have been lost. */
struct join_record {
    int64_t expires_ms;            /* cluster time */
    char node[AUTHORITY_NAME_MAX]; /* for this name alone; "": for any new one */
    bool used;
    char used_by[AUTHORITY_NAME_MAX];
    uint8_t key_mac[32]; /* HMAC of the public key as it was sent */
};
NODISCARD enum status join_record_encode(const struct join_record *record, struct buf *out);
NODISCARD enum status join_record_decode(struct bytes stored, struct join_record *ret_record);

/* Certificates issued before this second of cluster time are to be replaced. */
NODISCARD enum status authority_rotate_encode(int64_t since_s, struct buf *out);
NODISCARD enum status authority_rotate_decode(struct bytes stored, int64_t *ret_since_s);

#endif
