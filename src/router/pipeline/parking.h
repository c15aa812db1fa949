/* The parked requests of a worker: each waits for a change of what its handler read. Inside
 * src/router.
 *
 *   parked ──▶ woken ──▶ resumed ──▶ replied
 *     ▲                     │
 *     └─────── again ───────┘     nothing newer was found
 *
 * A parked request holds no pin, arena or pipe. It is woken by a change of a watched key or prefix,
 * by its time or its token's, and by the state of the node (parking_tick). Woken requests run again
 * in turns of at most PARKING_TURN_MS. */
#ifndef HOLDFAST_ROUTER_PIPELINE_PARKING_H
#define HOLDFAST_ROUTER_PIPELINE_PARKING_H

#include "router/router.h"
#include "state/watch.h"

#include <stdatomic.h>

enum {
    PARKING_TURN_MS = 5,         /* longest turn of woken requests */
    PARKING_RUNNING_MAX = 64,    /* woken requests that run at once */
    PARKING_TICK_MS = 250,       /* time between two looks at the state of the node */
    PARKING_PROBE_MS = 15000,    /* time between two confirmations that there is a leader */
    PARKING_ANSWER_MS = 5000,    /* longest time of such a confirmation */
    PARKING_PATIENCE_MS = 10000, /* how long requests wait for a leader */
    PARKING_WATCHES_MAX = 64,    /* keys and prefixes that one request waits for */
};

/* Why a request was woken. */
enum parked_why {
    PARKED_CHANGED, /* something that it watches has changed */
    PARKED_TIME,    /* the longest wait is over: reply with the present result */
    PARKED_TOKEN,   /* the token may have expired */
    PARKED_NODE,    /* the role of the node has changed */
    PARKED_ALONE,   /* no node leads: the request fails */
    PARKED_LEAVING, /* the node leaves: reply with the present result */
};

struct parked {
    struct router_parked handle; /* must come first */
    struct router_worker *worker;
    struct state_watcher watcher;
    struct env_timer timer;
    struct list link;     /* in the lists of the worker; empty while the request runs */
    struct ip client;     /* counted in the budget */
    uint64_t deadline_ms; /* monotonic: end of the longest wait */
    uint64_t index;       /* the index waited for: a result above it is newer */
    uint64_t version;     /* of the state, when the request was parked */
    enum parked_why why;  /* set when it is woken */
    bool absent;          /* the result was that there is nothing */
    bool stale;           /* needs no leader */
};

struct parking {
    struct router_worker *worker;
    /* NULL: the worker has no state yet; the raft thread looks too */
    struct state_watches *_Atomic watches;
    struct list parked, woken;
    struct env_task task; /* runs woken requests */
    struct env_timer retry, tick;
    bool posted, leaving, probing, led;
    struct state_read probe;
    uint64_t probe_ms; /* begin of the last probe */
    uint64_t alone_ms; /* since when no node leads; 0: a node leads */
    _Atomic uint64_t now, n_parked, refused, changed, timeouts, gone, ended, again;
};

/* Set up the parking of a worker that has no state yet; it is all zero. */
void parking_init(struct parking *parking, struct router_worker *worker);
/* The worker has its state. ST_NOMEM. */
NODISCARD enum status parking_begin(struct parking *parking, struct state *state);
/* No request is parked. */
void parking_done(struct parking *parking);
/* Park a request that ran with `txn`. `parked` is not in a list. As state_watch_begin. */
NODISCARD enum status parking_add(struct parking *parking, struct parked *parked,
                                  const struct state_txn *txn, const struct state_watched *keys,
                                  size_t n);
/* Set when a parked request is woken at the latest; 0: with its deadline. */
void parking_until(struct parked *parked, uint64_t token_ms);
/* The node leaves: wake all, and park no more. */
void parking_leave(struct parking *parking);
/* Free a request that is over. NULL is allowed. */
void parked_free(struct parked *parked);
void parking_counters(const struct parking *parking, struct router_parked_counters *ret_counters);

#endif
