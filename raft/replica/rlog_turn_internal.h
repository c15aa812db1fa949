/* Enter, leave, send and fail in a replica. Part of rlog_internal.h. */
#ifndef HOLDFAST_RAFT_REPLICA_RLOG_TURN_INTERNAL_H
#define HOLDFAST_RAFT_REPLICA_RLOG_TURN_INTERNAL_H

#include "raft/replica/rlog_wire.h"

struct rlog;

/* `pump` starts what can start and then, if `fire`, fires completions and events. */
void rlog_turn_init(struct rlog *r, void (*pump)(struct rlog *r, bool fire));
void rlog_enter(struct rlog *r);
/* ends a turn in a callback of the loop: completions may fire */
void rlog_leave(struct rlog *r);
/* ends a turn in a call of the user: completions fire from the loop */
void rlog_leave_start(struct rlog *r);
void rlog_leave_soon(
    struct rlog *r);            /* rlog_leave_start for one of many calls: all start at once */
void rlog_wake(struct rlog *r); /* asks the loop for a turn soon */
/* Stop for good, once: nothing is acknowledged, sent or started any more, and the user gets the
 * reason. */
void rlog_fail(struct rlog *r, enum status why, const struct reason *reason);
/* Without memory the frame is dropped, as a network may drop it. */
void rlog_send_frame(struct rlog *r, uint64_t to, const struct rlog_frame *frame, bool bulk);

#endif
