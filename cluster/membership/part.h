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
#include "cluster/membership/bootstrap/step_file.h"
#include "cluster/membership/frame.h"
#include "cluster/mesh/mesh.h"
#include "raft/replica/rlog.h"

#include <assert.h>
#include <pthread.h>

struct part_host;
struct dr; /* cluster/dr/dr.h */

/* The configuration of this node as a member. Borrowed for the life of the node. */
struct member_options {
    const char *name, *data_dir;
    const char *api_addr;     /* URL at which clients reach this node */
    const char *version;      /* version of this program, shown to people */
    const char *cluster_addr; /* host:port of the cluster port, as other nodes reach it */
    const char *ca_file, *cert_file, *key_file;
    /* SEAL_MARK_BYTES: seal_mark of the configured static seal; all zero: there is no such key;
     * NULL: not reported */
    const uint8_t *seal_mark;
    /* The join options are used only if cert_file does not exist. */
    const char *join_token_file; /* file with a join token; NULL: none */
    const char *auto_join; /* host:port where that token is shown; NULL: to the initial members */
    bool join_by_request;  /* let the node wait for a join request */
    struct {
        const char *name, *address;
    } initial_members[INITIAL_MEMBERS_MAX];
    unsigned n_initial_members;
};

/* How far this node has come. FRESH: there is no replica yet, the initial members are asked.
 * JOINING: the replica runs, the leader is asked to make this node a member. MEMBER: in the
 * configuration as a voter or a standby. */
enum member_phase { PHASE_NO_CERTIFICATE, PHASE_FRESH, PHASE_JOINING, PHASE_MEMBER };

/* A frame of another node, without its first byte. Borrowed during the call. */
struct part_frame {
    uint64_t from;         /* raft id of the sender */
    const char *from_name; /* name in the sender's certificate */
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

/* Functions of the node that its parts may call. */
struct part_calls {
    /* Send a frame to a member; without a link the frame is lost. */
    void (*send)(struct part_host *host, uint64_t to, enum frame_kind kind, struct bytes content);
    /* Propose a small transaction that the cluster needs to run. If it is not applied, *mark
     * becomes 0, so that the part tries again. `mark`: NULL, or as long-lived as the node. */
    void (*write)(struct part_host *host, struct rlog_txn_builder *txn, uint64_t *mark);
    /* Link to the members, or to the initial members while no member is known. */
    void (*link)(struct part_host *host);
    /* Open the cluster port under host->id. An earlier port is closed. */
    enum status (*open_port)(struct part_host *host, struct reason *reason);
    /* Start the replica, with the initial configuration if this node is an initial member. Opens
     * the cluster port if it is closed; writes host->phase. ST_NOT_FOUND, ST_CORRUPT: the disk has
     * no valid replica. Other statuses with a reason. */
    enum status (*start_replica)(struct part_host *host, bool initial, struct reason *reason);
    /* Start the replica under a new id: an open cluster port is closed first, and the replica
     * starts after that. */
    enum status (*restart_replica)(struct part_host *host, struct reason *reason);
    /* Facts of the host have changed: publish them to other threads. */
    void (*publish)(struct part_host *host);
    /* Once, before there is a replica: this node waits for other nodes or for a join request. */
    void (*wait)(struct part_host *host);
    /* Seal the node: forget every key. */
    void (*seal)(struct part_host *host);
    /* The cluster time that this node knows or estimates; 0: none yet. Any thread. */
    int64_t (*time_ms)(struct part_host *host);
    /* The node does not start: the process ends with this message. */
    void (*refuse)(struct part_host *host, const struct reason *reason);
    /* The node cannot go on: the process ends with this message. `why`: ST_IO and ST_NO_SPACE are
     * failures of the disk. */
    void (*fail)(struct part_host *host, enum status why, const struct reason *reason);
};

/* Owned by the node. Parts read the facts; a comment names the part that writes one. */
struct part_host {
    /* The members below stay the same for the life of the node. */
    const struct part_calls *calls;
    const struct member_options *options;
    struct env *env; /* `env` of the raft thread */
    struct fs *fs;   /* files of the data directory */
    struct barrier *barrier;

    pthread_t thread; /* the raft thread, once `threaded` */
    bool threaded;

    struct mesh *mesh; /* the cluster port; NULL while closed */
    struct rlog *rlog; /* the replica; NULL before there is one */
    struct mesh_identity identity;
    char cluster_id[40];   /* id of the cluster, as UUID text; "" before the certificate was read */
    uint8_t ca_sha256[32]; /* SHA-256 of the authority's certificate, as ca_file has it */
    enum member_phase phase;
    uint64_t id; /* raft id of this node */
    /* folder of the replica in the data directory; set by bootstrap before there is a replica */
    char raft_dir[MEMBER_RAFT_DIR_MAX];
    /* members as the replica last reported them; none at first */
    struct rlog_member members[RLOG_MEMBERS_MAX];
    unsigned n_members;
    uint64_t active_term; /* the role: the term in which this node is active; 0: a standby */
    bool initialized;     /* the cluster has an initialised state */
    bool waits;           /* set by enroll: this node waits for a join request */
    bool removed;         /* set by bootstrap: this node is no member any more */
    /* this cluster follows another one, or was superseded: no duty and no service runs */
    bool dr_secondary;
    bool dr_follows; /* this cluster follows another one */
    struct dr *dr;   /* the part of disaster recovery, for services of modules */
    bool stopping, replica_closed;
    /* set by feature: the cluster's level; 0: not known yet. Any thread */
    _Atomic uint16_t feature;
    /* audit devices are enabled and none of this node takes records, so requests fail here; any
     * thread */
    _Atomic bool mute;
    /* set by unseal on the active node of a DR secondary: the last version at which it found the
     * own seal and the local key ring under the present root key; 0: it has not. Any thread */
    _Atomic uint64_t own_settled;
    _Atomic bool root_mended; /* hashes were stored anew: the root is computed again; any thread */
    _Atomic bool running;     /* whether `rlog` is set; any thread */
    /* a thread of this node fills a staged tree, which no other may drop; any thread */
    _Atomic bool staging;
};

/* Whether the caller may touch the host: on the raft thread, or before there is one. */
static inline bool part_on_thread(const struct part_host *host)
{
    return !host->threaded || pthread_equal(host->thread, pthread_self());
}

/* Whether the caller may wait for the raft thread: another thread calls. */
static inline bool part_off_thread(const struct part_host *host)
{
    return !host->threaded || !pthread_equal(host->thread, pthread_self());
}

#endif
