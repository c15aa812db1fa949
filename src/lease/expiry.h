/* The expiry index: what ends at which time, of every namespace and kind. Beside it lie the marks
 * of unfinished work.
 *
 *   s/expire/TIME/NS/KIND/ID   the thing ends at TIME: ms of cluster time, 12 hex digits
 *   s/unfinished/NS/KIND/ID    work on the thing is left; the value belongs to the kind
 *
 * An entry has no value: state_put_name stages it.
 *
 * Before EXPIRY_FEATURE a kind had keys of its own in each namespace, which older builds read:
 *
 *   s/ns/NS/FORMER_END/TIME/ID
 *   s/ns/NS/FORMER_MARK/ID
 *
 * One duty of the active node ends what is due in the order of time, then goes on with unfinished
 * work, then moves former keys into the index, a little in each transaction:
 *
 *   expiry_put ─▶ entry ──its time: end of the kind──▶ gone
 *                   ├──thing gone, or ends later──▶ gone
 *                   └──cannot be followed──▶ the same entry EXPIRY_AGAIN_MS later
 *
 * 1. An entry only points to a thing. The record of the thing decides whether it has ended, so an
 *    entry too many does no harm, and nothing trusts an entry that is missing.
 * 2. Below EXPIRY_FEATURE only former keys are written, from EXPIRY_FEATURE on only new ones. A
 *    transaction that finds the level below it conflicts with the raise (state/feature.h). So
 * former keys become fewer from the raise on, unless a restore brings the state of an older
 * snapshot.
 * 3. expiry_drop deletes the entry in both forms while the former key exists: the duty may move it
 *    meanwhile. The duty has every key that it moves as a precondition, so it moves no entry whose
 *    thing has ended meanwhile.
 * 4. A transaction of the duty is small: it ends as soon as it has the steps of its turn, or
 *    EXPIRY_BYTES. Due things come first; a part is kept for unfinished work, whose marks take
 *    turns; former keys are moved with the steps that are left.
 * 5. The duty looks for former keys as long as the node is active, by counts that cost one read
 *    each. So it needs no record of its progress: it goes on after a failover or a restore. */
#ifndef HOLDFAST_LEASE_EXPIRY_H
#define HOLDFAST_LEASE_EXPIRY_H

#include "state/state.h"

#include <stdatomic.h>

struct lease_kinds;

enum {
    EXPIRY_FEATURE = 2,      /* feature level of the keys */
    EXPIRY_KINDS_MAX = 16,   /* of a server */
    EXPIRY_STEPS = 100,      /* most things that one transaction ends, works on or moves */
    EXPIRY_MARK_PART = 5,    /* while there are marks: a fifth of the steps is kept for them */
    EXPIRY_MARKS_MAX = 1000, /* most marks that one transaction looks at */
    /* Size of a transaction at which it takes no further step, whatever the length of the keys: a
     * large transaction holds up the writes of clients. */
    EXPIRY_BYTES = 256 * 1024,
    EXPIRY_AGAIN_MS = 3600 * 1000,
};

/* One thing that is due, for the functions of its kind. */
struct expiry_task {
    struct state_txn *txn;
    const char *ns, *id;
    int64_t now_ms;                   /* cluster time */
    const struct lease_kinds *leases; /* lease kinds of the server */
};

struct expiry_kind {
    const char *name; /* 1 to 31 bytes, without '/' */
    /* kinds of the keys that builds before EXPIRY_FEATURE wrote; `former_mark` is NULL if the kind
     * has no marks */
    const char *former_end, *former_mark;
    /* Stage the end of the thing, with nothing but deletions and exempt puts: things end also in a
     * full state. ST_NOT_FOUND: it is gone, or has not ended. The entry is dropped in both cases.
     * Any other status but ST_NOMEM and ST_SEALED puts the entry off. */
    enum status (*end)(const struct expiry_task *task);
    /* Stage a part of the work that the mark of the thing stands for, as `end` does, and count
     * `steps` down, never below 0. It drops the mark when nothing is left. NULL if the kind has no
     * marks. */
    enum status (*go_on)(const struct expiry_task *task, unsigned *steps);
};

/* Work of the duty on this node. */
struct expiry_counts {
    /* For metrics. Things ended, entries dropped and former keys moved count once they are
     * committed; tries put off count at once. */
    _Atomic uint64_t ended, dropped, put_off, moved;
    /* Staged by the last run. This member and those below are for the thread of the duty. */
    struct {
        unsigned ended, dropped, moved;
    } staged;
    /* The last mark that a run met, or an empty key. The next run begins after it, so no mark waits
     * for the end of the work of another. */
    uint8_t mark[STATE_KEY_MAX];
    size_t mark_len;
    bool asked; /* the last run worked on a mark */
};

/* The kinds of a server. */
struct expiry_kinds {
    const struct expiry_kind *items[EXPIRY_KINDS_MAX];
    size_t n;
    const struct lease_kinds *leases;
    struct expiry_counts *counts;
};
/* Add a kind. The name of a kind is unique. */
void expiry_kinds_add(struct expiry_kinds *kinds, const struct expiry_kind *kind);

/* Stage the entry of a thing that ends at `time_ms`. It is exempt from the state limit. As
 * state_put. */
NODISCARD enum status expiry_put(struct state_txn *txn, const struct expiry_kind *kind,
                                 const char *ns, int64_t time_ms, const char *id);
/* Stage the deletion of that entry. The transaction has read the record of the thing. As
 * state_delete. */
NODISCARD enum status expiry_drop(struct state_txn *txn, const struct expiry_kind *kind,
                                  const char *ns, int64_t time_ms, const char *id);
/* expiry_drop for a thing that was created at EXPIRY_FEATURE or later: it has no former key. */
NODISCARD enum status expiry_drop_new(struct state_txn *txn, const struct expiry_kind *kind,
                                      const char *ns, int64_t time_ms, const char *id);

/* The key of a mark, whether or not the mark exists. A transaction that deletes a mark reads it
 * first, because the duty may move it meanwhile. ST_NOMEM. */
NODISCARD enum status expiry_mark_key(struct state_txn *txn, const struct expiry_kind *kind,
                                      const char *ns, const char *id, struct bytes *ret_key);

/* The duty: stage `steps` at most, 1 to EXPIRY_STEPS. `kinds` is a struct expiry_kinds. If nothing
 * is staged, nothing is left to do now. ST_SEALED, ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status expiry_upkeep(const void *kinds, struct state_txn *txn, int64_t now_ms,
                                    unsigned steps);
/* Whether the last run worked on a mark: a request left the work, so a client may wait for it. */
bool expiry_asked(const void *kinds);
/* The transaction of the last run of the duty is committed: count what it did. */
void expiry_committed(const void *kinds);

/* How many keys a version of the state has, at the cost of a few reads. */
struct expiry_sizes {
    uint64_t entries, marks; /* in both forms */
    uint64_t former;         /* of these, in the former form */
};
/* ST_NOMEM. */
NODISCARD enum status expiry_sizes_at(const struct expiry_kinds *kinds, const struct store_pin *pin,
                                      struct expiry_sizes *ret_sizes);

#endif
