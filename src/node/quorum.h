/* The quorum as a node sees it without a leader: the members it reaches, and the members it waits
 * for. A part (cluster/membership/part.h). */
#ifndef HOLDFAST_NODE_QUORUM_H
#define HOLDFAST_NODE_QUORUM_H

#include "cluster/membership/bootstrap/bootstrap.h"
#include "node/board.h"

struct quorum {
    struct part_host *host;
    struct board *board;
    const struct bootstrap *bootstrap;
    uint64_t since_ms, short_ms; /* monotonic: since when no leader, too few voters; 0: not so */
    struct {
        uint64_t id, ms;
    } heard[RLOG_MEMBERS_MAX]; /* last frame of each member; kept while there is no leader */
    struct reason reported; /* text of "no quorum" that was logged last; "": there was a quorum */

    /* The members below are guarded by the board's lock. */
    uint64_t reached[RLOG_MEMBERS_MAX]; /* raft ids of the voters that this node reaches */
    unsigned n_reached;
    struct reason why;    /* the text of "no quorum" */
    struct reason awaits; /* names the awaited initial members; "": none */
};

extern const struct part quorum_part;

/* A frame came from a member. Raft thread. */
void quorum_heard(struct quorum *q, uint64_t from);
/* Publish the names of the awaited initial members, or "". Raft thread. */
void quorum_await(struct quorum *q);
/* Whether this node reaches a member. The caller holds the board's lock. */
bool quorum_reaches(const struct quorum *q, uint64_t id);
/* The functions node_ops.no_quorum and node_awaits_members. Any thread. */
bool quorum_lost(struct quorum *q, struct reason *ret_why);
bool quorum_awaits(struct quorum *q, struct reason *ret_why);

#endif
