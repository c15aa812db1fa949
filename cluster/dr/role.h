/* The role of this cluster in disaster recovery: a record of the local state, and the transactions
 * that change it (PROTOCOL R19).
 *
 *                enable                     superseded by a higher epoch
 *   DISABLED ─────────────▶ PRIMARY running ────────────────────────────▶ PRIMARY superseded
 *       │ follow                ▲  │ demote                                  │ demote
 *       ▼                       │  ▼                                         ▼
 *   SECONDARY syncing ◀──────── SECONDARY idle ◀─────────────────────────────┘
 *       │      ▲     update-primary    ▲
 *       │      └───────────────┐       │ forget
 *       ▼ synced               │       │
 *   SECONDARY streaming ───────┴───────┘
 *       │ promote: PRIMARY running, next epoch (also from idle, never from syncing)
 *
 * From each mode, disable leads to DISABLED and keeps the data. The functions: dr_role_enable,
 * dr_role_demote, dr_role_hear, dr_role_follow, dr_role_resync, dr_role_synced, dr_role_forget,
 * dr_role_promote, dr_role_disable. A secondary that hears of a higher epoch takes the epoch over
 * and keeps its phase: dr_role_hear, dr_role_learn.
 *
 * 1. A change of the role is one transaction, and the record is among its preconditions. A change
 *    that is repeated after a crash or an unknown outcome finds the new role and is refused, or
 *    changes nothing.
 * 2. The key DR_FOLLOWING exists exactly while the cluster writes no replicated key of its own
 *    (dr_stands_still). The state machine reads it and refuses every write to replicated keys that
 *    does not come from the primary.
 * 3. Within one set an epoch never falls.
 * 4. The record holds no secret and is not encrypted, so a sealed node knows its role. */
#ifndef HOLDFAST_CLUSTER_DR_ROLE_H
#define HOLDFAST_CLUSTER_DR_ROLE_H

#include "cluster/dr/keys.h"
#include "cluster/dr/link/dr_name.h"

enum {
    DR_ROLE_ADDRESS_MAX = 264, /* longest address, with its zero */
    DR_ROLE_REASON_MAX = 160,
    DR_EPOCH_FIRST = 1,
};

/* The highest epoch that is believed of another cluster. Promotions can still count on then. */
#define DR_EPOCH_MAX (UINT64_C(1) << 48)
/* How far above its own epoch a cluster believes another one: each promotion adds one. So a cluster
 * that lies cannot use the epochs up. */
#define DR_EPOCH_AHEAD (UINT64_C(1) << 20)

enum dr_mode { DR_MODE_DISABLED, DR_MODE_PRIMARY, DR_MODE_SECONDARY };

enum dr_phase {
    DR_PHASE_RUNNING = 1, /* a primary that serves */
    DR_PHASE_SUPERSEDED,  /* a primary that heard of a higher epoch: refuses writes */
    DR_PHASE_IDLE,        /* a secondary without a primary */
    DR_PHASE_SYNCING,   /* a secondary whose state is not whole, or may differ from its primary's */
    DR_PHASE_STREAMING, /* a secondary that applies its primary's writes */
};

struct dr_role {
    enum dr_mode mode; /* DR_MODE_DISABLED: every other member is zero */
    enum dr_phase phase;
    uint8_t set[DR_SET_BYTES]; /* the replication set: a UUID, the same on both sides */
    uint64_t epoch;            /* the highest of the set that this cluster has had or believed */
    int64_t since_ms;          /* cluster time of the last change of mode */
    uint64_t target;    /* DR_PHASE_SYNCING: version that the sync leads to; 0: not known yet */
    bool whole;         /* DR_PHASE_SYNCING: the state is whole, though it may differ */
    char id[DR_ID_MAX]; /* of a secondary: the id that its primary gave it */
    char address[DR_ROLE_ADDRESS_MAX]; /* primary_cluster_addr: host:port; "": not configured */
    char reason[DR_ROLE_REASON_MAX]; /* why the phase is DR_PHASE_IDLE or DR_PHASE_SUPERSEDED; "" */
};

/* Whether another cluster of the set can have an epoch that is higher than this one's. */
static inline bool dr_epoch_is_possible(const struct dr_role *role, uint64_t epoch)
{
    return epoch > role->epoch && epoch - role->epoch <= DR_EPOCH_AHEAD && epoch <= DR_EPOCH_MAX;
}

/* Read the role as this transaction sees it; the record becomes a precondition. Without a record
 * the mode is DR_MODE_DISABLED. ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status dr_role_read(struct state_txn *txn, struct dr_role *ret_role);
/* Read the role at a pin. ST_CORRUPT: the record is malformed. Any thread. */
NODISCARD enum status dr_role_at(const struct store_pin *pin, struct dr_role *ret_role);
/* Decode a record. ST_CORRUPT. */
NODISCARD enum status dr_role_decode(struct bytes record, struct dr_role *ret_role);

/* Append the record of a role that is not disabled. ST_NOMEM. */
NODISCARD enum status dr_role_encode(const struct dr_role *role, struct buf *out);

/* The functions below stage one change. ST_INVALID with a reason: the present role does not allow
 * the change, and nothing was staged. Else as state_put_raw. */

/* Make a disabled cluster the first primary of a new set. `address`: its cluster address, or "". */
NODISCARD enum status dr_role_enable(struct state_txn *txn, const uint8_t set[DR_SET_BYTES],
                                     const char *address, int64_t now_ms, struct reason *reason);
/* Make a primary an idle secondary of its set. Its secondaries may still fetch the writes that they
 * lack, until this cluster follows another one. */
NODISCARD enum status dr_role_demote(struct state_txn *txn, int64_t now_ms, struct reason *reason);
/* End the role; the data stays. */
NODISCARD enum status dr_role_disable(struct state_txn *txn, struct reason *reason);

/* A primary, as its secondary knows it. */
struct dr_primary {
    uint8_t set[DR_SET_BYTES];
    uint64_t epoch;
    const char *id;      /* id of this secondary, shorter than DR_ID_MAX */
    const char *address; /* cluster address of the primary */
};
/* Make a disabled cluster a secondary that syncs. Its own state is replaced when the first sync
 * ends. */
NODISCARD enum status dr_role_follow(struct state_txn *txn, const struct dr_primary *primary,
                                     int64_t now_ms, struct reason *reason);
/* Make an idle or streaming secondary compare its state with a primary of its set and follow that
 * primary. A lower epoch than the secondary's own is refused. */
NODISCARD enum status dr_role_resync(struct state_txn *txn, const struct dr_primary *primary,
                                     struct reason *reason);
/* A secondary forgets its primary and becomes idle. A secondary whose state is not whole is
 * refused. `why`: shown in the status. */
NODISCARD enum status dr_role_forget(struct state_txn *txn, const char *why, struct reason *reason);
/* The sync of a secondary has ended: its state is the primary's. */
NODISCARD enum status dr_role_synced(struct state_txn *txn, struct reason *reason);
/* The sync leads to `version`. */
NODISCARD enum status dr_role_aim(struct state_txn *txn, uint64_t version, struct reason *reason);
/* Make a secondary the primary of its set, under the next epoch. A secondary that syncs is refused.
 * The link to the former primary stays: the former primary must hear of the new epoch. */
NODISCARD enum status dr_role_promote(struct state_txn *txn, const char *address, int64_t now_ms,
                                      struct reason *reason);
/* A cluster that this one must believe (epoch.h) has the higher epoch `epoch`: a primary is
 * superseded, an idle secondary takes the epoch over. */
NODISCARD enum status dr_role_hear(struct state_txn *txn, uint64_t epoch, struct reason *reason);
/* The primary of a secondary knows of the higher epoch `epoch`. */
NODISCARD enum status dr_role_learn(struct state_txn *txn, uint64_t epoch, struct reason *reason);

/* Words of the status: "disabled", "primary", "secondary". */
const char *dr_mode_text(enum dr_mode mode);
/* The state as the status names it: "running", "idle", "stream-wals" and so on. */
const char *dr_state_text(const struct dr_role *role);
/* The phase as the log names it. */
const char *dr_phase_text(enum dr_phase phase);

/* Whether this cluster writes no replicated key of its own: it is a secondary, or superseded. */
static inline bool dr_stands_still(const struct dr_role *role)
{
    return role->mode == DR_MODE_SECONDARY || role->phase == DR_PHASE_SUPERSEDED;
}

/* Whether this cluster was a primary and was demoted: secondaries of its epoch may fetch the rest.
 */
static inline bool dr_was_demoted(const struct dr_role *role)
{
    return role->mode == DR_MODE_SECONDARY && role->phase == DR_PHASE_IDLE;
}

/* Whether this cluster follows a primary, so that its own nodes write no replicated key. */
static inline bool dr_is_secondary(const struct dr_role *role)
{
    return role->mode == DR_MODE_SECONDARY;
}

#endif
