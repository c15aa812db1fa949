/* Records of the local state: the cluster's certificate authority, join tokens, and rotation.
 *
 * The authority's key is stored like every secret value: encrypted under the local key ring, so
 * never on a disk in clear and never at a DR secondary. An operator stores the key once, after
 * initialisation. The nodes already trust this authority, so no certificate changes. Any thread. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_CERTIFICATE_AUTHORITY_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_CERTIFICATE_AUTHORITY_H

#include "base/buf.h"
#include "crypto/cert.h"
#include "raft/txn/rlog_txn.h"

#define AUTHORITY_KEY RLOG_LOCAL "pki/authority"
/* Prefix of join tokens; the key ends in the HMAC of the token's secret, in hex. */
#define AUTHORITY_JOIN_KEY RLOG_LOCAL "pki/join/"
/* Challenges that were used; the key ends in the nonce in hex. Value: u64, the cluster time when
 * the challenge expires. */
#define AUTHORITY_CHALLENGE_KEY RLOG_LOCAL "pki/challenge/"
#define AUTHORITY_ROTATE_KEY RLOG_LOCAL "pki/rotate" /* key of a struct authority_rotate */

enum { AUTHORITY_NAME_MAX = 64 };

/* Append the record. ST_NOMEM. */
NODISCARD enum status authority_encode(const struct cert_pair *pair, struct buf *out);
/* Decode a record into `ret_pair`, which must be empty. ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status authority_decode(struct bytes record, struct cert_pair *ret_pair);

/* The record of a join token, kept until the token expires. A used token is bound to one name and
 * one key: the same machine may repeat its request, because the reply may have been lost. */
struct join_record {
    int64_t expires_ms;            /* cluster time at which the token expires */
    char node[AUTHORITY_NAME_MAX]; /* the only node that may use the token; "": any new node */
    bool used;
    char used_by[AUTHORITY_NAME_MAX];
    uint8_t key_mac[32]; /* HMAC of the public key that the node sent */
};
NODISCARD enum status join_record_encode(const struct join_record *record, struct buf *out);
NODISCARD enum status join_record_decode(struct bytes stored, struct join_record *ret_record);

/* The record of a rotation: nodes replace certificates issued before this second of cluster time.
 */
NODISCARD enum status authority_rotate_encode(int64_t since_s, struct buf *out);
NODISCARD enum status authority_rotate_decode(struct bytes stored, int64_t *ret_since_s);

#endif
