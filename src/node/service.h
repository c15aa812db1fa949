/* Services: background work of modules that may block, such as calls to the outside. A part of the
 * node (cluster/membership/part.h).
 *
 *   IDLE ──active in a new term──▶ RUNNING ──no longer active, or stopping──▶ ENDING
 *     ▲                              │ `run` returned by itself                 │ `run` returned
 *     └──────── thread joined ◀──────┴──────────────────────────────────────────┘
 *
 * IDLE to RUNNING: service_begin. To ENDING: service_ask. To IDLE: on_gone.
 *
 * 1. The active node begins each service once a term, on a thread, an env and a `state` of its own,
 *    and ends it once. A service whose `run` returned early is begun again in the next term.
 * 2. At most one run of a service exists on a node: the next term's run begins after the last one's
 *    thread was joined.
 * 3. The active node of a DR secondary, or of a superseded primary, begins the services for that
 *    state alone (`standing`), and no other service.
 * 4. Ending a service never delays the change of the role. A run that hangs in a call to the
 * outside cannot change the state any more: each proposal carries the run's term, and the replica
 * refuses one of a term that it does not lead; after the run was asked to end, service_propose
 * marks each proposal with a term that no node leads. A request that is already under way outside
 * cannot be called back: a service repeats such a request without harm, and bounds it by a
 * deadline.
 * 5. While a run hangs, this node logs that every SERVICE_COMPLAIN_MS and does not begin the
 * service again; other nodes do. A node that stops waits SERVICE_STOP_MS for it, then the process
 * ends without winding down, as after a crash. */
#ifndef HOLDFAST_NODE_SERVICE_H
#define HOLDFAST_NODE_SERVICE_H

#include "cluster/membership/part.h"
#include "state/state.h"

#include <pthread.h>

struct service;
struct snapshot;

/* A service of a module. */
struct node_service {
    const char *name; /* name of the service in the log */
    /* The work of one term, on the service's own thread. Return soon after service_wait returned
     * false or service_transact ST_CLOSED; bound every call to the outside by a deadline. */
    void (*run)(struct service *service);
    bool standing; /* runs where the cluster follows another one, and nowhere else */
};

/* Stage what a transaction shall change, as of the cluster time `now_ms`. Called again on a newer
 * version after a conflict. Must not block. */
typedef enum status (*service_stage)(struct state_txn *txn, void *ctx, int64_t now_ms);

enum {
    SERVICE_TRIES_MAX = 8, /* most attempts to commit one transaction */
    SERVICE_COMPLAIN_MS = 10000,
    SERVICE_STOP_MS = 10000,
};

/* The next functions are for `run`, on its thread. */

/* Wait until `ms` have passed. False, possibly at once: the run was asked to end. */
NODISCARD bool service_wait(struct service *service, uint64_t ms);
/* Run one transaction and wait until it was applied. A transaction that stages nothing reads a
 * recent version. ST_CLOSED: the run was asked to end. ST_NOT_LEADER: this node does not lead in
 * the run's term. ST_CONFLICT: SERVICE_TRIES_MAX tries met other writes. Else as state_begin,
 * `stage`, state_commit and its `done`. */
NODISCARD enum status service_transact(struct service *service, service_stage stage, void *ctx);
/* The cluster time. */
int64_t service_time_ms(const struct service *service);
/* Whether the run was asked to end: long work without a wait looks now and then. */
bool service_asked(const struct service *service);
/* The node's snapshots, and its options: they live as long as the node. */
struct snapshot *service_snapshot(const struct service *service);
const struct member_options *service_options(const struct service *service);

/* The rest of this file is for the node. */
struct services;

enum service_phase { SERVICE_IDLE, SERVICE_RUNNING, SERVICE_ENDING };

/* One row and its run. Raft thread, but for what `run`'s thread owns. */
struct service {
    struct services *all;
    const struct node_service *row;
    enum service_phase phase;
    uint64_t term;      /* term of the run; while IDLE: term without another run; 0: none */
    _Atomic bool ended; /* the run is asked to end; set by the raft thread, read by both threads */
    /* monotonic: when the run was asked to end; last warning about it; 0: never */
    uint64_t asked_ms, complained_ms;
    pthread_t thread;
    struct env_task gone; /* task for the raft thread: the run has returned */

    /* The members below belong to the run's thread; the raft thread makes and frees them. */
    pthread_t self;
    struct env *env;
    struct state_log log;
    struct state *state;
    struct state_commit commit;
    struct env_timer timer;
    bool fired, committed; /* the timer of a wait has fired; the commit is over */
    enum status st;
};

struct services {
    struct part_host *host;
    const struct node_service *rows;
    size_t n;
    int64_t (*time_ms)(void *ctx); /* gives the cluster time; any thread */
    void *time_ctx;
    struct snapshot *snapshot; /* the node's part */
    const struct seal *seal;   /* configured seal; NULL: key shares */
    struct service *items;     /* array of `n` services */
    uint64_t stop_ms;          /* monotonic: when the node began to stop; 0: it runs */
};

/* For a service that belongs to a part of the node: the node, the env of the run's thread, and the
 * configured seal (NULL: key shares). */
static inline struct part_host *service_host(const struct service *service)
{
    return service->all->host;
}
static inline struct env *service_env(const struct service *service)
{
    return service->env;
}
static inline const struct seal *service_seal(const struct service *service)
{
    return service->all->seal;
}

/* The thread of a run: runs the service, then posts `gone`. */
void *service_main(void *service);

extern const struct part service_part;
/* Release what `start` made. After `stop`, or where `start` failed. */
void services_done(struct services *services);

#endif
