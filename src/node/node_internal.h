/* Shared by node.c, node_ops.c, parts.c and transport.c, and private to them: no part of the node
 * includes this header. */
#ifndef HOLDFAST_NODE_NODE_INTERNAL_H
#define HOLDFAST_NODE_NODE_INTERNAL_H

#include "cluster/dr/dr.h"
#include "cluster/membership/certificate/renew.h"
#include "cluster/membership/join/enroll.h"
#include "cluster/membership/join/join.h"
#include "cluster/membership/join/peer_unseal.h"
#include "cluster/membership/members/address.h"
#include "cluster/membership/members/feature.h"
#include "cluster/membership/removal/cleanup.h"
#include "cluster/membership/removal/removed.h"
#include "node/node.h"
#include "node/quorum.h"
#include "node/reseal.h"
#include "node/role.h"
#include "node/root.h"
#include "node/transfer.h"
#include "node/unseal.h"
#include "snapshot/snapshot.h"

#include <pthread.h>

struct node {
    struct node_options options;
    struct part_host host;
    struct board board;
    pthread_t thread;
    struct env_task stop_task, reload_task;
    _Atomic bool reload_posted;
    bool reopening; /* transport.c: the cluster port closes, then the replica starts */
    struct env_timer tick;
    enum status write_status; /* result of this node's newest own write */

    /* The parts, in the order of the table in parts.c. */
    struct local local;
    struct bootstrap bootstrap;
    struct join join;
    struct enroll enroll;
    struct unseal unseal;
    struct quorum quorum;
    struct dr dr;
    struct role role;
    struct snapshot snapshot;
    struct duties duties;
    struct services services;
    struct root root;
    struct admin admin;
    struct peers peers;
    struct health health;
    struct cleanup cleanup;
    struct feature feature;
    struct transfer transfer;
    struct reseal reseal;
    struct address address;
    struct removed removed;
    struct renew renew;
    struct peer_unseal peer_unseal;
};

/* node.c: the replica or the state changed, or a tick. Raft thread. */
void node_changed(struct node *n);
/* The node does not start: the process ends with this message. */
void node_refuse(struct node *n, const struct reason *reason);
/* The process ends with this message: `why` tells a failure of the disk from others. */
void node_fail(struct node *n, enum status why, const struct reason *reason);

/* parts.c: give the parts what they need of the options and of each other. */
void node_parts_wire(struct node *n);
/* Call each part in the order of the table. */
NODISCARD enum status node_parts_start(struct node *n);
void node_parts_tick(struct node *n);
void node_parts_changed(struct node *n, const struct rlog_status *raft);
void node_parts_receive(struct node *n, const struct part_frame *frame);
/* Stop each part. True: every part has stopped. */
bool node_parts_stop(struct node *n);
/* Release what other threads used; also after a start that failed. */
void node_parts_done(struct node *n);

/* Functions in transport.c: members of struct part_calls. */
void transport_send(struct part_host *host, uint64_t to, enum frame_kind kind,
                    struct bytes content);
void transport_link(struct part_host *host);
NODISCARD enum status transport_open(struct part_host *host, struct reason *reason);
NODISCARD enum status transport_start_replica(struct part_host *host, bool initial,
                                              struct reason *reason);
NODISCARD enum status transport_restart_replica(struct part_host *host, struct reason *reason);

#endif
