/* Records of each side of a replication set about the other: records of the local state, encrypted
 * like any value, below DR_PREFIX (role.h).
 *
 *   l/dr/secondary/ID   on a primary: a secondary that has a token or is activated
 *   l/dr/ca             on a primary: the authority that signs the secondaries' certificates
 *   l/dr/link           on a secondary: its certificate and key, and the primary's authority
 *   l/dr/addresses      on a secondary: the cluster ports of the primary, as it told them last
 *   l/dr/root           on a secondary: the root key of the primary, as its activation gave it
 *   l/dr/box            the private key whose public half an operator gives to a primary
 *   l/dr/applied        on a secondary: version and time of the newest record of the WAL that it
 *                       applied; not encrypted
 *
 * To revoke a secondary is to delete its record: then no certificate of that id counts. A change of
 * the mode deletes them all. */
#ifndef HOLDFAST_CLUSTER_DR_RECORDS_H
#define HOLDFAST_CLUSTER_DR_RECORDS_H

#include "barrier/token.h"
#include "cluster/dr/keys.h"
#include "cluster/dr/link/dr_frame.h"
#include "cluster/mesh/mesh_pki.h"
#include "crypto/cert.h"

#define DR_SECONDARY_PREFIX DR_PREFIX "secondary/"
#define DR_CA DR_PREFIX "ca"
#define DR_LINK DR_PREFIX "link"
#define DR_ADDRESSES DR_PREFIX "addresses"
#define DR_ROOT_KEY DR_PREFIX "root"
#define DR_BOX DR_PREFIX "box"
/* Names the encrypted writes in a file of follow/lost.c; no such key is stored. */
#define DR_LOST DR_PREFIX "lost"
#define DR_APPLIED DR_PREFIX "applied"

enum {
    DR_SECONDARIES_MAX = 16,
    DR_ROOT_BYTES_MAX = 64,
    DR_SECRET_NAME = 2 * BARRIER_MAC_BYTES + 1
};

struct dr_secondary {
    char id[DR_ID_MAX];
    char secret[DR_SECRET_NAME]; /* name of its one-time secret, and of its keys (grant.h) */
    int64_t created_ms;          /* cluster time of its token */
    int64_t expire_ms;           /* cluster time at which the token ends, unless it was used */
    int64_t activated_ms;        /* cluster time of the activation, which used the secret up; 0: not
                                    activated */
    /* Of the public key that its certificate has (cert_public_fingerprint). While it is renewed,
     * `next_sha256` is that of the certificate which follows; zeros: none. Both count until the
     * secondary has used the new one. */
    uint8_t key_sha256[32], next_sha256[32];
};
/* Whether the certificate of a secondary is being renewed. */
bool dr_secondary_renews(const struct dr_secondary *secondary);
/* Whether a certificate with this key counts: the secondary is activated, and the key is its own or
 * its next one. */
bool dr_secondary_has_key(const struct dr_secondary *secondary, const uint8_t key_sha256[32]);
/* Read a record. ST_NOT_FOUND; ST_CORRUPT; else as state_get. */
NODISCARD enum status dr_secondary_get(struct state_txn *txn, const char *id,
                                       struct dr_secondary *ret);
/* Whether the secondary counts: it is activated, or its token has not expired. */
bool dr_secondary_lives(const struct dr_secondary *secondary, int64_t now_ms);
NODISCARD enum status dr_secondary_put(struct state_txn *txn, const struct dr_secondary *secondary);
NODISCARD enum status dr_secondary_delete(struct state_txn *txn, const char *id);
/* Decode a decrypted record; `id` is the end of its key. ST_CORRUPT. */
NODISCARD enum status dr_secondary_decode(struct bytes id, struct bytes record,
                                          struct dr_secondary *ret);
/* The secondaries that count, at most DR_SECONDARIES_MAX, by id. Else as state_scan. */
struct dr_secondaries {
    unsigned n;
    struct dr_secondary items[DR_SECONDARIES_MAX];
};
NODISCARD enum status dr_secondaries_read(struct state_txn *txn, int64_t now_ms,
                                          struct dr_secondaries *ret);

/* The authority of a primary. ST_NOT_FOUND; ST_CORRUPT. The caller calls cert_pair_done. */
NODISCARD enum status dr_ca_get(struct state_txn *txn, struct cert_pair *ret_ca);
NODISCARD enum status dr_ca_put(struct state_txn *txn, const struct cert_pair *ca);
NODISCARD enum status dr_ca_decode(struct bytes record, struct cert_pair *ret_ca);

/* How a secondary reaches its primary. */
struct dr_link_record {
    uint8_t cluster[MESH_CLUSTER_ID_BYTES]; /* id of the primary's cluster */
    struct buf ca;                          /* authority of the primary's cluster ports, PEM */
    struct cert_pair own;                   /* this secondary's certificate and key, PEM */
};
void dr_link_record_done(struct dr_link_record *link); /* wipes */
NODISCARD enum status dr_link_put(struct state_txn *txn, const struct dr_link_record *link);
/* ST_CORRUPT, ST_NOMEM; dr_link_record_done in any case. */
NODISCARD enum status dr_link_decode(struct bytes record, struct dr_link_record *ret_link);
/* ST_NOT_FOUND, ST_CORRUPT; else as state_get. */
NODISCARD enum status dr_link_get(struct state_txn *txn, struct dr_link_record *ret_link);

/* ST_CORRUPT. */
NODISCARD enum status dr_addresses_decode(struct bytes record, struct dr_addresses *ret);
/* The addresses. ST_NOT_FOUND, ST_CORRUPT; else as state_get. */
NODISCARD enum status dr_addresses_get(struct state_txn *txn, struct dr_addresses *ret);
/* Stage the addresses, unless they are stored already. */
NODISCARD enum status dr_addresses_put(struct state_txn *txn, const struct dr_addresses *addresses);

/* The root key of the primary. ST_NOT_FOUND, ST_CORRUPT; else as state_get. */
NODISCARD enum status dr_root_decode(struct bytes record, struct secret *ret_root);
NODISCARD enum status dr_root_get(struct state_txn *txn, struct secret *ret_root);
NODISCARD enum status dr_root_put(struct state_txn *txn, struct bytes root);

/* The key that opens what a primary sealed for this cluster alone. Statuses as dr_root_get; the
 * caller calls box_key_done. */
NODISCARD enum status dr_box_get(struct state_txn *txn, struct box_key *ret_key);
NODISCARD enum status dr_box_put(struct state_txn *txn, const struct box_key *key);

/* The newest record that was applied: written in the transaction that applies it. After a sync the
 * version is another one than the state's, and the time of the state's version is not known. */
struct dr_applied {
    uint64_t version;
    int64_t time_ms;
};
NODISCARD enum status dr_applied_put(struct state_txn *txn, const struct dr_applied *applied);
/* The time in the record that made the version of the pin; 0: not known. */
int64_t dr_applied_ms(const struct store_pin *pin);

#endif
