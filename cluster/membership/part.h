/* The form that all parts of a node share, and the node as its parts see it.
 *
 * A part owns one subject: bootstrap, joining, snapshots, services, … The node holds its parts in
 * one table (src/node/parts.c) and calls them in the order of that table. No part includes the
 * node: a part works with the facts and the calls of `struct part_host`, which the node owns, and
 * with the parts that were given to it before `start`.
 *
 * Everything here belongs to the raft thread, unless a comment says "any thread". */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_PART_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_PART_H

#include "barrier/barrier.h"
#include "base/env.h"
#include "cluster/membership/frame.h"
#include "cluster/mesh/mesh.h"
#include "raft/replica/rlog.h"

struct part_host;

/* A frame of another node, without its first byte. Borrowed during the call. */
struct part_frame {
    uint64_t from;         /* raft id of the sender */
    const char *from_name; /* as its certificate says */
    enum frame_kind kind;
    struct bytes content;
};

/* The functions of a part. `self` is the part's own struct, zeroed before `start`. A member may be
 * NULL: the part has nothing to do there. */
struct part {
    const char *name;
    /* Once, before the raft thread begins. ST_NOMEM: the node does not start; `stop` is not called.
     */
    enum status (*start)(void *self, struct part_host *host);
    /* Every PART_TICK_MS, also before there is a replica; never while the node stops. */
    void (*tick)(void *self);
    /* Leadership, readiness, members or the seal may have changed; also after each tick. The
     * replica runs. `raft` is its status at this moment, borrowed. */
    void (*changed)(void *self, const struct rlog_status *raft);
    /* A frame came. True: the frame was for this part, and no other part sees it. */
    bool (*receive)(void *self, const struct part_frame *frame);
    /* The node stops (host->stopping): end what is under way. Called every few milliseconds until
     * true, then once more in the same way after the replica was closed (host->replica_closed).
     * True: nothing of this part keeps the replica, or then the thread, from ending. */
    bool (*stop)(void *self);
};

enum {
    PART_TICK_MS = 200,
    PART_STOP_POLL_MS = 5,
};

/* Calls of the node that its parts may make. */
struct part_calls {
    /* Send a frame to a member; it is lost where no link is up. */
    void (*send)(struct part_host *host, uint64_t to, enum frame_kind kind, struct bytes content);
    /* Propose a transaction that is small and needed to run the cluster. Where it was not applied,
     * *mark (may be NULL; as long-lived as the node) becomes 0, so that the part tries again. */
    void (*write)(struct part_host *host, struct rlog_txn_builder *txn, uint64_t *mark);
    /* The node cannot go on: the process ends with this message. `why`: ST_IO and ST_NO_SPACE are
     * failures of the disk. */
    void (*fail)(struct part_host *host, enum status why, const struct reason *reason);
};

/* Owned by the node. Parts read the facts; a comment names the part that writes one. */
struct part_host {
    /* For the life of the node. */
    const struct part_calls *calls;
    struct env *env; /* of the raft thread */
    struct fs *fs;   /* of the data directory */
    struct barrier *barrier;

    struct mesh *mesh; /* the cluster port; NULL while closed */
    struct rlog *rlog; /* the replica; NULL before there is one */
    struct mesh_identity identity;
    char cluster_id[40]; /* UUID text; "" before the certificate was read */
    uint64_t id;         /* our raft id */
    struct rlog_member members[RLOG_MEMBERS_MAX]; /* as the replica last told; none at first */
    unsigned n_members;
    uint64_t active_term; /* the role: the term in which this node is active; 0: a standby */
    bool removed;         /* this node is no member any more */
    bool dr_secondary;    /* this cluster follows another one: no duty and no service runs */
    bool stopping, replica_closed;
};

#endif
