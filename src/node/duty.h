/* Duties: transactions that the active node makes by itself, one at a time. A part of the node
 * (cluster/membership/part.h).
 *
 *   STOPPED ──active in a new term──▶ WAITING ──timer──▶ running each duty in turn
 *      ▲                                 ▲                  │ staged: COMMITTING, then the next
 *      └──no longer active, or stopping──┴──none was due────┘
 *
 * A turn of the raft thread runs duties for DUTY_TURN_MS at most; the next turn goes on with the
 * duty after the last one. After a commit the duties rest; pace.h says for how long, and how many
 * steps a turn may take. A duty bounds its own run: it stages a little of what is due. A duty whose
 * commit met a conflict runs again next, with the ticket of that commit (PROTOCOL R5), so writes of
 * clients cannot keep it from its work.
 *
 * On a DR secondary only duties run that change local keys: its replicated keys are the primary's.
 * A transaction proposed in a term that has ended is applied like any other write: only if its
 * preconditions still hold. */
#ifndef HOLDFAST_NODE_DUTY_H
#define HOLDFAST_NODE_DUTY_H

#include "base/plant.h"
#include "cluster/membership/part.h"
#include "node/pace.h"
#include "state/state.h"

/* A duty of a module: begun when this node becomes active in a term, ended when the node no longer
 * is. */
struct node_duty {
    const char *name; /* name of the duty in the log */
    /* Stage what is due now, a little of it: `run` is called on the raft thread, and again soon
     * after it staged anything. Its transaction is checked like that of a request. */
    enum status (*run)(struct state_txn *txn, int64_t now_ms);
    /* Used instead of `run`, which is then NULL: it also gets `with`, and how many things it may
     * end: 1 to PACE_STEPS_MAX. */
    enum status (*run_with)(const void *with, struct state_txn *txn, int64_t now_ms,
                            unsigned steps);
    /* Whether the last run met work that an operator asked for. NULL: never. */
    bool (*asked)(const void *with);
    /* The last run of the duty is committed. NULL: the duty need not know. */
    void (*committed)(const void *with);
    const void *with;
    bool secondary; /* runs on a DR secondary too: it changes local keys only while the cluster is
                       one */
};

enum {
    DUTY_EVERY_MS = 500, /* time between two looks for something to do */
    DUTY_TURN_MS = 5,    /* time that the duties may take in one turn of the raft thread */
    DUTY_RERUNS_MAX = 8, /* most runs of a duty after conflicts, before the next duty runs */
    DUTY_FIRST_MAX = 3,  /* duties of the node itself */
};

struct duties {
    struct part_host *host;
    struct node_duty first[DUTY_FIRST_MAX]; /* duties of the node itself, which run first */
    size_t n_first;
    const struct node_duty *rows;
    size_t n;
    struct state_log log;
    struct state *state; /* NULL before the first active term */
    struct state_commit commit;
    struct env_timer timer;
    const struct node_duty *running; /* duty of the last commit */
    struct pace pace;
    uint64_t own;      /* transactions of duties that were committed */
    uint64_t began_ms; /* when the last run of a duty began */
    uint64_t term;     /* term in which the node is active; 0: not active */
    size_t next, ran;  /* indexes of the duty to run next, and of the duty that ran last */
    unsigned reruns;   /* conflicts in a row of the duty to run next */
    /* a commit is under way; a duty has staged something in this round of all duties */
    bool committing, due;
};

/* Whether a duty runs on this cluster. `secondary`: it writes no replicated key of its own. */
static inline bool duty_may_run(const struct node_duty *duty, bool secondary)
{
    return duty->secondary || !secondary || planted(PLANT_DR_DUTY_RUNS);
}

extern const struct part duty_part;

#endif
