/* Keys of a DR secondary under the seal.
 *
 * A secondary has the root key of its primary: the shared key ring that it receives is encrypted
 * under that key. Its nodes open the root key by a seal of their own, STATE_DR_SEAL:
 *
 *   primary's seal  own seal    the root key is wrapped by        who authorises
 *   key shares      key shares  the key of the primary's shares   the primary's key shares
 *   key shares      static      the configured seal key           the primary's key shares
 *   static          key shares  the primary's recovery key        shares of that key
 *   static          static      the configured seal key           shares of the recovery key
 *
 *   primary ──demote──▶ secondary ──adopt: the primary's state, from its first sync on──▶ secondary
 *   secondary ──promote──▶ primary
 *
 * 1. STATE_DR_SEAL exists from adopt or demote until promote. It wins over BARRIER_SEAL, which is
 *    the primary's, in everything that the nodes of this cluster open or show.
 * 2. STATE_DR_SEAL and the local key ring are always under the same root key. A new root key of the
 *    primary changes neither: links lead from their root key to the new one (state/superseded.h),
 *    also after a restart of every node. state_dr_upkeep then renews both.
 * 3. The number of shares and the threshold of STATE_DR_SEAL are those of the primary's seal.
 * 4. Nodes that are unsealed stay so: in adopt and renewal, a local link leads them to the new root
 *    key. A difference sync that replaces the records named in state_dr_source_add must replace all
 *    of them in the transaction of adopt. */
#ifndef HOLDFAST_STATE_STATE_DR_H
#define HOLDFAST_STATE_STATE_DR_H

#include "state/state_core.h"

/* The records of the primary's state that adopt needs. Zero-initialise. */
struct state_dr_source {
    struct buf seal, keyring, salt, recovery;
    struct state_dr_link {
        struct buf name, record;
    } links[BARRIER_LINKS_MAX];
    unsigned n_links;
};
/* Keep a copy of the value, stored at `key`, if adopt needs it; called for every key of the state,
 * in ascending order. ST_NOMEM. */
NODISCARD enum status state_dr_source_add(struct state_dr_source *source, struct bytes key,
                                          struct bytes value);
/* Whether both have the same records. */
NODISCARD bool state_dr_source_eq(const struct state_dr_source *a, const struct state_dr_source *b);
void state_dr_source_done(struct state_dr_source *source);

struct state_dr_adopt {
    struct store *store;     /* this cluster's state */
    struct barrier *barrier; /* this node's, unsealed */
    struct env *env;         /* of the calling thread */
    const struct state_dr_source *source;
    const struct secret *root; /* root key of the primary, from the activation; NULL: links of the
                                  source lead to the root key from that of this cluster */
    const struct seal *own;    /* configured seal; NULL: key shares */
    uint64_t version;          /* version at which the primary's state replaces this cluster's */
    int64_t now_ms;            /* cluster time */
};
/* Add to `out` what the transaction that replaces the replicated state by the primary's must write
 * beside: the own seal, the local ring and a link to the primary's root key, STATE_SYNCED. The
 * local ring is a precondition; if the transaction conflicts, begin again. The operation that
 * replaces the state comes before. Any thread.
 *
 * ST_INVALID with a reason: the root key does not open the primary's records; or the primary has no
 * recovery key, and this cluster is sealed by key shares. ST_CONFLICT with a reason: `version` is
 * not above the version at which this cluster's state was last replaced; without: a newer state has
 * other keys. ST_SEALED, ST_BUSY, ST_NOMEM, ST_CORRUPT, ST_CRYPTO. */
NODISCARD enum status state_dr_adopt(const struct state_dr_adopt *in, struct rlog_txn_builder *out,
                                     struct reason *reason);

/* Stage what makes a primary a secondary: a copy of its seal becomes its own. As state_put_raw. */
NODISCARD enum status state_dr_demote(struct state_txn *txn);

/* Stage what makes a secondary a cluster of its own, a primary or one without disaster recovery:
 * its own seal becomes the cluster's. The root key, and the shares that authorise, stay the same:
 *
 *   primary's seal   own seal     recovery record afterwards (STATE_RECOVERY_KEY)
 *   key shares       key shares   none
 *   key shares       static       the primary's seal: the key of its shares is not known here
 *   static           key shares   none: the recovery key wraps the root key
 *   static           static       the same
 *
 * own  configured seal; NULL: key shares
 *
 * Nothing is staged without an own seal. ST_INVALID with a reason: this node is configured for
 * another seal than the own one, or there is no recovery key. Else as state_rekey. */
NODISCARD enum status state_dr_promote(struct state_txn *txn, const struct seal *own,
                                       int64_t now_ms, struct reason *reason);

/* Background work for the active node of a secondary: stage the own seal and the local ring anew,
 * when the primary has another root key, shares or recovery key; stage the deletion of local links
 * that are an hour old. As state_put_raw; else as state_rekey.
 *
 * settled  nothing had to be renewed: at the version of `txn` no node of this cluster needs a link
 *          of the primary. The version that a secondary reports for state_superseded_upkeep.
 * why      why something cannot be renewed; "": it can */
struct state_dr_keys {
    bool settled;
    struct reason why;
};
NODISCARD enum status state_dr_upkeep(struct state_txn *txn, const struct seal *own, int64_t now_ms,
                                      struct state_dr_keys *ret_keys);

#endif
