/* The quorum as a node sees it without a leader: the members it reaches, and those it waits for. */
#ifndef HOLDFAST_NODE_QUORUM_H
#define HOLDFAST_NODE_QUORUM_H

#include "base/status.h"
#include "raft/replica/rlog.h"

struct node;

/* Whether too few voters can be reached for a leader, for longer than an election takes; then
 * *ret_why counts them and names those that are missing. Any thread. */
bool node_no_quorum(struct node *node, struct reason *ret_why);
/* Whether the cluster does not exist yet because not all initial members have been heard; then
 * *ret_why names those with their addresses. Any thread. */
bool node_awaits_members(struct node *node, struct reason *ret_why);

/* The rest is for src/node. */
struct node_quorum {
    uint64_t since_ms, short_ms; /* without a leader, and with too few voters; 0: not so */
    struct {
        uint64_t id, ms;
    } heard[RLOG_MEMBERS_MAX]; /* while there is no leader */

    /* Under the node's lock. */
    uint64_t reached[RLOG_MEMBERS_MAX]; /* raft ids */
    unsigned n_reached;
    struct reason why;    /* no quorum */
    struct reason awaits; /* "": no initial member is awaited */
};

/* Raft thread. A frame came while there is no leader; members or a tick; initial members. */
void node_quorum_heard(struct node *n, uint64_t from);
void node_quorum_look(struct node *n, const struct rlog_status *raft);
void node_quorum_await(struct node *n);
bool node_quorum_reaches(const struct node *n, uint64_t id); /* the lock is held */

#endif
