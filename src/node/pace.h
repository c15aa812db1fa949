/* The pace of duties: how much the next turn may do, and how long the duties rest after it.
 *
 *   QUIET   no client has written for PACE_QUIET_MS: each turn may do twice as much as the turn
 *           before, up to PACE_STEPS_MAX, and the rest is half as long as the turn took
 *   BUSY    each turn does PACE_STEPS_MIN, or as much as clients wrote since the last turn if that
 *           is more; the rest is as long as the turn took, and PACE_BUSY_REST_MS at least
 *   ASKED   the same while an operator waits for the work: PACE_STEPS_ASKED, without a least rest
 *
 * 1. A turn holds up the writes that come during it, so turns beside clients are short and rare.
 * 2. A thing that ends was made by a client's transaction. A turn beside clients may end one thing
 *    for each of their transactions, so things do not become more while they are made one by one.
 * 3. The pace is a function of its arguments: it reads no clock. */
#ifndef HOLDFAST_NODE_PACE_H
#define HOLDFAST_NODE_PACE_H

#include "base/macros.h"

enum {
    PACE_STEPS_MIN = 16,
    PACE_STEPS_ASKED = 64,  /* least steps beside clients while the work was asked for */
    PACE_STEPS_MAX = 100,   /* most steps of one turn */
    PACE_QUIET_MS = 100,    /* time without clients' transactions after which turns grow */
    PACE_BUSY_REST_MS = 20, /* least rest beside clients */
    PACE_REST_MS = 50,      /* longest rest */
    PACE_READS = 8,         /* reads between two looks that count as much as a transaction */
};

/* Work of clients on this node since its start. Both numbers only grow. */
struct pace_clients {
    uint64_t txns, reads; /* transactions; linearizable reads */
};

struct pace {
    struct pace_clients seen; /* at the last look */
    uint64_t busy_ms;         /* when the work of clients had last become more */
    uint64_t credit;          /* clients' transactions for which no step was done yet */
    unsigned grown;           /* steps of the next turn while it is quiet */
    unsigned most;            /* steps that fit into one transaction, as far as it is known */
    bool quiet, looked;
    bool asked; /* an operator asked for work that is left */
    bool idle;  /* since the last look nothing was left to do */
};

/* Begin at the least pace. */
void pace_init(struct pace *pace);
/* Look at the work of clients before a turn. `asked`: an operator asked for work that is left. */
void pace_look(struct pace *pace, const struct pace_clients *clients, bool asked, uint64_t now_ms);
/* Steps of the next turn: from 1 to PACE_STEPS_MAX. */
unsigned pace_steps(const struct pace *pace);
/* A turn of pace_steps has been committed; it took `took_ms`. Returns the rest after it, in ms. */
uint64_t pace_committed(struct pace *pace, uint64_t took_ms);
/* The transaction of a turn of pace_steps was too big. False: it had one step only. */
bool pace_too_big(struct pace *pace);
/* Nothing was left to do: what clients write until the next look brings no credit. */
void pace_idle(struct pace *pace);

#endif
