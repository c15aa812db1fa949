/* Shared by the files of the pipeline. Inside src/router. pipeline.c draws the phases. */
#ifndef HOLDFAST_ROUTER_PIPELINE_PIPE_H
#define HOLDFAST_ROUTER_PIPELINE_PIPE_H

#include "audit/facts.h"
#include "router/pipeline/stages.h"
#include "router/pipeline/worker.h"
#include "router/quota.h"
#include "router/request/dialect.h"
#include "router/request/parsed.h"
#include "router/request/req_wait.h"

enum pipe_phase {
    PIPE_ARRIVED,
    PIPE_CHOOSING,          /* decide where the request runs */
    PIPE_WAITING,           /* wait for an active node, or for room for the reply */
    PIPE_STATELESS,         /* run a handler that needs no state */
    PIPE_STATELESS_OUTSIDE, /* run `outside` of a route that needs no state */
    PIPE_FORWARDING,        /* forward the request to the active node */
    PIPE_PRECHECKING,       /* find out whether the sender may send a body that was not read */
    PIPE_PRECHECK_READING,  /* confirm the state before the precheck refuses */
    PIPE_COLLECTING,        /* read the body into memory */
    PIPE_READING,           /* confirm the version of the state before a read */
    PIPE_ADMITTING,         /* begin a transaction; find route and token; authorise by path */
    PIPE_PARSING,           /* parse the body, once; a long body on the pool */
    PIPE_AUTHORISING,       /* authorise by parameters; decode */
    PIPE_PREPARING,         /* the route's `prepare`, once */
    PIPE_HANDLING,          /* the route's handler */
    PIPE_PARKING,           /* give everything back and wait for a newer result */
    PIPE_RECORDING_REQUEST, /* audit record of the request, once, before a phase with effects */
    PIPE_COMMITTING,        /* commit what the handler staged */
    PIPE_CONFIRMING,        /* confirm what the handler read, if nothing was staged */
    PIPE_RECEIVING,         /* write the body of an upload into a file */
    PIPE_OUTSIDE,           /* the route's `outside`, once */
    PIPE_FINISHING,         /* the route's `finish`, in a second transaction */
    PIPE_FINISH_WAITING,    /* pause, because this node was busy, before `finish` runs again */
    PIPE_FINISH_COMMITTING,
    PIPE_FINISH_CONFIRMING,
    PIPE_HOLDING,         /* wait until a DR secondary has the writes, in sync mode */
    PIPE_RECORDING_REPLY, /* audit record of the reply; of the request too, unless it is recorded */
    PIPE_DONE,            /* send the reply */
    PIPE_PHASES,
    PIPE_PENDING = PIPE_PHASES, /* no next phase yet: the phase waits, and pipe_step continues it */
};

enum {
    PIPE_RERUNS_MAX = 100,
    PIPE_AWAIT_MS = 2000,      /* how long a request runs again for req_await */
    PIPE_WAIT_MS = 25,         /* pause before the next search for an active node */
    PIPE_PATIENCE_MS = 10000,  /* longest search for an active node; longest wait of `finish` */
    PIPE_TRY_MS = 3000,        /* time limit of a try that may be repeated */
    PIPE_ONLY_TRY_MS = 60000,  /* time limit of a try that may not be repeated */
    PIPE_LONG_TRY_MS = 600000, /* time limit of a try of a ROUTE_LONG, until it makes progress */
};

/* Where the request runs. */
enum pipe_place {
    PIPE_NOWHERE, /* refuse: the node is sealed or has no state yet */
    PIPE_NO_STATE,
    PIPE_HERE,
    PIPE_HERE_ALONE, /* run a PLACE_ACTIVE_OR_LOCAL here while no node can be active: nothing is
                        confirmed */
    PIPE_ACTIVE_NODE,
};

/* How the transaction runs. */
enum pipe_mode {
    /* A method that reads: on a confirmed version, and its reads are not recorded. A method that
     * writes: on the version of this node, with its reads recorded. */
    PIPE_BY_METHOD,
    PIPE_CONFIRMED, /* staged nothing, but what it read has changed: run again as a read */
    PIPE_RECORDED,  /* staged a write: reads are recorded, whatever the method */
};

/* Whether the request has changed something. */
enum pipe_effect {
    PIPE_UNCHANGED,
    PIPE_UNKNOWN, /* a try may have taken effect */
    PIPE_CHANGED, /* writes were committed, or the step outside was done */
};

/* Steps that are done once, even if the transaction runs several times. */
enum pipe_once {
    PIPE_ONCE_THROTTLED = 1 << 0, /* counted by the throttle of anonymous requests */
    PIPE_ONCE_RECORDED = 1 << 1,  /* the request record was accepted */
    PIPE_ONCE_PREPARED = 1 << 2,  /* the route's `prepare` succeeded */
    PIPE_ONCE_BEGUN = 1 << 3,     /* a transaction was begun */
    PIPE_ONCE_DEVICES = 1 << 4,   /* the audit devices of the request were looked up */
    PIPE_ONCE_HANDLED = 1 << 5,   /* the handler ran: an error is not a refusal of the request */
    PIPE_ONCE_MUTE = 1 << 6, /* no device of this node took a record: the active node records */
    PIPE_ONCE_HELD = 1 << 7, /* the reply waited for a DR secondary, or need not */
};

/* State that most requests do not need, made at its first use. */
struct pipe_more {
    struct pipe *pipe;
    struct state_commit commit;
    struct buf stored; /* the reply that is stored with the request's id */
    struct state_confirm confirm;
    struct audit_op audit;
    struct audit_record *facts;  /* part of both audit records of the request; NULL: not written */
    bool stale;                  /* `facts` are those of an earlier run of the transaction */
    struct field_strings exempt; /* with `facts`: the keys of replies that the mount exempts */
    const struct reply_answer *answer; /* this node's reply, for the active node; NULL: none */
    struct router_receive receive;
    struct router_collect collect;
};

/* A transaction, made when a request begins its first one: many requests about the node need none.
 */
struct pipe_run {
    struct pipe *pipe;
    struct state_txn txn;   /* open while req.txn is set */
    struct state_mark mark; /* mark in `txn` */
    struct state_read read;
};

/* A request in the pipeline. */
struct pipe {
    struct req req;
    struct router_worker *worker;
    struct router_request *request;
    struct list link; /* link in the worker's list */
    enum pipe_phase phase;
    enum pipe_place place;
    enum pipe_mode mode;
    enum pipe_effect effect;
    unsigned once;           /* bits of enum pipe_once */
    enum status result;      /* result of the operation for which the phase waited */
    enum status verdict;     /* status before the handler; later, of `finish` */
    enum status prepared;    /* status of the route's `prepare`, if `prepare` ran */
    const char *prepare_why; /* text of the error of `prepare`; NULL: none */
    unsigned reruns;
    uint64_t deadline_ms, begun_ms, begun_ns;
    uint64_t finish_until_ms; /* end of the patience with a busy node in `finish` */
    uint64_t committed; /* version of the state after what this node committed; 0: nothing */
    struct node_brief node;
    struct rlog_request_id id;
    struct router_reply reply;
    struct quota_verdict quota;
    struct pipe_run *run;   /* NULL: no transaction was begun yet */
    struct pipe_more *more; /* NULL: no member of it was needed yet */
    struct parsed *parsed;  /* values of a large body; NULL: they lie in the arena */
    struct bytes content_type;
    struct router_forward *forward; /* NULL: the request was not forwarded */
    struct audit_set *devices;      /* audit devices of the request; NULL: it is not recorded */
    enum pipe_phase after_record;   /* the phase that waits for the record of the request */
    enum status failure;            /* why `reply` is an error; ST_OK: a handler made it */
    bool unrecorded; /* no record of the reply: another node writes it, or none is wanted */
    bool no_room;    /* waits until replies are read, before it runs again */
    bool repeated;   /* `reply` is the stored reply of an earlier try */

    /* A phase that waits uses one member: a request waits for one operation at a time. */
    union {
        struct env_work work; /* work on the thread pool in PARSING, PREPARING and OUTSIDE */
        struct req_wait wait; /* in OUTSIDE, before that work */
        struct env_timer timer;
        struct dr_hold hold;
    };
};

/* pipeline.c */

/* Run phases from `next` on, until one waits or the reply is sent: then `p` may be gone. */
void pipe_go(struct pipe *p, enum pipe_phase next);
/* Continue a phase that waited; p->result holds the result. Like pipe_go, may free `p`. */
void pipe_step(struct pipe *p);
/* Allocate p->more unless it exists. ST_NOMEM. */
NODISCARD enum status pipe_need_more(struct pipe *p);
/* Allocate p->run unless it exists. ST_NOMEM. */
NODISCARD enum status pipe_need_run(struct pipe *p);

/* Decisions. Each returns the next phase, which the calling phase returns. */

/* Run the transaction, for the first time or again. */
enum pipe_phase pipe_begin(struct pipe *p);
/* The sender may send the body, which was not read yet: read the body here, or stream it to the
 * active node. */
enum pipe_phase pipe_take_body(struct pipe *p);
/* The phases before the handler are over: go on with `prepare` or the handler, here or on the
 * active node. */
enum pipe_phase pipe_go_run(struct pipe *p);
enum pipe_phase pipe_go_prepare(struct pipe *p);
/* Commit the staged writes, here or on the active node. */
enum pipe_phase pipe_go_commit(struct pipe *p);
/* Run the step outside of a route that needs no state. */
enum pipe_phase pipe_go_stateless(struct pipe *p);
/* The transaction is over: go on with the route's `outside`, or with the reply. */
enum pipe_phase pipe_go_outside(struct pipe *p);
/* `outside` is done: run the route's `finish`. */
enum pipe_phase pipe_go_finish(struct pipe *p);
/* Let the active node run the request. */
enum pipe_phase pipe_forward(struct pipe *p);
/* No node can take the request now: look again later, or give up with `st`. */
enum pipe_phase pipe_wait(struct pipe *p, enum status st);
/* Whether to run the request again because its handler asked for that (req_await). */
bool pipe_awaits(const struct pipe *p);
/* Forget this run, and run the request again in a moment. */
enum pipe_phase pipe_again(struct pipe *p);
/* Give the request back to the node that forwarded it, which looks for the leader again. */
enum pipe_phase pipe_hand_back(struct pipe *p, enum status st);
/* Record p->reply if a record is needed, and send it. */
enum pipe_phase pipe_end(struct pipe *p);
/* End the request as pipe_end does, with an error made of `st` and the request's reason. */
enum pipe_phase pipe_fail(struct pipe *p, enum status st);

/* pipe_body.c */
/* The request has a body that must be read, or sent on, before the request can run. */
bool pipe_is_unread(const struct pipe *p);
/* Parse the body, or the query of a read, into req.data; p->content_type is known. */
NODISCARD enum status pipe_parse_into(struct pipe *p, struct arena *arena);

/* pipe_admit.c */

/* Whether a request must run again: it staged a write, but a confirmed read records no reads. */
bool pipe_must_record(struct pipe *p);
/* Whether the log must settle which try of the request's id took effect (PROTOCOL R14). */
bool pipe_must_settle_id(const struct pipe *p);

/* pipe_handle.c */

/* Begin the commit of the transaction, or its confirmation; pipe_step follows after ST_OK. Also the
 * statuses of state_commit, and ST_NOMEM. */
NODISCARD enum status pipe_commit_begin(struct pipe *p, const struct rlog_request_id *id);
NODISCARD enum status pipe_confirm_begin(struct pipe *p);
/* Another request changed the data first: end the transaction. False: this happened too often, and
 * the request's error says so. */
NODISCARD bool pipe_may_rerun(struct pipe *p);
/* Whether a status is a failure of this node: no confirmation is needed then. */
bool pipe_is_breakdown(enum status st);
/* Drop the handler's error text, which belongs to a reply that is not sent. */
void pipe_forget_reason(struct pipe *p);

/* pipe_reply.c */

/* Whether an earlier try may have taken effect, and the log has not decided which try counts. */
bool pipe_is_open(const struct pipe *p);
/* End the transaction, if one is open, and run its cleanups. */
void pipe_end_txn(struct pipe *p);

static inline bool pipe_id_given(const struct rlog_request_id *id)
{
    static const uint8_t none[sizeof id->bytes];
    return memcmp(id->bytes, none, sizeof none) != 0;
}

#endif
