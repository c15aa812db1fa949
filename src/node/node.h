/* This node: its raft thread, its place in the cluster, and what follows from it.
 *
 * Owns the raft thread (replica and cluster port), the barrier's unsealing, the role, and the work
 * that belongs to a role. It is "active" when it leads, is unsealed and has caught up (PROTOCOL
 * R15, R17). Workers read the published status from any thread and never wait for it.
 *
 *   node.c           the thread, start and stop, frames between nodes
 *   node_join.c      founding, joining, replacing a lost or damaged disk
 *   node_enroll.c    the certificate of a node that joins by a token
 *   node_told.c      a node that waits to be told which cluster to join
 *   node_challenge.c, challenge.[ch]  joining without a token: proving that one can open the seal
 *   node_files.c     certificate files: read, replaced as a pair
 *   node_renew.c     a new certificate in time
 *   authority.[ch]   the certificate authority and join tokens, as stored
 *   join_token.[ch]  join tokens as text
 *   node_role.c      what each change of the replica means for this node
 *   node_quorum.c    which members are reached or awaited
 *   node_address.c   where the members are
 *   node_duty.c      transactions the active node makes by itself
 *   node_upkeep.c    the Merkle root, transactions of its own
 *   node_seal.c      unsealing by shares, sealing on request
 *   node_snapshot.c  the whole state as a file, and back
 *   node_cleanup.c   dead members are removed, by what autopilot.[ch] decides
 *   node_admin.c     what an operator asks of the cluster (admin.h)
 *   node_removed.c   nodes that were removed, this one among them
 *   founding.[ch]    who may found */
#ifndef HOLDFAST_NODE_NODE_H
#define HOLDFAST_NODE_NODE_H

#include "barrier/barrier.h"
#include "base/env.h"
#include "base/status.h"
#include "cluster/mesh/mesh.h"
#include "node/duty.h"
#include "node/service.h"
#include "raft/replica/rlog.h"
#include "snapshot/snapshot.h"
#include "state/state.h"
#include "text/random.h"

struct node;
struct tls_ctx;

enum { NODE_FOUNDERS_MAX = 16 };

/* Keys of the local state, a name behind each: nodes that were removed and not let in again. What
 * is stored does not matter. */
#define NODE_REMOVED_KEY RLOG_LOCAL "core/removed/"
/* The same of nodes that shall have no vote: members, or those that will be. */
#define NODE_NONVOTER_KEY RLOG_LOCAL "core/nonvoter/"

enum node_failure { NODE_NOT_STARTED, NODE_FAILED, NODE_DISK_FAILED /* a write or sync */ };

/* Borrowed for the life of the node. */
struct node_options {
    const char *name, *data_dir, *cluster_name;
    const char *api_addr;                   /* URL clients reach this node at */
    const char *version;                    /* of this program, for people */
    const char *listen_addr, *cluster_addr; /* host:port of the cluster port: bound, told others */
    const char *ca_file, *cert_file, *key_file;
    /* Both are heeded where cert_file is missing. */
    const char *join_token_file; /* NULL: none */
    bool join_by_request;        /* wait for node_join */
    struct {
        const char *name, *address;
    } founders[NODE_FOUNDERS_MAX];
    unsigned n_founders;
    enum seal_type seal_type; /* configured: what a new cluster will have */
    const struct seal *seal;  /* NULL: unsealed by key shares, or the key file is missing */
    const struct node_duty *duties;
    size_t n_duties;
    const struct node_service *services;
    size_t n_services;
    bool performance_standby;
    unsigned election_ms, heartbeat_ms; /* 0: defaults of rlog.h, as below */
    uint64_t segment_bytes, snapshot_log_bytes, state_bytes_max, reserve_bytes;

    /* All on the raft thread. */
    void (*ready)(void *ctx); /* once: the replica runs, node_rlog may be used */
    /* Once, before `ready`: there is no replica before node_join, or all initial members. */
    void (*waits)(void *ctx);
    /* Once: the process must end with this message. */
    void (*failed)(void *ctx, enum node_failure failure, const struct reason *reason);
    /* A peer opened a connection for requests; it is the callee's now. */
    void (*accept_http)(void *ctx, struct mesh_http connection);
    /* The same of somebody who shows no certificate. */
    void (*accept_stranger)(void *ctx, struct mesh_http connection);
    void *ctx;
};

/* A copy of the newest published facts. */
struct node_status {
    char name[64], cluster_name[64];
    char cluster_id[40]; /* UUID text */
    uint8_t cluster[MESH_CLUSTER_ID_BYTES];
    uint8_t ca_sha256[32];    /* of the cluster's authority, as ca_file has it */
    char leader_name[64];     /* "" when unknown */
    char leader_address[160]; /* the active node's client address, a URL; "" when unknown */
    char leader_cluster[160]; /* the active node's cluster port, host:port; "" when unknown */
    bool initialized, sealed;
    bool active;                /* this node runs write handlers */
    bool perf_standby;          /* a standby that answers reads itself */
    bool removed, waits;        /* from the cluster; to be told which cluster to join */
    bool has_leader, no_quorum; /* no_quorum: as node_no_quorum (quorum.h) */
    uint64_t term, committed_index, applied_index;
    uint64_t version;        /* of the replicated state */
    int64_t cluster_time_ms; /* of the last applied entry; 0 before the first */
    int64_t active_since_ms; /* wall clock of this node, 0 when not active */
    uint64_t root_version;   /* the last computed Merkle root: its version … */
    uint8_t root[32];        /* … and value; all zero before the first */
    struct rlog_status raft;
};

/* The part of node_status that every request asks for. */
struct node_brief {
    bool initialized, sealed, active, perf_standby, removed, waits, no_quorum;
    bool leads; /* as a candidate for active: `leader_name` is its own */
};
static inline struct node_brief node_brief_of(const struct node_status *s)
{
    return (struct node_brief){
        .initialized = s->initialized,
        .sealed = s->sealed,
        .active = s->active,
        .perf_standby = s->perf_standby,
        .removed = s->removed,
        .waits = s->waits,
        .no_quorum = s->no_quorum,
        .leads = s->leader_name[0] != '\0' && strcmp(s->leader_name, s->name) == 0,
    };
}

/* Start the raft thread; everything else is told through the callbacks. ST_NOMEM, ST_IO. */
NODISCARD enum status node_start(const struct node_options *options, struct node **ret_node);
/* Hand leadership over if it has it, stop the replica and the cluster port, end the thread. Blocks,
 * a few seconds at most. What is still proposed ends with ST_CLOSED; no pin may be held. */
void node_stop(struct node *node);
/* The node is stopped, and no thread uses its barrier or its env any more. NULL is allowed. */
void node_free(struct node *node);

/* How a node that waits is to join. Borrowed during the call. */
struct node_join {
    const char *address;     /* of a member: host:port, TLS */
    const char *server_name; /* a name in its certificate; NULL: any */
    struct bytes ca;         /* the CA to trust there, PEM; empty: the hash in `token` */
    struct bytes client_cert, client_key; /* to show there; empty: nothing */
    struct bytes token;                   /* empty: by opening the cluster's seal */
    bool retry;     /* keep trying after a fault that may pass, even after the call has ended */
    bool non_voter; /* follow, without a vote */
};
/* Join a cluster. Blocks, on any thread but the raft thread, for as long as a minute. ST_OK: this
 * node is a voting member, or will be when it is given enough key shares. ST_TIMEOUT: it goes on by
 * itself. ST_EXISTS: it has its place already, or does not wait for this. ST_INVALID: refused, with
 * a reason. ST_BUSY: no member could be asked, or another call is under way, with a reason.
 * ST_IO, with one; ST_NOMEM, ST_CRYPTO, ST_CLOSED.
 */
NODISCARD enum status node_join(struct node *node, const struct node_join *how,
                                struct reason *reason);
/* The node stops soon: end such a call, and refuse others. Any thread, once. */
void node_join_give_up(struct node *node);

/* Any thread, after `ready`. */
struct rlog *node_rlog(struct node *node);
struct env *node_env(struct node *node);
struct barrier *node_barrier(struct node *node);
/* Name and cluster, as the certificate says. Any thread, after `ready`. */
const struct mesh_identity *node_identity(struct node *node);
/* How this node speaks to another's cluster port: mutual TLS. Any thread. */
struct tls_ctx *node_tls(struct node *node);
/* For its counters. Any thread, after `ready`. */
struct mesh *node_mesh(struct node *node);

/* For src/snapshot's functions. Any thread, after `ready`. */
struct snapshot *node_snapshot(struct node *node);

/* How this node is sealed, and how far unsealing has come. Any thread. */
struct node_seal_status {
    enum seal_type type;
    unsigned shares, threshold;    /* 0 before the initialisation */
    unsigned progress;             /* shares that were given of those it takes */
    char nonce[TEXT_UUID_LEN + 1]; /* of this attempt; "" without one */
};
void node_seal_status(struct node *node, struct node_seal_status *ret_status);

/* The next three may be called on any thread; they take a short time. `env` is the caller's.
 *
 * Give one key share (SEAL_KEY_BYTES of a key that was not split, else one more). At the threshold
 * the node is unsealed, or the attempt begins anew. ST_OK also for a share that was given before,
 * and on an unsealed node. ST_INVALID with a reason. ST_NOT_FOUND: not initialised. ST_NOMEM,
 * ST_CRYPTO, ST_CORRUPT, ST_BUSY. */
NODISCARD enum status node_unseal_share(struct node *node, struct env *env, struct bytes share,
                                        struct reason *reason);
/* Forget the shares that were given. ST_INVALID: unsealed. */
NODISCARD enum status node_unseal_reset(struct node *node, struct reason *reason);
/* Forget every key, until node_unseal_share or the next start. */
void node_seal(struct node *node);

/* Read the certificate files of the cluster port again, soon: for new connections. Files that
 * cannot be used change nothing but the log. Any thread. */
void node_reload(struct node *node);

/* The members as the active node knows them; on others only what concerns themselves. How many.
 * Any thread. */
struct node_peer {
    char name[64], version[32];
    char api_address[160]; /* "" while it has not said it */
    char cluster_address[160];
    bool active, reached; /* reached: by the node that is asked */
    int64_t heard_ms;  /* when it last spoke, by the clock of this node; 0: never, or ourselves */
    int64_t steady_ms; /* since when it has done so without a gap */
    uint64_t last_index, last_term; /* of its log, as a leader knows it; 0 elsewhere */
};
unsigned node_peers(struct node *node, struct node_peer ret_peers[static RLOG_MEMBERS_MAX]);

/* Whether a node of this name is a member now. Any thread. */
bool node_is_member(struct node *node, const char *name);
/* Cluster time as well as this node knows it: the leader's own, elsewhere carried on from what was
 * last heard; 0 before that. Any thread. */
int64_t node_time_ms(struct node *node);
/* Any thread. */
void node_status_get(struct node *node, struct node_status *ret_status);
struct node_brief
node_brief_get(const struct node *node); /* of one moment, too, and without a lock */

#endif
