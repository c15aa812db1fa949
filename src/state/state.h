/* The replicated state as handlers see it: snapshot reads, staged writes, one commit.
 *
 * A handler is an ordinary function over a `state_txn` pinned to one version. It reads keys and
 * scans prefixes, sees its own writes, stages puts and deletes, and returns. Everything it read
 * becomes a precondition of the commit, so every answer is serializable (PROTOCOL R1).
 *
 * Keys are whole: they begin with their segment, STATE_SHARED or STATE_LOCAL, which says whether
 * they are replicated to DR secondaries or belong to this cluster alone. Values are plaintext here
 * and encrypted by the barrier, each for its key, on the way down.
 *
 * Threads: a `state` and everything made from it belong to one worker (its env's thread). The raft
 * thread is reached by env_post alone; worker and raft thread may be one and the same.
 *
 *   read request     state_read_begin -> done -> state_begin(read) -> handler -> answer
 *   write request    state_begin(NULL) -> handler -> state_commit if it staged anything, else
 *                    state_confirm -> answer; after ST_CONFLICT again from state_begin
 *
 * 1. Nothing a transaction read or staged is sent to a client before done(ST_OK).
 * 2. A value that was put is copied; what a read returns lies in the request's arena.
 * 3. A failure to record a read is kept: the transaction can no longer commit. */
#ifndef HOLDFAST_STATE_STATE_H
#define HOLDFAST_STATE_STATE_H

#include "barrier/barrier.h"
#include "base/arena.h"
#include "raft/replica/rlog.h"
#include "state/state_txn.h"

struct state;

/* The replica as a worker reaches it. The functions are called on `env`'s thread. */
struct state_log {
    struct env *env;
    struct store *store;
    void (*propose)(struct state_log *log, struct rlog_propose *p);
    void (*read)(struct state_log *log, struct rlog_read *r);
    void (*ticket_drop)(struct state_log *log, uint64_t ticket);
    void *ctx;
};
/* Functions of `rlog`, which lives on `env`. */
struct state_log state_log_of(struct rlog *rlog, struct env *env);

/* One for each worker. All three are borrowed and outlive it. ST_NOMEM. */
NODISCARD enum status state_new(struct env *env, struct state_log *log, struct barrier *barrier,
                                struct state **ret_state);
/* The replica is about to close: no renewal of a key ring begins any more, and one under way leaves
 * the replica alone when it ends. Nothing else that was begun may be under way. */
void state_close(struct state *state);
/* Nothing that was begun on it may be under way. NULL is allowed. Renewal of a key ring, which
 * rides on commits, may be: then the release follows its end, and the env must run until then. */
void state_free(struct state *state);
bool state_idle(const struct state *state); /* whether no such renewal is under way */
struct barrier_cipher *state_cipher(struct state *state);
struct env *state_env(struct state *state);
/* Renew the key rings if it is due: for an active node on which nothing is committed. */
void state_upkeep(struct state *state);

/* Embedded until `done`, which is called once, on the worker, never from inside state_read_begin.
 */
struct state_read {
    /* ST_OK: what state_begin pins now includes every write acknowledged before the call.
     * ST_NO_LEADER, ST_TIMEOUT, ST_CLOSED. Last touch. */
    void (*done)(struct state_read *read, enum status st);
    uint64_t deadline_ms; /* monotonic, 0: 10 s */
    int64_t time_ms;      /* after ST_OK: cluster time */
    bool confirmed;       /* after ST_OK */

    struct rlog_read rlog; /* inside */
    struct state *state;
    enum status status;
    struct env_task task;
};
void state_read_begin(struct state *state, struct state_read *read);

/* Embedded until `done`, which is called once, on the worker, never from inside the start. */
struct state_commit {
    /* ST_OK: applied; `version` is the state's after it. If `repeated`, an earlier try of the same
     *   request id was: `response` is what that one stored (or has_response is false, when it was
     *   too long to keep), and the handler's own answer is void.
     * ST_CONFLICT: run the handler again on a new transaction; keep `ticket` for its commit.
     * ST_UNKNOWN_OUTCOME: it may have been applied or may yet be.
     * ST_NOT_LEADER, ST_BUSY, ST_NO_SPACE, ST_STATE_FULL, ST_TOO_BIG, ST_CLOSED: nothing changed.
     * Last touch, but for state_commit_done. */
    void (*done)(struct state_commit *commit, enum status st);
    struct rlog_request_id id;   /* all zero: none */
    struct bytes answer;         /* with an id: kept (encrypted) for repeated requests */
    uint64_t ticket;             /* 0, or kept from an earlier conflict; PROTOCOL R5 */
    uint64_t version;            /* result */
    bool repeated, has_response; /* result */
    struct bytes response;       /* result, plaintext; lives until state_commit_done */

    struct state *state; /* inside */
    struct rlog_propose rlog;
    struct env_task task;
    struct buf encoded, sealed;
    enum status status;
};

/* Encode, encrypt and propose what `txn` staged. The transaction may be ended at once after.
 * ST_OK: `done` follows. Else it does not: ST_SEALED, ST_TOO_BIG (more than RLOG_TXN_MAX),
 * ST_NOMEM, ST_CRYPTO, ST_BUSY, or what a read of the transaction failed with. */
NODISCARD enum status state_commit(struct state_txn *txn, struct state_commit *commit);
/* Releases (wiped) what a commit holds, and its ticket if it still has one. Reusable after. */
void state_commit_done(struct state_commit *commit);

/* For a transaction that staged nothing: whether its answer may be sent (PROTOCOL R2). Done with
 * ST_OK: everything it read still held at a moment after this call that a majority confirmed.
 * ST_CONFLICT: run the handler again, on state_read_begin's terms. ST_NO_LEADER, ST_TIMEOUT,
 * ST_NOMEM, ST_CLOSED. The transaction must not be ended before `done`. */
struct state_confirm {
    void (*done)(struct state_confirm *confirm, enum status st);
    struct state_txn *txn; /* inside */
    struct state_read read;
    struct env_task task;
    enum status status;
};
void state_confirm(struct state_txn *txn, struct state_confirm *confirm);

#endif
