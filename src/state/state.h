/* The replicated state as handlers see it: snapshot reads, staged writes, one commit.
 *
 * A handler is an ordinary function over a `state_txn` pinned to one version. The handler reads
 * keys and scans prefixes, sees its own writes, stages puts and deletes, and returns. Everything
 * that it read becomes a precondition of the commit, so every reply is serializable (PROTOCOL R1).
 *
 * A key is always given whole, with its segment. STATE_SHARED keys are replicated to DR
 * secondaries; STATE_LOCAL keys belong to this cluster. Handlers see plaintext values; a commit
 * encrypts each value for its key.
 *
 * Threads: a `state` and everything made from it belong to one worker, the thread of its env. Only
 * env_post reaches the raft thread. Worker and raft thread may be the same thread.
 *
 *   read request     state_read_begin -> done -> state_begin(read) -> handler -> reply
 *   write request    state_begin(NULL) -> handler -> state_commit if it staged anything, else
 *                    state_confirm -> reply; after ST_CONFLICT again from state_begin
 *
 * 1. Nothing that a transaction read or staged is sent to a client before done(ST_OK).
 * 2. state_put copies; the result of a read lies in the request's arena.
 * 3. After a failure to record a read, the transaction can no longer commit. */
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

/* Create the state of a worker. `log`, `barrier` and `env` are borrowed and outlive the state.
 * ST_NOMEM. */
NODISCARD enum status state_new(struct env *env, struct state_log *log, struct barrier *barrier,
                                struct state **ret_state);
/* Prepare for the close of the replica. From now on, no renewal of a key ring begins, and a renewal
 * under way does not touch the replica when it ends. No read, commit or confirmation may be under
 * way. */
void state_close(struct state *state);
/* Free a state; NULL is allowed. No read, commit or confirmation may be under way. While a renewal
 * of a key ring is under way, the memory stays until the renewal ends: until then the env must
 * run. */
void state_free(struct state *state);
bool state_idle(const struct state *state); /* whether no renewal of a key ring is under way */
struct barrier_cipher *state_cipher(struct state *state);
struct env *state_env(struct state *state);
/* Renew the key rings where due, on an active node without commits. A commit does the same. */
void state_upkeep(struct state *state);

/* The caller owns the memory and keeps it until `done`. `done` is called once, on the worker, never
 * from inside state_read_begin. */
struct state_read {
    /* ST_OK: the version that state_begin pins now has every write that was acknowledged before
     * state_read_begin. Else ST_NO_LEADER, ST_TIMEOUT, ST_CLOSED. The struct is not touched after
     * `done`. */
    void (*done)(struct state_read *read, enum status st);
    uint64_t deadline_ms; /* monotonic, 0: 10 s */
    int64_t time_ms;      /* after ST_OK: cluster time */
    bool confirmed;       /* after ST_OK */

    struct rlog_read rlog; /* private from here on */
    struct state *state;
    enum status status;
    struct env_task task;
};
void state_read_begin(struct state *state, struct state_read *read);

/* The caller owns the memory and keeps it until `done`. `done` is called once, on the worker, never
 * from inside state_commit. */
struct state_commit {
    /* ST_OK: the commit was applied; `version` is the version of the state after the commit.
     * `repeated` means that an earlier try of the same request id was applied instead: `response`
     * is the reply of that try, and the reply of this try is void. has_response is false if the
     * reply was too long to keep.
     *
     * ST_CONFLICT: run the handler again on a new transaction; keep `ticket` for its commit.
     * ST_UNKNOWN_OUTCOME: the commit may have been applied, or may be applied later. ST_NOT_LEADER,
     * ST_BUSY, ST_NO_SPACE, ST_STATE_FULL, ST_TOO_BIG, ST_CLOSED: nothing changed.
     *
     * After `done`, only state_commit_done touches the struct. */
    void (*done)(struct state_commit *commit, enum status st);
    struct rlog_request_id id;   /* all zero: none */
    struct bytes answer;         /* with an id: the reply to keep for repeated requests */
    uint64_t ticket;             /* 0, or the ticket of an earlier conflict; PROTOCOL R5 */
    uint64_t version;            /* result */
    bool repeated, has_response; /* result */
    struct bytes response;       /* result, plaintext; lives until state_commit_done */

    struct state *state; /* private from here on */
    struct rlog_propose rlog;
    struct env_task task;
    struct buf encoded, sealed;
    enum status status;
};

/* Encode, encrypt and propose the staged writes of `txn`. The transaction may end right after the
 * call. ST_OK: `done` follows. Any other status: `done` is not called: ST_SEALED, ST_TOO_BIG (more
 * than RLOG_TXN_MAX), ST_NOMEM, ST_CRYPTO, ST_BUSY, or the failure of a read of the transaction. */
NODISCARD enum status state_commit(struct state_txn *txn, struct state_commit *commit);
/* Wipe and free the memory of a commit, and return its ticket if it has one. The commit may then be
 * used again. */
void state_commit_done(struct state_commit *commit);

/* Find out whether the reply of a transaction that staged nothing may be sent (PROTOCOL R2). `done`
 * gets ST_OK if everything that the transaction read was still true at some moment after
 * state_confirm began; a majority confirmed that moment. ST_CONFLICT: run the handler again after a
 * state_read_begin. ST_NO_LEADER, ST_TIMEOUT, ST_NOMEM, ST_CLOSED. The transaction must not end
 * before `done`. */
struct state_confirm {
    void (*done)(struct state_confirm *confirm, enum status st);
    struct state_txn *txn; /* private from here on */
    struct state_read read;
    struct env_task task;
    enum status status;
};
void state_confirm(struct state_txn *txn, struct state_confirm *confirm);

#endif
