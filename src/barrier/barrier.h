/* Encryption of stored values: handlers see plaintext, the state holds ciphertext.
 *
 *   root key    wrapped by the seal, stored at s/core/seal
 *   key rings   AES-256 keys by term, encrypted under the root key, stored at s/core/keyring for
 *               replicated keys and l/core/keyring for local ones
 *   salt        for HMACs of bearer values, encrypted under the shared ring, stored at s/core/salt
 *   links       each new root key under the root key that it superseded: below
 *               s/core/superseded/ and l/core/superseded/ (chain.c)
 *   values      AES-256-GCM: version u8, term u32, nonce 12, ciphertext, tag 16; version, term and
 *               the whole key of the state are authenticated
 *
 * 1. A sealed barrier holds no key: before it returns, barrier_seal wipes every key, also the keys
 *    in all cipher contexts.
 * 2. A value opens only at the key of the state that it was encrypted for.
 * 3. The local ring may be absent: after a restore from another cluster, when no node here had that
 *    cluster's root key. The first upkeep makes a ring; until then nothing is encrypted for a local
 *    key.
 * 4. The ring counts the uses of each term. Uses are counted in advance, except for the first uses
 *    of a process. At BARRIER_USES_MAX a new term takes over.
 * 5. Random bytes come from the env alone.
 * 6. The stored seal may wrap a superseded root key, and the local ring may be stored under one: on
 *    a DR secondary, until it has taken over a new root key of its primary. The links lead to the
 *    root key that opens the shared ring. Until the local ring is rewrapped, the barrier is
 *    behind: it keeps the superseded root key too.
 *
 * The barrier does not read or write the state, split the root key, or decide when to unseal. */
#ifndef HOLDFAST_BARRIER_BARRIER_H
#define HOLDFAST_BARRIER_BARRIER_H

#include "barrier/limits.h"
#include "barrier/seal.h"
#include "base/buf.h"
#include "base/env.h"
#include "crypto/box.h"

struct barrier;
struct barrier_cipher;

#define BARRIER_KEYRING "s/core/keyring"
#define BARRIER_LOCAL_KEYRING "l/core/keyring"
#define BARRIER_SALT "s/core/salt"
/* The links of the chain. A number follows: links that are made later have a greater one. */
#define BARRIER_LINKS "s/core/superseded/"
#define BARRIER_LOCAL_LINKS "l/core/superseded/"
/* The only link below feature level 4 (state/superseded.h). */
#define BARRIER_SUPERSEDED "l/core/handover"

enum barrier_ring { BARRIER_SHARED, BARRIER_LOCAL, BARRIER_RINGS };

/* A link: a root key, encrypted under the root key that it superseded. */
struct barrier_link {
    struct bytes name, record; /* the key of the state, and what is stored there */
};
enum { BARRIER_LINKS_MAX = 64 };

/* The records as the state stores them. Functions borrow them until they return. Empty: absent. */
struct barrier_records {
    struct bytes seal, keyring, local_keyring, salt;
    /* in any order; a link that no reached root key opens leads nowhere, and does no harm */
    struct barrier_link links[BARRIER_LINKS_MAX];
    unsigned n_links;
    /* The version at which a restore last replaced the whole state; 0: never. The rings of a
     * restored state need not extend the rings before it. */
    uint64_t restored;
};

/* Make a barrier, which begins sealed. ST_NOMEM. */
NODISCARD enum status barrier_new(struct barrier **ret_barrier);
/* no cipher context may be left; wipes the keys; NULL is allowed */
void barrier_free(struct barrier *b);

/* The records of a new cluster, and a barrier unsealed with them, so that the first values can be
 * encrypted before the records are committed. Zero-initialise. */
struct barrier_created {
    struct barrier *barrier;
    struct buf seal, keyring, local_keyring, salt;
};
/* `time_ms` is cluster time. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_create(struct env *env, const struct seal *seal, int64_t time_ms,
                                     struct barrier_created *ret_created);
void barrier_created_done(struct barrier_created *created);

/* Unseal with the records of the state. ST_NOT_FOUND with a reason: the cluster is not initialised.
 * ST_INVALID with a reason: another seal wraps the root key. ST_CORRUPT with a reason. ST_EXISTS:
 * the barrier is already unsealed. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_unseal(struct barrier *b, const struct seal *seal,
                                     const struct barrier_records *records, struct reason *reason);
/* The same with the root key itself, as an unsealed node hands it over. ST_INVALID with a reason:
 * neither the root key of these records, nor one that links lead to it from. ST_NOT_FOUND,
 * ST_EXISTS, ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_unseal_root(struct barrier *b, const struct secret *root,
                                          const struct barrier_records *records,
                                          struct reason *reason);
/* The same with the root key of `other`, or one that links lead to from there. Also ST_SEALED:
 * `other` is sealed. */
NODISCARD enum status barrier_unseal_as(struct barrier *b, struct barrier *other,
                                        const struct barrier_records *records,
                                        struct reason *reason);
/* Append the root key for one receiver, as box_seal. Also ST_SEALED. */
NODISCARD enum status barrier_hand_over(struct barrier *b, const uint8_t receiver[BOX_PUBLIC_BYTES],
                                        struct bytes context, struct buf *out);
/* Wipe every key. Encryptions and decryptions under way finish first. */
void barrier_seal(struct barrier *b);
bool barrier_is_sealed(const struct barrier *b);

/* Take over what changed in the stored records: new terms of the rings; a new root key and all keys
 * under it, if links lead to it from the present root key; after a restore, all keys of the
 * restored state. Records that are older than the newest restore that the barrier took over change
 * nothing. ST_SEALED. ST_CORRUPT: no root key that the links lead to opens the rings; nothing
 * changed, and the caller should seal the barrier. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_follow(struct barrier *b, const struct barrier_records *records);

/* `restored` of the records that the present keys came from. Any thread. */
uint64_t barrier_restored(const struct barrier *b);

/* Prove possession of the root key: the HMAC of `message` under a key derived from the root key.
 * ST_SEALED, ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status barrier_prove(struct barrier *b, struct bytes message,
                                    uint8_t ret_mac[BARRIER_MAC_BYTES]);
/* The proof of barrier_prove with the root key that `seal` unwraps from `seal_record`, a stored
 * seal. ST_INVALID, ST_CORRUPT with a reason: `seal` does not open the record; ST_CRYPTO,
 * ST_NOMEM. */
NODISCARD enum status barrier_prove_by(const struct seal *seal, struct bytes seal_record,
                                       struct bytes message, uint8_t ret_mac[BARRIER_MAC_BYTES],
                                       struct reason *reason);
/* Whether this barrier's root key opens the records of another state; the local ring of that state
 * is not tried. ST_INVALID with a reason: the root key does not open them. ST_SEALED, ST_NOMEM,
 * ST_CRYPTO. */
NODISCARD enum status barrier_check(struct barrier *b, const struct barrier_records *records,
                                    struct reason *reason);
/* Whether records have the form of a seal, a key ring and a salt. This node need not have their
 * root key. ST_INVALID with a reason. */
NODISCARD enum status barrier_check_form(const struct barrier_records *records,
                                         struct reason *reason);
/* Whether the local ring is stored under a superseded root key. False while the barrier is sealed.
 */
bool barrier_is_behind(struct barrier *b);
/* Encrypt the local ring of `b` under the root key of `other`, which may be `b`. ST_SEALED: one of
 * both barriers is sealed; ST_NOT_FOUND: `b` has no local ring; ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_rewrap(struct barrier *b, struct barrier *other, struct env *env,
                                     struct buf *ret_record);

/* Where a link is to be stored, and when it is made. */
struct barrier_link_head {
    struct bytes name;
    int64_t time_ms; /* cluster time */
};
/* Append a link to the root key of `other`: from the root key of `b`; or, if `other` is `b`, from
 * the superseded root key of its local ring. ST_NOT_FOUND: that barrier is not behind. ST_SEALED,
 * ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_link(struct barrier *b, struct barrier *other, struct env *env,
                                   const struct barrier_link_head *head, struct buf *out);
/* The time at which a link was made. ST_CORRUPT. */
NODISCARD enum status barrier_link_time(struct bytes record, int64_t *ret_time_ms);

/* Records with a new root key: the seal, the rings, and the link from the superseded root key. The
 * caller stores all of them in one transaction, with the records that barrier_follow took last as
 * preconditions, then calls barrier_follow. Zero-initialise. ST_SEALED; ST_NOT_FOUND: there is no
 * local ring yet; ST_NOMEM, ST_CRYPTO. */
struct barrier_rekeyed {
    struct buf seal, keyring, local_keyring, link;
};
NODISCARD enum status barrier_rekey(struct barrier *b, struct env *env, const struct seal *seal,
                                    const struct barrier_link_head *head,
                                    struct barrier_rekeyed *ret_rekeyed);
void barrier_rekeyed_done(struct barrier_rekeyed *rekeyed);
/* Append a record of the present root key wrapped by `seal`. ST_SEALED, ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_reseal(struct barrier *b, struct env *env, const struct seal *seal,
                                     struct buf *ret_record);
/* Whether `seal` unwraps the present root key from `seal_record`. ST_INVALID with a reason: it does
 * not open the record, or the record wraps another root key. ST_CORRUPT with a reason; ST_SEALED,
 * ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_check_seal(struct barrier *b, const struct seal *seal,
                                         struct bytes seal_record, struct reason *reason);

/* Whether a ring needs a new record, because of more granted uses or a new term. False while the
 * barrier is sealed. Also false until this process has encrypted a value, unless the ring is
 * absent: a node that has only become active writes nothing. */
bool barrier_upkeep_due(struct barrier *b, enum barrier_ring ring);
/* The number of uses to grant next. */
int64_t barrier_grant(const struct barrier *b, enum barrier_ring ring);
/* Make the next record of a ring, with `grant` more uses. If the uses of the active term are used
 * up, the record begins a new term. The caller stores the record, with the record that
 * barrier_follow took last as a precondition, then calls barrier_follow and barrier_upkeep_done. A
 * `grant` of 0 always begins a new term; the caller then does not call barrier_upkeep_done.
 * ST_SEALED, ST_NO_SPACE (BARRIER_TERMS_MAX), ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_upkeep(struct barrier *b, struct env *env, enum barrier_ring ring,
                                     int64_t grant, int64_t time_ms, struct buf *ret_record);
void barrier_upkeep_done(struct barrier *b, enum barrier_ring ring, int64_t grant);

struct barrier_ring_info {
    uint32_t term; /* number of the active term */
    unsigned n_terms;
    int64_t installed_ms; /* when the active term began */
    uint64_t uses;        /* uses of the active term that were granted, to all nodes together */
    int64_t unused;       /* granted uses that this process has left; below zero: used in advance */
};
NODISCARD enum status barrier_ring_info(struct barrier *b, enum barrier_ring ring,
                                        /* ST_SEALED: the barrier is sealed. */
                                        struct barrier_ring_info *ret_info);

/* The cipher contexts of one thread. With contexts of its own, a thread waits for no other thread
 * and does not set up keys for each message. `env` belongs to the thread and gives the nonces.
 * ST_NOMEM. */
NODISCARD enum status barrier_cipher_new(struct barrier *b, struct env *env,
                                         struct barrier_cipher **ret_cipher);
void barrier_cipher_free(struct barrier_cipher *cipher); /* NULL is allowed */

/* The barrier that the cipher context was made for. */
struct barrier *barrier_of(const struct barrier_cipher *cipher);

/* Encrypt a value for `key`, a whole key of the state. The first segment of `key` selects the ring.
 * `out` has plain.len + BARRIER_OVERHEAD bytes. ST_SEALED, ST_CRYPTO, ST_NOMEM. ST_BUSY: there is
 * no ring yet, or more than BARRIER_USES_GRANT uses were made in advance because upkeep does not
 * keep up. */
NODISCARD enum status barrier_encrypt(struct barrier_cipher *cipher, struct bytes key,
                                      struct bytes plain, uint8_t *out);
/* Decrypt a value stored at `key`. `out` has room for stored.len bytes; *ret_len is stored.len -
 * BARRIER_OVERHEAD. ST_SEALED; ST_CORRUPT; ST_NOT_FOUND: the ring lacks the term of the value: call
 * barrier_follow and try again. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status barrier_decrypt(struct barrier_cipher *cipher, struct bytes key,
                                      struct bytes stored, uint8_t *out, size_t *ret_len);
/* HMAC-SHA-256 under the salt, which names bearers in the state. ST_SEALED, ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status barrier_mac(struct barrier_cipher *cipher, struct bytes message,
                                  uint8_t ret_mac[BARRIER_MAC_BYTES]);

#endif
