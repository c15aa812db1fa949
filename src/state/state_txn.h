/* Transactions: reading and staging. state.h has linearizable reads, commit and confirmation. */
#ifndef HOLDFAST_STATE_STATE_TXN_H
#define HOLDFAST_STATE_STATE_TXN_H

#include "barrier/barrier.h"
#include "base/arena.h"
#include "raft/txn/rlog_txn.h"
#include "state/set.h"
#include "store/retain.h"
#include "store/store.h"

#define STATE_SHARED RLOG_REPLICATED
#define STATE_LOCAL RLOG_LOCAL

enum {
    STATE_KEY_MAX = STORE_KEY_MAX,
    STATE_VALUE_MAX = 1024 * 1024,
};

struct state;
struct state_read;
struct state_op;

/* Embedded in a request. The fields are not for handlers. */
/* The replacements of the whole replicated state, by a restore or from a DR primary. */
struct state_replaced {
    uint64_t version;          /* of the last replacement; 0: there was no replacement */
    uint64_t restored, synced; /* versions of the records of restores and of syncs; 0: no record */
};

struct state_txn {
    struct state *state;
    struct barrier_cipher *cipher;
    struct arena *arena;
    struct store_pin pin;
    struct state_replaced replaced; /* at the pinned version, if it is known */
    bool replaced_known;
    struct state_set keys, prefixes; /* keys and prefixes that were read, and their versions */
    struct state_item *first_key, *last_key; /* the keys in the order in which they were read */
    struct state_set writes, drops;          /* staged keys; staged deletions of whole prefixes */
    struct state_op *ops, *last_op;          /* everything staged, in order, for state_rollback */
    size_t size;                             /* state_size */
    uint16_t feature;   /* level that state_has_feature found reached; 0: none */
    enum status status; /* first failure; the transaction then cannot commit */
    bool open, confirmed;
    bool read_only;                /* reads are not recorded */
    const struct state_more *more; /* operations besides those of handlers; NULL: none */
};

/* Pin the newest version. `read` is a finished state_read, or NULL for a write request on the
 * active node. `arena` is the request's and outlives the transaction. ST_BUSY: too many pins. */
NODISCARD enum status state_begin(struct state *state, struct arena *arena,
                                  const struct state_read *read, struct state_txn *ret_txn);
/* Do not record the reads of a confirmed transaction that has read nothing yet and probably stages
 * nothing. If the handler stages a write, the caller must begin another transaction and rerun. */
void state_set_read_only(struct state_txn *txn);
bool state_is_read_only(const struct state_txn *txn);
/* Do not record the reads until state_resume, for a fact that informs people and decides nothing.
 * Returns what state_resume takes. */
bool state_suspend(struct state_txn *txn);
void state_resume(struct state_txn *txn, bool before);
/* About how many bytes the encoded transaction will have, rarely fewer. A rollback does not lower
 * the figure. */
static inline size_t state_size(const struct state_txn *txn)
{
    return txn->size;
}
/* Whether every staged put is exempt from the state limit. */
bool state_is_exempt(const struct state_txn *txn);
/* Unpin the version. Results of reads stay in the arena. An ended transaction is allowed. */
void state_end(struct state_txn *txn);

struct state_value {
    struct bytes value;               /* plaintext, in the arena */
    struct store_retain_parts stored; /* encrypted value and its suffix, until state_end; empty for
                                         a value that this transaction staged */
    uint64_t created, modified;       /* versions; 0 for a value that this transaction staged */
};

/* Read a value. ST_NOT_FOUND; ST_SEALED; ST_CORRUPT; ST_NOMEM. ST_INVALID: `key` is empty, too long
 * or outside the segments. */
NODISCARD enum status state_get(struct state_txn *txn, struct bytes key,
                                struct state_value *ret_value);
/* ST_OK or ST_NOT_FOUND without decrypting; else as state_get. */
NODISCARD enum status state_exists(struct state_txn *txn, struct bytes key);
/* Whether this transaction has staged the deletion of `key`. Reads nothing. */
bool state_is_deleted(const struct state_txn *txn, struct bytes key);
/* A stamp identifies a stored value without decryption. Equal stamps of one key mean equal values,
 * also across a restore of the state. `seal` comes from the random part of the ciphertext.
 * `modified` is 0 for a value that this transaction staged. */
struct state_stamp {
    uint64_t modified, seal;
};
/* The stamp of the value at `key`. Statuses as state_exists. */
NODISCARD enum status state_stamp(struct state_txn *txn, struct bytes key,
                                  struct state_stamp *ret_stamp);

/* Stage `value` at `key`, replacing an earlier staged write. Both are copied. ST_OK; ST_INVALID,
 * ST_TOO_BIG (STATE_VALUE_MAX) or ST_NOMEM, transaction unchanged. */
NODISCARD enum status state_put(struct state_txn *txn, struct bytes key, struct bytes value);
/* state_put for a write that is exempt from the state limit: a write that serves deletion, or a
 * record that replaces a record of about the same size. The exemption holds only if every staged
 * put of the transaction is exempt. */
NODISCARD enum status state_put_exempt(struct state_txn *txn, struct bytes key, struct bytes value);
/* Stage a key that says everything: its value is empty, and is stored as such from
 * STATE_NAME_FEATURE on. Builds below that level encrypt the empty value. `exempt`: as
 * state_put_exempt. As state_put. */
enum { STATE_NAME_FEATURE = 3 };
NODISCARD enum status state_put_name(struct state_txn *txn, struct bytes key, bool exempt);
/* state_get of a key that state_put_name or state_put may have staged. For other keys an empty
 * stored value is ST_CORRUPT: only encryption shows that a value belongs to its key. */
NODISCARD enum status state_get_or_name(struct state_txn *txn, struct bytes key,
                                        struct state_value *ret_value);
/* Stage `value` with a retained suffix (store/retain.h). The suffix is made of pieces of the
 * present stored value, which state_get gave in `stored`. The pieces stay encrypted; state_open
 * decrypts a piece. As state_put or, if `exempt`, as state_put_exempt; ST_TOO_BIG also when the
 * suffix is longer than STORE_RETAIN_SUFFIX_MAX. The transaction may not read the key again. */
NODISCARD enum status state_put_retain(struct state_txn *txn, struct bytes key, struct bytes value,
                                       const struct store_retain_suffix *suffix, bool exempt);
/* Stage a deletion; the key may be absent. As state_put. */
NODISCARD enum status state_delete(struct state_txn *txn, struct bytes key);
/* Stage the deletion of every key that begins with `prefix`: of the keys that exist now, and of
 * those that exist when the commit is applied. `prefix` is longer than its segment. As
 * state_put. */
NODISCARD enum status state_delete_prefix(struct state_txn *txn, struct bytes prefix);

/* Operations that are no writes of keys: those on a staged tree, and those of a cluster that
 * follows another. `add` appends them behind the writes when the commit is encoded. */
struct state_more {
    void (*add)(const struct state_more *more, struct rlog_txn_builder *b);
};
/* Stage them, once; `more` lives until the commit is encoded. A rollback does not drop them. */
void state_stage_more(struct state_txn *txn, const struct state_more *more);

bool state_staged(const struct state_txn *txn); /* whether anything is staged */
/* state_version gives the version of the pinned state. state_newest gives the newest version of any
 * key that begins with `prefix`; this version becomes a precondition. */
uint64_t state_version(const struct state_txn *txn);
/* The view: two transactions of one state with the same view see the same keys and values, so one
 * of them may reuse what the other found. 0: the reads of this transaction must be recorded, or it
 * has staged writes. */
uint64_t state_view(const struct state_txn *txn);
NODISCARD enum status state_newest(struct state_txn *txn, struct bytes prefix,
                                   uint64_t *ret_version);
/* state_newest without a precondition: for copies of settings that a node keeps. */
uint64_t state_changed(const struct state_txn *txn, struct bytes prefix);
/* The index of a key, for clients that wait for a change: the version that last changed the key; if
 * the key is absent, the newest version of its nearest ancestor. The index of a prefix: the newest
 * version below the prefix, deletions included. After a restore both are at least the version of
 * the restore, so neither ever falls. The keys are those of the pinned state, without staged
 * writes. No index is a precondition. */
struct state_index {
    uint64_t version;
    bool present; /* the key exists, or a key begins with the prefix */
};
/* The version that last replaced the whole state; 0: none did. */
uint64_t state_restored(const struct state_txn *txn);
struct state_index state_index_of(const struct state_txn *txn, struct bytes key);
struct state_index state_index_below(const struct state_txn *txn, struct bytes prefix);
/* The number of the pinned state in the order in which this process published its states. */
uint64_t state_generation(const struct state_txn *txn);

/* A mark of the writes staged so far. state_rollback drops the writes staged after the mark. Reads
 * stay recorded (PROTOCOL R3: records of the framework survive a failed handler). */
struct state_mark {
    struct state_op *last_op;
};
struct state_mark state_mark(const struct state_txn *txn);
/* ST_NOMEM: the transaction can no longer commit. */
NODISCARD enum status state_rollback(struct state_txn *txn, struct state_mark mark);

/* An ordered walk over the keys that begin with a prefix, staged keys included. The handler may
 * stage keys during the walk: the walk gives the staged keys that lie ahead of it. Embedded; valid
 * until state_end. */
struct state_iter {
    struct bytes key;           /* current key, complete; valid until the next call */
    uint64_t created, modified; /* versions, as in state_value */

    struct state_txn *txn; /* private from here on */
    struct bytes prefix;
    struct store_iter store;
    bool store_have;  /* store.item is the next key of the tree */
    bool store_given; /* store.item is valid, though the walk may have passed it */
    bool store_end;
    struct state_op *own; /* staged write of the current key; NULL: the key is in the tree */
    uint8_t bound[STATE_KEY_MAX]; /* the walk has still to meet staged keys from here on */
    size_t bound_len;
    bool past_bound; /* the walk has met the bound itself */
};
/* Begin a walk at the first key >= `from`, or at the first key of the prefix if `from` is empty.
 * The whole prefix becomes one precondition. `prefix` is copied to the arena. ST_INVALID: `prefix`
 * is shorter than a segment. ST_NOMEM. */
NODISCARD enum status state_scan(struct state_txn *txn, struct bytes prefix, struct bytes from,
                                 struct state_iter *iter);
bool state_iter_next(struct state_iter *iter); /* false at the end */
/* The current value, decrypted into the arena. ST_SEALED, ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status state_iter_value(struct state_iter *iter, struct bytes *ret_value);
/* As state_iter_value, decrypted into `arena`: a long walk may clear it after each value. */
NODISCARD enum status state_iter_value_into(struct state_iter *iter, struct arena *arena,
                                            struct bytes *ret_value);

/* The next name below the prefix, as in a directory listing: "leaf", or "folder/" once for all keys
 * below that folder. `ret_name` lies in the arena. ST_NOT_FOUND at the end; ST_NOMEM. */
NODISCARD enum status state_iter_name(struct state_iter *iter, struct bytes *ret_name);

/* An ordered walk over the keys of the pinned state below a prefix, without staged keys. The walk
 * makes no precondition. Background work that changes a key reads the key with state_get first.
 * Embedded; valid until state_end. */
struct state_walk {
    struct bytes key; /* current key, complete; valid until the next call */
    uint64_t created; /* version that created the current key, as in state_value */
    struct store_iter store;
};
void state_walk(const struct state_txn *txn, struct bytes prefix, struct state_walk *walk);
/* state_walk from the first key >= `from` on. */
void state_walk_from(const struct state_txn *txn, struct bytes prefix, struct bytes from,
                     struct state_walk *walk);
bool state_walk_next(struct state_walk *walk); /* false at the end */
/* Continue after every key that begins with `skip`, a prefix of the current key. */
void state_walk_skip(struct state_walk *walk, struct bytes skip);

/* How many keys of the pinned state begin with `prefix`, at the cost of one read. The count leaves
 * out the writes that this transaction staged. The count is no precondition: it informs a client,
 * and a later change below the prefix does not make the transaction conflict. A handler that
 * decides by a count must note the prefix too, with state_newest. */
uint64_t state_count(const struct state_txn *txn, struct bytes prefix);

/* Decrypt into the arena a ciphertext that barrier_encrypt made for `key` and that is not stored at
 * `key`: a retained piece or a bearer. ST_SEALED, ST_NOMEM, ST_BUSY. ST_CORRUPT: as the keys are,
 * which became a read (state_need_keys). */
NODISCARD enum status state_open(struct state_txn *txn, struct bytes key, struct bytes sealed,
                                 struct bytes *ret_plain);
/* Call before a refusal that rests on the keys of this node: something did not open, or nothing is
 * stored under a name that the salt makes. The key rings become a read of the transaction, so the
 * refusal is confirmed only if no newer ring could have opened it (PROTOCOL R2). ST_OK: refuse.
 * ST_BUSY: the node has the keys of the state before or after a restore, so the refusal would mean
 * nothing. ST_SEALED, ST_NOMEM. */
NODISCARD enum status state_need_keys(struct state_txn *txn);

/* Read and stage values that the rings do not encrypt: the barrier's own records below core/. Such
 * a put is allowed even while the state is full. */
NODISCARD enum status state_get_raw(struct state_txn *txn, struct bytes key,
                                    struct state_value *ret_value);
NODISCARD enum status state_put_raw(struct state_txn *txn, struct bytes key, struct bytes value);

#endif
