/* Shared by the files of the pipeline. Inside src/router. */
#ifndef HOLDFAST_ROUTER_PIPE_H
#define HOLDFAST_ROUTER_PIPE_H

#include "router/parsed.h"
#include "router/quota.h"
#include "router/stages.h"
#include "router/worker.h"

/* A call on its way.
 *
 *   CHOOSING ──┬─▶ FORWARDING ───────────────────────────────────────┐
 *     ▲▲       └─▶ READING ─▶ RUNNING ◀──▶ PARSING (long bodies)      │
 *     │└── COLLECTING ◀──────────┤ (unread bodies)                     │
 *   WAITING           ▲          │                                    │
 *      ▲              │   RECORDING_REQUEST                           │
 *      │ not the      │ conflict │                                    │
 *      │ leader       └──────────┤                                    │
 *      └──────────────── COMMITTING, CONFIRMING                       │
 *                                ▼                                    │
 *                       RECEIVING (uploads)                           │
 *                                ▼                                    │
 *                             OUTSIDE                                 │
 *                                ▼                                    ▼
 *                        RECORDING_ANSWER ────────────────────────▶ DONE
 *
 * Phases in which nothing has to be waited for are passed through at once. */
enum pipe_phase {
    PIPE_CHOOSING,
    PIPE_WAITING,
    PIPE_FORWARDING,
    PIPE_COLLECTING,
    PIPE_PARSING,
    PIPE_READING,
    PIPE_RUNNING,
    PIPE_RECORDING_REQUEST,
    PIPE_COMMITTING,
    PIPE_CONFIRMING,
    PIPE_RECEIVING,
    PIPE_OUTSIDE,
    PIPE_RECORDING_ANSWER,
    PIPE_DONE,
};

enum {
    PIPE_RERUNS_MAX = 100,
    PIPE_WAIT_MS = 25,         /* between looks for an active node */
    PIPE_PATIENCE_MS = 10000,  /* how long one is looked for */
    PIPE_TRY_MS = 3000,        /* for one try that may be followed by another */
    PIPE_ONLY_TRY_MS = 60000,  /* for one that may not */
    PIPE_LONG_TRY_MS = 600000, /* for one of a route that takes long: until it makes progress */
};

/* State that most calls do not need, made at its first use. */
struct pipe_more {
    struct pipe *pipe;
    struct state_commit commit;
    struct buf stored; /* the answer as kept with the id */
    struct state_confirm confirm;
    struct audit_op audit;
    struct router_receive receive;
    struct router_collect collect;
};

struct pipe {
    struct req req;
    struct router_worker *worker;
    struct router_call *call;
    struct list link; /* of the worker's */
    enum pipe_phase phase;
    enum status result; /* of the phase that ended */
    enum status front;  /* result of the stages before the handler */
    uint64_t deadline_ms, begun_ms, begun_ns;
    unsigned reruns;
    bool plain;     /* needs no state */
    bool free;      /* no token is asked for */
    bool judging;   /* the stages that run decide whether the body is read */
    bool judged;    /* allowed by those stages */
    bool elsewhere; /* the active node is another one */
    bool recorded;  /* the request record was accepted */
    bool changed;   /* writes were committed */
    bool unknown;   /* a try may have taken effect */
    bool stages;    /* a read by its method that staged something all the same */
    bool throttled; /* counted by the throttle of requests without a token */
    bool overtaken; /* staged nothing, and what it had read changed: it runs again as a read */
    bool local;     /* ROUTE_LOCAL, and no node can be active */
    struct node_brief node;
    struct rlog_request_id id;
    struct router_answer answer;
    struct quota_verdict quota;
    struct state_txn txn;
    struct state_mark mark;
    struct state_read read;
    struct pipe_more *more; /* NULL: nothing of it was needed yet */
    struct env_work work;   /* of PARSING or OUTSIDE */
    struct parsed *parsed;  /* where the values of a large body are; NULL: in the arena */
    struct bytes content_type;
    struct env_timer timer;
    struct router_forward *forward; /* NULL: it was not sent on */
};

/* p->more is there. ST_NOMEM. */
NODISCARD enum status pipe_need_more(struct pipe *p);
/* Records the result of a phase that had to be waited for, in p->result, and goes on. */
void pipe_step(struct pipe *p);
/* Run it here with the state. */
void pipe_begin(struct pipe *p);
/* Run the stages that say whether the sender may send the body, then pipe_take_body. */
void pipe_judge(struct pipe *p);

/* pipe_choose.c */

/* Decide where the call runs, and begin. */
void pipe_choose(struct pipe *p);

/* pipe_collect.c: bodies that were not read yet. */

/* The call has a body that must be read, or sent on, before the call can run. */
bool pipe_is_unread(const struct pipe *p);
/* The sender may send the body: read it here, or let it stream to the active node. */
void pipe_take_body(struct pipe *p);
void pipe_collected(struct pipe *p);
/* The reply when a body does not arrive. */
void pipe_fail_body(struct pipe *p, enum status st);

/* pipe_outside.c */

/* The transaction is over: what the route does outside of it, then the answer. */
void pipe_go_outside(struct pipe *p);
/* The route's step outside itself, and what comes of it. */
void pipe_start_outside(struct pipe *p);
void pipe_outside_done(struct pipe *p);
/* The body of an upload has arrived, or has broken off. */
void pipe_received(struct pipe *p);

/* pipe_forward.c */

/* No node can take the call now: look again later, or give up with `st`. */
void pipe_wait(struct pipe *p, enum status st);
/* A handler's message counts only with its reply. */
void pipe_forget_reason(struct pipe *p);
/* To the node that forwarded the call: it knows the client and looks for the leader. */
void pipe_hand_back(struct pipe *p, enum status st);
/* To the active node. */
void pipe_forward(struct pipe *p);
void pipe_forwarded(struct pipe *p);

/* pipe_answer.c */

/* End the transaction, if one is open, and what hangs on it. */
void pipe_end_txn(struct pipe *p);
/* Record p->answer where needed and send it: last touch. */
void pipe_finish(struct pipe *p);
/* The same with an error made of `st` and the request's reason. */
void pipe_fail(struct pipe *p, enum status st);
/* false: no record was made, p->result says why; else PIPE_RECORDING_… ends with pipe_step. */
bool pipe_record(struct pipe *p, enum audit_kind kind, const char *error);
void pipe_answer_recorded(struct pipe *p);

/* Whether the call may change something in this phase, or has before. What a read that was sent on
 * may change is its token's count of uses, which is of no use to know. */
static inline bool pipe_unsettled(const struct pipe *p, enum pipe_phase phase)
{
    bool sent = (p->unknown || phase == PIPE_FORWARDING) && !stage_reads(&p->req);
    return sent || p->changed || phase == PIPE_COMMITTING || phase == PIPE_OUTSIDE;
}

static inline void pipe_move(struct pipe *p, enum pipe_phase phase)
{
    bool unsettled = pipe_unsettled(p, phase);
    ASSERT(p->phase != PIPE_DONE);
    ASSERT(!p->call->given_up || p->call->unsettled || !unsettled); /* as router_give_up said */
    p->phase = phase;
    p->call->unsettled = unsettled;
}

static inline bool pipe_id_given(const struct rlog_request_id *id)
{
    static const uint8_t none[sizeof id->bytes];
    return memcmp(id->bytes, none, sizeof none) != 0;
}

static inline bool pipe_has_flag(const struct pipe *p, unsigned flag)
{
    return p->req.route != NULL && (p->req.route->flags & flag) != 0;
}

/* Answered by what this node knows: no read is confirmed for it. */
static inline bool pipe_is_local(const struct pipe *p)
{
    return p->local || pipe_has_flag(p, ROUTE_NODE);
}

#endif
