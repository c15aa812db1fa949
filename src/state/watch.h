/* Watched keys and prefixes: who waits for a change is told when it was published.
 *
 * The watches of a worker form a tree of keys. After a publication the worker walks this tree
 * beside the tree of the state. The walk leaves out every part in which nothing has changed since
 * the walk before (PROTOCOL R8), so it costs what the changes that are watched cost, however many
 * watchers wait for something else.
 *
 *   happy path   state_watch_begin, publication, state_watches_published, walk, changed
 *   a change between the watcher's transaction and state_watch_begin: found by state_watch_begin
 *   a restore replaces the whole state: every watcher is told
 *   no memory: state_watch_begin fails, and nothing is watched
 *
 * 1. No change is lost: a watcher that was begun is told of every change of a watched key or prefix
 *    after its transaction's version.
 * 2. A watcher is told only of changes of what it watches: a key that was absent and is still
 *    absent has not changed, nor has a prefix without keys.
 * 3. Several publications within WATCH_PAUSE_MS cost one walk.
 *
 * Everything but state_watches_published runs on the worker's thread. */
#ifndef HOLDFAST_STATE_WATCH_H
#define HOLDFAST_STATE_WATCH_H

#include "base/env.h"
#include "state/state_txn.h"

struct state_watches;
struct watch;

/* A key, or every key that begins with `key`, as the transaction that read it has found it. */
struct state_watched {
    struct bytes key;
    bool prefix;
    bool present; /* the key exists, or a key begins with the prefix */
};

/* Embedded in its owner, who keeps it until `changed` or state_watch_end. */
struct state_watcher {
    /* A watched key or prefix has changed, or the whole state was replaced: the watcher has ended.
     * Called once, never from inside a function of this header. The function may begin and end
     * watchers. */
    void (*changed)(struct state_watcher *watcher);

    struct list link; /* private from here on */
    struct watch *watches;
    uint64_t since; /* all changes up to this version are known to the owner */
    bool begun, fired;
};

/* Make the watches of a worker. ST_NOMEM. */
NODISCARD enum status state_watches_new(struct state *state, struct state_watches **ret_watches);
/* Free the watches; no watcher may be begun, and state_watches_idle. NULL is allowed. */
void state_watches_free(struct state_watches *watches);
/* Whether no task of the watches is posted. No thread may call state_watches_published any more. */
bool state_watches_idle(const struct state_watches *watches);
/* A version was published. Any thread. */
void state_watches_published(struct state_watches *watches);

/* Watch `n` keys and prefixes for changes after the version of `txn`. The keys are copied; `txn`
 * is open. ST_OK: `changed` follows, unless state_watch_end comes before. ST_NOMEM; ST_BUSY: too
 * many pins. */
NODISCARD enum status state_watch_begin(struct state_watches *watches,
                                        struct state_watcher *watcher, const struct state_txn *txn,
                                        const struct state_watched *keys, size_t n);
/* End a watcher; one that has ended is allowed. */
void state_watch_end(struct state_watches *watches, struct state_watcher *watcher);

enum { WATCH_PAUSE_MS = 1 }; /* between two walks */

struct state_watch_counters {
    uint64_t watchers; /* waiting now */
    uint64_t walks, visited, told;
};
/* Read the counters. Any thread. */
void state_watches_counters(const struct state_watches *watches,
                            struct state_watch_counters *ret_counters);

#endif
