/* The barrier's records in the state: unsealing, following, first initialisation. */
#ifndef HOLDFAST_STATE_STATE_CORE_H
#define HOLDFAST_STATE_STATE_CORE_H

#include "state/state.h"

/* Whether the newest applied state has been initialised. ST_NOT_FOUND: it has not; ST_BUSY. Any
 * thread. */
NODISCARD enum status state_is_initialized(struct store *store);
/* barrier_unseal with the newest applied state. Statuses of barrier_unseal; ST_BUSY. Any thread. */
NODISCARD enum status state_unseal(struct store *store, struct barrier *barrier,
                                   const struct seal *seal, struct reason *reason);
/* barrier_unseal_root with the newest applied state. Also ST_BUSY. Any thread. */
NODISCARD enum status state_unseal_root(struct store *store, struct barrier *barrier,
                                        const struct secret *root, struct reason *reason);
/* Unseal `apart`, a barrier beside the node's, with a pinned version of the state: by `seal`; NULL:
 * by the root key of `other`. Statuses of barrier_unseal and barrier_unseal_as. Any thread. */
NODISCARD enum status state_unseal_apart(const struct store_pin *pin, const struct seal *seal,
                                         struct barrier *other, struct barrier *apart,
                                         struct reason *reason);
/* How the newest applied state is sealed. This needs no key. ST_NOT_FOUND: the state is not
 * initialised. ST_CORRUPT, ST_BUSY. Any thread. */
NODISCARD enum status state_seal_info(struct store *store, struct seal_info *ret_info);

/* A restore replaces the whole state and writes this key. The key is a precondition of every
 * commit: a commit that was decided and encrypted before the restore conflicts after it. */
#define STATE_RESTORED STATE_SHARED "core/restored"

/* A DR secondary's own seal: the root key wrapped by this cluster's seal. While the key exists, the
 * nodes of this cluster open this seal in place of the primary's, BARRIER_SEAL (state_dr.h). */
#define STATE_DR_SEAL STATE_LOCAL "core/dr-seal"

/* The recovery key, encrypted by the barrier like any value. The recovery key unseals nothing. A
 * static seal has no key shares: there, shares of the recovery key authorise what key shares
 * authorise with other seals.
 *
 * The record has two forms. It is the key itself, of STATE_RECOVERY_BYTES. Or it is a seal of key
 * shares that wraps the present root key: after the promotion of a secondary with a static seal,
 * whose primary was sealed by key shares. Then the shares of the primary still authorise, and no
 * node knows the key that they combine to. Whether given shares are right shows by whether they
 * open the seal. When they are given, state_learn_key stores the key itself. */
#define STATE_RECOVERY_KEY "s/core/recovery"
enum { STATE_RECOVERY_BYTES = 32, STATE_RECOVERY_MAX = 256 };
/* Whether `key` is the key that state_check_key accepts, in the state that `seal` opens. The node's
 * own barrier may be sealed. `env` belongs to the calling thread. ST_DENIED: `key` is another key.
 * ST_NOT_FOUND: the state has no recovery key; else as state_unseal. */
NODISCARD enum status state_check_recovery(struct store *store, struct env *env,
                                           const struct seal *seal, struct bytes key,
                                           struct reason *reason);

/* How the cluster is sealed, as this transaction sees it: the seal that its nodes open.
 * ST_NOT_FOUND, ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status state_seal_read(struct state_txn *txn, struct seal_info *ret_info);
/* The same seal as it is stored. */
NODISCARD enum status state_seal_record(struct state_txn *txn, struct bytes *ret_record);
/* Whether `key`, of SEAL_KEY_BYTES, is the key that the shares of the cluster combine to: the
 * seal's key or, with a static seal, the recovery key. On a DR secondary these are the primary's,
 * whatever seal the secondary has itself. ST_DENIED: `key` is another key. ST_NOT_FOUND: there is
 * no such key; else as state_get. */
NODISCARD enum status state_check_key(struct state_txn *txn, struct bytes key);
/* After state_check_key accepted `key`: stage the recovery key itself, if a seal of key shares
 * stands in its place. On a DR secondary nothing is staged. As state_put. */
NODISCARD enum status state_learn_key(struct state_txn *txn, struct bytes key);

/* Stage a new root key, wrapped by `seal`. The stored seal and rings of the superseded root key are
 * replaced; unsealed nodes follow by the link that is stored, and DR secondaries too. After the
 * commit, call state_follow. As state_put_raw; ST_CONFLICT: a newer state has other keys. ST_BUSY:
 * there is no local key ring yet. ST_SEALED. ST_NO_SPACE: too many links are still needed.
 * ST_DENIED: a seal of key shares stands for the recovery key (STATE_RECOVERY_KEY), so the shares
 * have to be given first, as by a new recovery key: the seal wraps the present root key. */
NODISCARD enum status state_rekey(struct state_txn *txn, const struct seal *seal, int64_t time_ms);
/* Stage the same root key wrapped anew. As state_rekey. */
NODISCARD enum status state_reseal(struct state_txn *txn, const struct seal *seal);
/* Stage the same root key wrapped by another key of a static seal, `key`; the stored seal is static
 * too. Shares and recovery key stay. On a DR secondary, the secondary's own seal is wrapped. As
 * state_reseal. */
NODISCARD enum status state_rewrap(struct state_txn *txn, const struct seal *key);
/* Stage the move of the cluster to another seal: the same root key wrapped by the new seal, and the
 * recovery key stored or deleted, in one transaction. The shares stay valid: with a static seal
 * they are shares of the recovery key, without they are key shares. The stored seal changes, so
 * attempts that were begun under it are over.
 *
 * target  a static seal, its counts not read; NULL: key shares
 * key     SEAL_KEY_BYTES that the shares of the present seal combine to
 *
 * On a DR secondary, only the secondary's own seal is moved. ST_DENIED: `key` is another key.
 * ST_NOT_FOUND: the present seal has no shares. Else as state_reseal. */
NODISCARD enum status state_migrate(struct state_txn *txn, const struct seal *target,
                                    struct bytes key);
/* Background work for the active node: stage the deletion of links of the chain of root keys that
 * are an hour old, and that no DR secondary needs any more.
 *
 * confirmed  the oldest version at which each secondary that is not revoked has found its own keys
 *            renewed (state_dr_upkeep); STATE_NO_SECONDARY: there is none
 *
 * Nothing is staged on a DR secondary, or before a promoted one has its keys (state_dr_promote). As
 * state_delete. */
#define STATE_NO_SECONDARY UINT64_MAX
NODISCARD enum status state_superseded_upkeep(struct state_txn *txn, int64_t now_ms,
                                              uint64_t confirmed);

/* Stage a new term of the shared key ring. After the commit, call state_follow. As state_put_raw;
 * ST_SEALED; ST_NO_SPACE: the ring is full. */
NODISCARD enum status state_rotate(struct state_txn *txn, int64_t time_ms);
/* The shared ring as this transaction sees it. ST_SEALED, ST_CORRUPT, ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status state_ring_info(struct state_txn *txn, struct barrier_ring_info *ret_info);
/* barrier_follow with the newest applied state. Statuses of barrier_follow; ST_BUSY. Any thread. */
NODISCARD enum status state_follow(struct store *store, struct barrier *barrier);

/* The first initialisation, on an active node. Stages the four records of `created`; the commit
 * fails if one of the records exists. Values that the transaction stages afterwards are encrypted
 * with the new keys, whether or not the node's own barrier is sealed. After the commit, unseal this
 * node like any other node. `created` lives until the transaction has ended. ST_EXISTS: the cluster
 * was initialised before. ST_NOMEM. */
struct state_init {
    struct barrier_created created;
    struct barrier_cipher *cipher;
};
NODISCARD enum status state_init_begin(struct state_txn *txn, const struct seal *seal,
                                       int64_t time_ms, struct state_init *ret_init);
void state_init_done(struct state_init *init); /* wipes; after state_end */

#endif
