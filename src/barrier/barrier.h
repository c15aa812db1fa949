/* Encryption of stored values: what lies between plaintext in a handler and bytes in the state.
 *
 *   root key    wrapped by the seal, stored at s/core/seal
 *   key rings   AES-256 keys by term, encrypted under the root key, stored at s/core/keyring for
 *               replicated keys and l/core/keyring for local ones
 *   salt        for HMACs of bearer values, encrypted under the shared ring, stored at s/core/salt
 *   superseded  the new root key under the superseded one, for a while: l/core/handover (rekey.c)
 *   values      AES-256-GCM: version u8, term u32, nonce 12, ciphertext, tag 16; version, term and
 *               the whole key of the state are authenticated
 *
 * 1. A sealed barrier holds no key: barrier_seal wipes every one, those of all cipher contexts
 * included, before it returns.
 * 2. A value opens only at the key it was encrypted for.
 * 3. The local ring may be absent: after a restore from another cluster whose root key no node here
 *    had yet. The first upkeep makes one; until then nothing is encrypted for a local key.
 * 4. The uses of each term are counted in its ring, ahead of time but for a process's first; at
 *    BARRIER_USES_MAX a new term takes over.
 * 5. Random bytes come from the env alone.
 *
 * It does not read or write the state by itself, split the root key, or decide when to unseal. */
#ifndef HOLDFAST_BARRIER_BARRIER_H
#define HOLDFAST_BARRIER_BARRIER_H

#include "barrier/limits.h"
#include "barrier/seal.h"
#include "base/buf.h"
#include "base/env.h"

struct barrier;
struct barrier_cipher;

#define BARRIER_KEYRING "s/core/keyring"
#define BARRIER_LOCAL_KEYRING "l/core/keyring"
#define BARRIER_SEAL "s/core/seal"
#define BARRIER_SALT "s/core/salt"
#define BARRIER_SUPERSEDED "l/core/handover"

enum barrier_ring { BARRIER_SHARED, BARRIER_LOCAL, BARRIER_RINGS };

/* The stored records, as read from the state; borrowed during the call. Empty: absent. */
struct barrier_records {
    struct bytes seal, keyring, local_keyring, salt, superseded;
    /* The version that last replaced the whole state by another one (a snapshot's), 0: none did.
     * Rings of a later one need not extend those of an earlier. */
    uint64_t restored;
};

/* Starts sealed. ST_NOMEM. */
NODISCARD enum status barrier_new(struct barrier **ret_barrier);
void barrier_free(struct barrier *b); /* no cipher context may be left; wipes; NULL is allowed */

/* Everything a new cluster stores, and a barrier that is open with it, so that the first values can
 * be encrypted before the records are committed. Zero-initialise. */
struct barrier_created {
    struct barrier *barrier;
    struct buf seal, keyring, local_keyring, salt;
};
/* `time_ms` is cluster time. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_create(struct env *env, const struct seal *seal, int64_t time_ms,
                                     struct barrier_created *ret_created);
void barrier_created_done(struct barrier_created *created);

/* Unseal with what the state holds. ST_NOT_FOUND: the cluster is not initialised. ST_INVALID with
 * a reason: the root key is wrapped by another seal. ST_CORRUPT with a reason. ST_EXISTS: it was
 * unsealed already. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_unseal(struct barrier *b, const struct seal *seal,
                                     const struct barrier_records *records, struct reason *reason);
/* Wipe every key. Values being encrypted or decrypted at this moment are finished first. */
void barrier_seal(struct barrier *b);
bool barrier_is_sealed(const struct barrier *b);

/* The rings may have changed in the state: take their new terms; or the root key that took the
 * place of ours, and what lies under it; or all keys but the root key, when the state was replaced.
 * Records of a state that is no more change nothing. ST_SEALED. ST_CORRUPT: not readable with our
 * root key, nothing changed; the barrier should be sealed. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_follow(struct barrier *b, const struct barrier_records *records);

/* `restored` of the records that its keys came from. Any thread. */
uint64_t barrier_restored(const struct barrier *b);

/* Prove possession of the root key: its HMAC of `message`. ST_SEALED, ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status barrier_prove(struct barrier *b, struct bytes message,
                                    uint8_t ret_mac[BARRIER_MAC_BYTES]);
/* The proof of barrier_prove, with the root key that `seal` unwraps from `seal_record`, a stored
 * seal. ST_INVALID, ST_CORRUPT with a reason: `seal` does not open it; ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status barrier_prove_by(const struct seal *seal, struct bytes seal_record,
                                       struct bytes message, uint8_t ret_mac[BARRIER_MAC_BYTES],
                                       struct reason *reason);
/* Whether records of another state (the local ring aside) open with the root key. ST_INVALID with a
 * reason: they do not. ST_SEALED, ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_check(struct barrier *b, const struct barrier_records *records,
                                    struct reason *reason);
/* Whether records under a root key that this node lacks have the form of a seal, a key ring and a
 * salt. ST_INVALID with a reason. */
NODISCARD enum status barrier_check_form(const struct barrier_records *records,
                                         struct reason *reason);
/* The local ring of `b` as a record under the root key of `other`. ST_SEALED, ST_NOT_FOUND (it has
 * none), ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_rewrap(struct barrier *b, struct barrier *other, struct env *env,
                                     struct buf *ret_record);

/* A new root key, wrapped by `seal`, with all that is stored under it, and a record for the
 * superseded root key. To be stored together on condition that what barrier_follow took last is
 * still stored; then barrier_follow. Zero-initialise. ST_SEALED; ST_NOT_FOUND: there is no local
 * ring yet; ST_NOMEM, ST_CRYPTO. */
struct barrier_rekeyed {
    struct buf seal, keyring, local_keyring, superseded;
};
NODISCARD enum status barrier_rekey(struct barrier *b, struct env *env, const struct seal *seal,
                                    int64_t time_ms, struct barrier_rekeyed *ret_rekeyed);
void barrier_rekeyed_done(struct barrier_rekeyed *rekeyed);
/* When a superseded record was made. ST_CORRUPT. */
NODISCARD enum status barrier_superseded_time(struct bytes record, int64_t *ret_time_ms);
/* The same root key wrapped by `seal`, appended. ST_SEALED, ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_reseal(struct barrier *b, struct env *env, const struct seal *seal,
                                     struct buf *ret_record);

/* Whether a ring needs a new record: more uses granted, or a new term. False when sealed, and where
 * nothing was encrypted yet: a node that only became active writes nothing. */
bool barrier_upkeep_due(struct barrier *b, enum barrier_ring ring);
/* How many uses are to be granted next. */
int64_t barrier_grant(const struct barrier *b, enum barrier_ring ring);
/* The new record of the ring, to be stored on condition that what barrier_follow took last is still
 * stored. Once it is, call barrier_follow, then barrier_upkeep_done. With a `grant` of 0 it is that
 * of a new term even if none is due, and there is no more to do than to follow. ST_SEALED,
 * ST_NO_SPACE (BARRIER_TERMS_MAX), ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status barrier_upkeep(struct barrier *b, struct env *env, enum barrier_ring ring,
                                     int64_t grant, int64_t time_ms, struct buf *ret_record);
void barrier_upkeep_done(struct barrier *b, enum barrier_ring ring, int64_t grant);

struct barrier_ring_info {
    uint32_t term; /* the active one */
    unsigned n_terms;
    int64_t installed_ms;
    uint64_t uses;  /* granted to all nodes so far, of the active term */
    int64_t unused; /* of those, what this process has left; below zero: used in advance */
};
NODISCARD enum status barrier_ring_info(struct barrier *b, enum barrier_ring ring,
                                        struct barrier_ring_info *ret_info); /* ST_SEALED */

/* Keeps cipher contexts: no thread waits for another, no message pays for key setup. `env` gives
 * the nonces and belongs to the thread. ST_NOMEM. */
NODISCARD enum status barrier_cipher_new(struct barrier *b, struct env *env,
                                         struct barrier_cipher **ret_cipher);
void barrier_cipher_free(struct barrier_cipher *cipher); /* NULL is allowed */

/* The barrier that the cipher context was made for. */
struct barrier *barrier_of(const struct barrier_cipher *cipher);

/* Encrypt for `key`, a whole key of the state; its first segment says which ring. `out` has
 * plain.len + BARRIER_OVERHEAD bytes. ST_SEALED, ST_CRYPTO, ST_NOMEM. ST_BUSY: far more uses than
 * were granted, or no ring yet: upkeep does not keep up. */
NODISCARD enum status barrier_encrypt(struct barrier_cipher *cipher, struct bytes key,
                                      struct bytes plain, uint8_t *out);
/* `out` has room for stored.len bytes; *ret_len is stored.len - BARRIER_OVERHEAD. ST_SEALED;
 * ST_CORRUPT; ST_NOT_FOUND: of a term we do not know: barrier_follow, then again. ST_CRYPTO,
 * ST_NOMEM. */
NODISCARD enum status barrier_decrypt(struct barrier_cipher *cipher, struct bytes key,
                                      struct bytes stored, uint8_t *out, size_t *ret_len);
/* HMAC-SHA-256 under the salt: how a bearer value becomes a key. ST_SEALED, ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status barrier_mac(struct barrier_cipher *cipher, struct bytes message,
                                  uint8_t ret_mac[BARRIER_MAC_BYTES]);

#endif
