/* Shared by the files of this folder. */
#ifndef HOLDFAST_STATE_STATE_INTERNAL_H
#define HOLDFAST_STATE_STATE_INTERNAL_H

#include "state/state.h"

struct state {
    struct env *env;
    struct state_log *log;
    struct barrier *barrier;
    struct barrier_cipher *cipher;
    uint64_t keyed; /* generation whose keys the barrier has, or later ones */
    uint64_t seed;  /* seed of the heights in skip lists */
    struct state_upkeep *upkeep[BARRIER_RINGS]; /* renewal under way; NULL: none */
    bool closing;                               /* the replica may be gone */
    bool freed; /* state_free was called; the last renewal frees the memory */
};

enum state_op_kind { STATE_OP_PUT, STATE_OP_DELETE, STATE_OP_DROP };

/* One staged write: of state_put, state_delete or state_delete_prefix. */
struct state_op {
    struct state_op *next;
    enum state_op_kind kind;
    bool raw;
    bool name;   /* the empty value is not encrypted */
    bool exempt; /* does not count against a full state */
    struct bytes key, value;
    struct store_retain retain; /* the retained suffix, if it is a range of the stored value */
    struct bytes suffix;        /* the retained suffix, if it is a copy */
};

static inline bool op_has_suffix(const struct state_op *op)
{
    return op->retain.len + op->suffix.len != 0;
}

uint64_t state_random(struct state *state);

/* Whether a handler may use `key`: it lies below a segment and is no key of the state machine. */
bool state_key_valid(struct bytes key);

/* barrier_decrypt. If the term is unknown, the barrier first takes the new terms of the stored
 * rings. */
NODISCARD enum status state_decrypt(struct state *state, struct barrier_cipher *cipher,
                                    struct bytes key, struct bytes stored, uint8_t *out,
                                    size_t *ret_len);
/* barrier_follow with the records of a pinned version. */
NODISCARD enum status core_follow(const struct store_pin *pin, struct barrier *barrier);

/* The replacements of the whole replicated state, at a pinned version. */
struct state_replaced core_replaced(const struct store_pin *pin);
/* The member `version` of it. */
uint64_t core_restored(const struct store_pin *pin);
/* The version that last changed a key; 0: the key is absent. */
uint64_t core_modified(const struct store_pin *pin, struct bytes key);

/* Follow the pinned version, and make its seal and rings preconditions: no other change of the keys
 * comes between; in rekey.c. ST_BUSY: there is no local ring yet. ST_CONFLICT: a newer state has
 * other keys. Else as barrier_follow. */
NODISCARD enum status rekey_read(struct state_txn *txn);
/* In dr.c. ST_OK: this cluster has a seal of its own beside the primary's, or is a secondary, so
 * that its own seal is the only one to change; ST_NOT_FOUND: neither. Else as state_exists. */
NODISCARD enum status dr_has_own_seal(struct state_txn *txn);
/* state_migrate for such a cluster, after the checks. */
/* state_rewrap of the own seal. */
NODISCARD enum status dr_rewrap(struct state_txn *txn, const struct seal *target);
NODISCARD enum status dr_migrate(struct state_txn *txn, const struct seal *target,
                                 struct bytes key);

/* core_replaced of the pinned version, read once. */
const struct state_replaced *txn_replaced(struct state_txn *txn);

/* Record a read as a precondition. ST_NOMEM, kept in the transaction too. */
NODISCARD enum status txn_note_key(struct state_txn *txn, struct bytes key, uint64_t version);
NODISCARD enum status txn_note_prefix(struct state_txn *txn, struct bytes prefix);

/* Plaintext of a stored value, in `arena`. As state_get, without ST_NOT_FOUND. */
NODISCARD enum status txn_open_value(struct state_txn *txn, struct arena *arena, struct bytes key,
                                     struct bytes stored, struct bytes *ret_value);

/* Find what this transaction has staged for `key`. *ret_op is the latest put or deletion of `key`
 * itself; NULL: none. True also if a staged deletion of a prefix covers `key`. */
bool txn_own(const struct state_txn *txn, struct bytes key, struct state_op **ret_op);

/* Whether all that was read still holds in another pinned version. */
bool txn_still_holds(const struct state_txn *txn, const struct store_pin *pin);

/* Start upkeep of the rings if it is due and none is under way; failures are tried again later. */
void state_upkeep_start(struct state *state);

#endif
