/* The secondary's side of the link: what its active node does while the cluster follows a primary.
 * One thread, a service of the node, which ends and begins with the term.
 *
 *   idle ──▶ waits for a change of the role
 *   syncing ──▶ sync: stage the primary's state beside the own one, swap at its version  (sync.c);
 *               a state that is whole: stage a clone of it, and the difference     (sync_diff.c)
 *   streaming ──▶ stream: apply runs of the WAL, acknowledge, answer checkpoints       (stream.c)
 *      │ the primary lacks the records, or replaced its state: syncing again
 *      ▼ a failure: the next address, after a pause that grows
 *
 * Beside it one thread for each node of the primary sends heartbeats (pulse.c).
 *
 * 1. Everything that is applied comes in a transaction that has the role's record as a
 * precondition: the set and the epoch are still those of the connection, or nothing is applied.
 * 2. The position is the version of the state, so a record is applied once, whatever ends when.
 * 3. A connection is believed only if it shows a certificate of the primary's cluster, and a
 * WELCOME of this set and epoch. */
#ifndef HOLDFAST_CLUSTER_DR_FOLLOW_FOLLOW_H
#define HOLDFAST_CLUSTER_DR_FOLLOW_FOLLOW_H

#include "cluster/dr/site.h"
#include "state/state.h"

/* The thread that follows, as its owner lends it. */
struct dr_thread {
    struct part_host *host;
    struct env *env;         /* env of the thread */
    const struct seal *seal; /* configured seal; NULL: key shares */
    /* Whether the thread is asked to end. Any thread. */
    bool (*asked)(void *ctx);
    /* Wait for `ms`. False: asked to end. */
    bool (*wait)(void *ctx, uint64_t ms);
    /* Run one transaction until it is applied, again after a conflict (node/service.h). */
    enum status (*transact)(void *ctx,
                            enum status (*stage)(struct state_txn *txn, void *arg, int64_t now_ms),
                            void *arg);
    void *ctx;
};

/* One write in a file of lost writes (lost.c). Borrowed during the call. */
struct dr_lost_write {
    struct bytes key, value;
    uint64_t created, modified;
    bool opened; /* the value is as clients wrote it; else as it was stored */
};
/* Read the writes from number `from` on, until `each` returns false. `name`: of the file, as the
 * status tells. ST_NOT_FOUND: this node has no such file. ST_SEALED; ST_CORRUPT; ST_NOMEM. A thread
 * that may block. */
NODISCARD enum status dr_lost_read(struct part_host *host, const char *name, uint64_t from,
                                   bool (*each)(void *ctx, const struct dr_lost_write *write),
                                   void *ctx);

/* How long the herald leaves a node alone. A node that takes no part as a primary does not offer
 * the protocol of the link: it has nothing to learn, and logs each attempt. The pause grows and
 * stays short: the node may come back as a primary from an older disk. Zero-initialise. */
enum { DR_HERALD_REST_MS = 30000 };
struct dr_herald_rest {
    char address[DR_ADDRESS_MAX];
    uint64_t pause_ms, due_ms;
};
/* The node was called. `stands_apart`: it does not offer the protocol. */
void dr_herald_note(struct dr_herald_rest *rest, bool stands_apart, uint64_t now_ms);

/* On a promoted cluster: tell the former primary of the new epoch, until the thread is asked to end
 * (herald.c). */
void dr_herald_run(const struct dr_thread *thread);
/* Follow until the thread is asked to end. */
void dr_follow_run(const struct dr_thread *thread);

#endif
