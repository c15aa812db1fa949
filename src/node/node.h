/* This node: its raft thread, its role in the cluster, and the background work of that role.
 *
 * Owns the raft thread (replica and cluster port) and the parts of the node, each of which owns one
 * subject (cluster/membership/part.h; the table of parts is parts.c). The node is "active" when it
 * leads, is unsealed and has caught up (PROTOCOL R15, R17). Workers read the published status
 * (board.h) from any thread and never wait for the raft thread. */
#ifndef HOLDFAST_NODE_NODE_H
#define HOLDFAST_NODE_NODE_H

#include "cluster/membership/local.h"
#include "node/board.h"
#include "node/duty.h"
#include "node/service.h"

struct node;
struct tls_ctx;

enum node_failure { NODE_NOT_STARTED, NODE_FAILED, NODE_DISK_FAILED /* a write or sync failed */ };

/* Options of the node, borrowed for its life. */
struct node_options {
    struct member_options member;
    const char *cluster_name;
    const char *listen_addr;  /* host:port of the cluster port to bind */
    enum seal_type seal_type; /* configured seal type, used when a cluster is initialised */
    /* configured seal; NULL: unsealed by key shares, or the key file is missing */
    const struct seal *seal;
    const struct seal *former_seal; /* as struct unseal_options */
    bool has_former_seal;
    const struct node_duty *duties;
    size_t n_duties;
    const struct node_service *services;
    size_t n_services;
    bool performance_standby;
    bool peer_unseal;                   /* ask the active node for the root key after a start */
    unsigned election_ms, heartbeat_ms; /* 0: the default of rlog.h, also for the values below */
    uint64_t segment_bytes, snapshot_log_bytes, state_bytes_max, reserve_bytes;

    /* Events. All are called on the raft thread. */
    void (*ready)(void *ctx); /* called once: the replica runs, and node_rlog may be used */
    /* Once, before `ready`: no replica starts before a join request, or before all initial members
     * are heard. */
    void (*waits)(void *ctx);
    /* Called once: the process must end with this message. */
    void (*failed)(void *ctx, enum node_failure failure, const struct reason *reason);
    /* A version of the state was published. May be NULL. */
    void (*published)(void *ctx);
    /* A peer opened a connection for requests; the callee owns it now. */
    void (*accept_http)(void *ctx, struct mesh_http connection);
    /* A peer without a certificate opened a connection for requests; the callee owns it now. */
    void (*accept_unauthenticated)(void *ctx, struct mesh_http connection);
    void *ctx;
};

/* Start the raft thread; everything else is reported through the callbacks. ST_NOMEM, ST_IO. */
NODISCARD enum status node_start(const struct node_options *options, struct node **ret_node);
/* Transfer leadership if this node has it, end services, stop the replica and the cluster port, end
 * the thread. Blocks, a few seconds at most; a service that hangs ends the process instead
 * (service.h). Proposals under way end with ST_CLOSED; no pin may be held. */
void node_stop(struct node *node);
/* Free a stopped node; no thread uses its barrier or its env any more. NULL is allowed. */
void node_free(struct node *node);

/* The node stops soon: end a join request under way, refuse later ones. Any thread, once. */
void node_join_give_up(struct node *node);

/* The replica. Any thread, after `ready`. */
struct rlog *node_rlog(struct node *node);
struct env *node_env(struct node *node);
struct barrier *node_barrier(struct node *node);
/* Name and cluster, as the certificate says. Any thread, after `ready`. */
const struct mesh_identity *node_identity(struct node *node);
/* The TLS context for requests to the cluster ports of other nodes: mutual TLS. Any thread. */
struct tls_ctx *node_tls(struct node *node);
/* The mesh, for its counters. Any thread, after `ready`. */
struct mesh *node_mesh(struct node *node);

/* Read the certificate files of the cluster port again, asynchronously, for new connections. If the
 * files cannot be used, the old certificate stays in use and a log line says why. Any thread. */
void node_reload(struct node *node);

/* Tell the node whether it can record requests: audit devices are enabled and none takes records.
 * Such a node leads no longer than needed, and forwards reads. Any thread. */
void node_set_mute(struct node *node, bool mute);

/* reseal_is_due. Any thread. */
bool node_reseal_is_due(const struct node *node);

/* Whether the cluster does not exist yet because not all initial members have been heard; then
 * *ret_why names the missing ones with their addresses. Any thread. */
bool node_awaits_members(struct node *node, struct reason *ret_why);
/* Whether a node of this name is a member now. Any thread. */
bool node_is_member(struct node *node, const char *name);
/* Copy the status. Any thread. */
void node_status_get(struct node *node, struct node_status *ret_status);

#endif
