/* Cluster time in a replica (R16). Part of rlog_internal.h. */
#ifndef HOLDFAST_RAFT_REPLICA_RLOG_TIME_INTERNAL_H
#define HOLDFAST_RAFT_REPLICA_RLOG_TIME_INTERNAL_H

#include "raft/core/rlog_members.h"

struct rlog;

struct rlog_wall {
    uint64_t id, at_ms;
    int64_t wall_ms;
};

struct rlog_clock {
    int64_t base_ms,
        advertised_ms; /* cluster time at `base_mono`; the highest that this node gave out */
    uint64_t base_mono;
    bool known;        /* the time is known, not merely the time of the last entry */
    int64_t step_ms;   /* by how much the time of the next entry jumps ahead; 0: no jump */
    uint64_t stepping; /* index of the entry that carried it, until that is applied; 0: none */
    uint64_t begin_ms; /* monotonic: since then a new cluster's leader waits for clocks; 0 not */
    struct rlog_wall walls[RLOG_MEMBERS_MAX];
};

int64_t
rlog_clock_own(struct rlog *r); /* wall clock of this node, clipped to a time that others accept */
void rlog_clock_start(struct rlog *r);
void rlog_clock_heard(struct rlog *r, int64_t time_ms); /* the leader sent its time */
/* a voter sent its wall clock */
void rlog_clock_wall(struct rlog *r, uint64_t id, int64_t wall_ms);
/* this node has won an election */
void rlog_clock_lead(struct rlog *r);
void rlog_clock_advance(struct rlog *r);
/* The time of the next entry, which is recorded as submitted. */
int64_t rlog_clock_entry_ms(struct rlog *r);
void rlog_clock_submitted(struct rlog *r, uint64_t index);
bool rlog_clock_began(const struct rlog *r); /* whether this node knows a cluster time */
/* whether this node is a leader that may write and confirm reads */
bool rlog_ready(const struct rlog *r);

#endif
