/* The phases of a request, for the table of pipeline.c. Inside src/router.
 *
 * Each function does the work of its phase and returns the next phase. PIPE_PENDING: the phase
 * waits for an operation, and pipe_step is called when the operation ends. A function whose name
 * ends in `_done` continues the phase after the wait. All functions run on the worker's thread. */
#ifndef HOLDFAST_ROUTER_PIPELINE_PIPE_PHASES_H
#define HOLDFAST_ROUTER_PIPELINE_PIPE_PHASES_H

#include "base/plant.h"
#include "router/pipeline/pipe_row.h"

/* Whether this node commits the writes of the request. */
static inline bool pipe_commits_here(const struct pipe *p)
{
    return p->node.active || pipe_has_place(p, PLACE_LEADER);
}

/* Whether the request runs on a version that was confirmed for it. */
static inline bool pipe_is_confirmed(const struct pipe *p)
{
    return p->run != NULL && p->run->read.confirmed;
}

/* A planted bug: a request without a token, such as unwrap, takes effect on a standby, and what the
 * request staged is dropped. */
static inline bool pipe_keeps_unwrap(const struct req *req)
{
    const struct route *route = req->route;
    return planted(PLANT_UNWRAP_ON_STANDBY) && route != NULL &&
           (route_is_open(route) || route->who == WHO_WRAPPING);
}

/* pipe_choose.c */
enum pipe_phase pipe_choose(struct pipe *p);
enum pipe_phase pipe_stateless(struct pipe *p);
enum pipe_phase pipe_stateless_done(struct pipe *p);

/* pipe_forward.c */
enum pipe_phase pipe_wait_begin(struct pipe *p);
enum pipe_phase pipe_wait_done(struct pipe *p);
enum pipe_phase pipe_send(struct pipe *p);
enum pipe_phase pipe_send_done(struct pipe *p);

/* pipe_body.c */
enum pipe_phase pipe_collect(struct pipe *p);
enum pipe_phase pipe_collect_done(struct pipe *p);
enum pipe_phase pipe_parse(struct pipe *p);
enum pipe_phase pipe_parse_done(struct pipe *p);
enum pipe_phase pipe_receive(struct pipe *p);
enum pipe_phase pipe_receive_done(struct pipe *p);

/* pipe_admit.c */
enum pipe_phase pipe_read(struct pipe *p);
enum pipe_phase pipe_read_done(struct pipe *p);
enum pipe_phase pipe_precheck(struct pipe *p);
enum pipe_phase pipe_admit(struct pipe *p);
enum pipe_phase pipe_authorise(struct pipe *p);

/* pipe_handle.c */
NODISCARD enum status pipe_roll_back(struct pipe *p);
enum pipe_phase pipe_handle(struct pipe *p);
enum pipe_phase pipe_commit(struct pipe *p);
enum pipe_phase pipe_commit_done(struct pipe *p);
enum pipe_phase pipe_confirm(struct pipe *p);
enum pipe_phase pipe_confirm_done(struct pipe *p);

/* pipe_park.c */
enum pipe_phase pipe_park(struct pipe *p);
/* How long a blocking request may wait; 0: the request does not block. */
uint64_t pipe_block_ms(const struct pipe *p);
/* The request was parked before, and woken; NULL: it is new. */
struct parked *pipe_resumed(const struct pipe *p);
/* Whether a resumed request may run on the version of this node without a confirmation. */
bool pipe_trusts_version(const struct pipe *p);
/* Whether the handler's result, with status `st`, is not newer than the client's: it must wait. */
bool pipe_must_wait(const struct pipe *p, enum status st);
/* The reply of a resumed request is about to leave: it is parked no more. */
void pipe_end_parked(struct pipe *p);

/* pipe_outside.c */

/* Whether the route's step outside must run after a transaction that ended with p->reply. */
bool pipe_outside_is_due(const struct pipe *p);
enum pipe_phase pipe_prepare(struct pipe *p);
enum pipe_phase pipe_prepare_done(struct pipe *p);
enum pipe_phase pipe_outside(struct pipe *p);
enum pipe_phase pipe_outside_done(struct pipe *p);

/* pipe_finish.c */
enum pipe_phase pipe_finish(struct pipe *p);
enum pipe_phase pipe_finish_wait_done(struct pipe *p);
enum pipe_phase pipe_finish_commit(struct pipe *p);
enum pipe_phase pipe_finish_commit_done(struct pipe *p);
enum pipe_phase pipe_finish_confirm(struct pipe *p);
enum pipe_phase pipe_finish_confirm_done(struct pipe *p);

/* pipe_reply.c */

/* Release everything but the reply and the arena. The worker no longer knows the request. */
void pipe_release(struct pipe *p);
/* Name the token that the reply is counted for. */
void pipe_set_payer(struct pipe *p);
/* Count p->reply in the budget of replies that wait for a reader, if it is long. */
void pipe_hold_reply(struct pipe *p);
/* Whether that budget has room for the reply of a read. Other values: see reply_room.find. */
enum status pipe_find_room(struct pipe *p);
/* There is no room, but `st`: look again later, or give up. */
enum pipe_phase pipe_await_room(struct pipe *p, enum status st);
enum pipe_phase pipe_record_request(struct pipe *p);
enum pipe_phase pipe_record_request_done(struct pipe *p);
enum pipe_phase pipe_record_reply(struct pipe *p);
enum pipe_phase pipe_record_reply_done(struct pipe *p);
enum pipe_phase pipe_respond(struct pipe *p);

/* pipe_hold.c */

/* Whether the reply must wait for a DR secondary (PIPE_HOLDING). */
bool pipe_must_hold(const struct pipe *p);
enum pipe_phase pipe_hold(struct pipe *p);
enum pipe_phase pipe_hold_done(struct pipe *p);

/* pipe_pass.c */

/* Keep the reply that the handler made here, so that pipe_forward sends it along: the reply tells
 * about this node, and another node records and sends it. False: this cannot be done. */
bool pipe_keep_answer(struct pipe *p);
/* Whether the active node can record the request instead of this node: nothing was done yet. */
bool pipe_may_pass(struct pipe *p);
/* Let the active node record the request, and run it unless the reply tells about this node. */
enum pipe_phase pipe_pass(struct pipe *p);
/* This node can record again: it became active. */
void pipe_pass_over(struct pipe *p);
/* The handler of a forwarded request ran on the node that the client asked: take over its reply. */
NODISCARD enum status pipe_take_answer(struct pipe *p);

/* pipe_audit.c */

/* Find the audit devices of the request: with its transaction, if one is open. ST_BUSY with the
 * request's error: the devices cannot be read, so the request must fail. */
NODISCARD enum status pipe_find_devices(struct pipe *p);
/* Whether the request must be recorded before a phase that has effects (PROTOCOL R20). */
bool pipe_owes_record(const struct pipe *p);
/* Whether the reply must be recorded. */
bool pipe_is_recorded(const struct pipe *p);
/* Write down the facts of the request while its transaction still has them. */
void pipe_keep_facts(struct pipe *p);
/* Offer the record of the request, or of the request and the reply. ST_OK: pipe_step follows when
 * the devices have answered. Else as audit_offer. */
NODISCARD enum status pipe_offer_request(struct pipe *p);
NODISCARD enum status pipe_offer_reply(struct pipe *p);
/* Release what pipe_find_devices and pipe_keep_facts hold. */
void pipe_forget_facts(struct pipe *p);

/* Record the request, then go on with `next`: a phase that pipe_go_… of its own decides again. */
enum pipe_phase pipe_record_first(struct pipe *p, enum pipe_phase next);

#endif
