/* Sealing and unsealing of this node. A part (cluster/membership/part.h). */
#ifndef HOLDFAST_NODE_UNSEAL_H
#define HOLDFAST_NODE_UNSEAL_H

#include "node/board.h"
#include "state/state.h"
#include "text/random.h"

/* How this node is sealed, and how many key shares were given. */
struct node_seal_status {
    bool known; /* the seal is; else type is that of the configuration, and no shares are known */
    enum seal_type type;
    /* number of key shares and of shares needed; 0 before the initialisation */
    unsigned shares, threshold;
    unsigned progress;             /* number of shares given in this attempt */
    char nonce[TEXT_UUID_LEN + 1]; /* nonce of this attempt; "": no share was given */
    /* this node is configured to move the cluster to another seal, which has not happened yet */
    bool migration;
    /* why this node does not unseal by itself, or what the change of the seal's key waits for; "":
     * neither */
    struct reason why;
};

/* The seals of this node, borrowed for its life. */
struct unseal_options {
    enum seal_type type; /* configured seal type, used when a cluster is initialised */
    /* configured seal, maybe with its previous key; NULL: unsealed by key shares, or the key file
     * is missing */
    const struct seal *seal;
    /* seal that is disabled: the cluster moves away from it; NULL: key shares, or the key file is
     * missing, or none is disabled */
    const struct seal *former;
    bool has_former; /* whether a seal is disabled */
};

struct unseal {
    struct part_host *host;
    struct board *board;
    struct unseal *self; /* for the duty, which gets it as a constant */
    struct unseal_options options;
    /* On the raft thread: enough shares were given to open the seal of the cluster to join. */
    void (*opened)(void *ctx);
    void *opened_ctx;
    struct env_task opened_task;
    _Atomic bool opened_posted;
    struct reason said; /* the failure that was last logged, to log it once; raft thread */

    pthread_mutex_t lock; /* guards the members below; take before the board's and the barrier's */
    bool locked;          /* whether the lock is held, for assertions */
    struct secret *given; /* shares given so far: SHAMIR_SHARES_MAX places, n_given in use */
    unsigned n_given;
    uint64_t given_for; /* stamp of the stored seal that the shares belong to */
    char attempt[TEXT_UUID_LEN + 1];
    bool held;          /* an operator sealed the node: it does not unseal by itself */
    struct buf awaited; /* seal of the cluster to join while shares are awaited; else empty */
    struct seal opener; /* seal made of the shares until this node is unsealed; type 0: none */
    /* Key that the shares combined to, which authorises the migration, until the migration is
     * committed; empty: this node migrates nothing. And the stamp of the seal to move away from. */
    struct secret moving;
    uint64_t moving_from;

    struct reason own_said; /* why the own seal is not renewed, to log it once; raft thread */
};

extern const struct part unseal_part;
/* Release what `start` made, also if that failed. No thread uses `u` any more. */
void unseal_done(struct unseal *u);

/* Copy how this node is sealed. Any thread. */
void unseal_status(struct unseal *u, struct node_seal_status *ret_status);

/* unseal_share, unseal_reset and unseal_seal may be called on any thread; they are quick. */

/* Give one key share. `share`: SEAL_KEY_BYTES of a key that was not split, else one byte more.
 * `env` is the caller's. At the threshold the node is unsealed, or the attempt starts again. With
 * `migrate`, the node also moves the cluster to the configured seal once it is active. ST_OK: also
 * for a share that was given before, and on an unsealed node. ST_INVALID with a reason.
 * ST_NOT_FOUND: not initialised. ST_NOMEM, ST_CRYPTO, ST_CORRUPT, ST_BUSY. */
NODISCARD enum status unseal_share(struct unseal *u, struct env *env, struct bytes share,
                                   bool migrate, struct reason *reason);
/* Forget the shares that were given. ST_INVALID: the node is unsealed. */
NODISCARD enum status unseal_reset(struct unseal *u, struct reason *reason);
/* Forget every key. The node stays sealed until unseal_share or a restart. */
void unseal_seal(struct unseal *u);

/* A duty (duty.h) of the active node, `self` is struct unseal: stage the migration that shares were
 * given for. As state_migrate. */
NODISCARD enum status unseal_migrate(const void *self, struct state_txn *txn, int64_t now_ms,
                                     unsigned steps);
/* A duty of the active node, also on a DR secondary; `self` is struct unseal. While the cluster
 * follows a primary: as state_dr_upkeep. Else: as state_dr_promote, which stages nothing unless the
 * cluster was a secondary until lately. */
NODISCARD enum status unseal_renew(const void *self, struct state_txn *txn, int64_t now_ms,
                                   unsigned steps);
/* Whether this node may ask a peer for the root key: sealed by key shares, and not by an operator
 * since its start. Raft thread. */
bool unseal_wants_peer(struct unseal *u);
/* Unseal with the root key of a peer, unless the node may not be unsealed by a peer any more. As
 * state_unseal_root; ST_DENIED: the node was sealed meanwhile. Raft thread. */
NODISCARD enum status unseal_by_peer(struct unseal *u, const struct secret *root,
                                     struct reason *reason);

/* Read the key rings again, which may have changed. Raft thread. */
void unseal_follow(struct unseal *u);

/* The functions below are members of struct enroll_seal. Raft thread. */
NODISCARD enum status unseal_await(struct unseal *u, struct bytes seal_record);
void unseal_drop(struct unseal *u);
bool unseal_has_opener(struct unseal *u);
NODISCARD enum status unseal_prove(struct unseal *u, struct bytes seal_record, struct bytes message,
                                   uint8_t ret_mac[BARRIER_MAC_BYTES], struct reason *reason);

#endif
