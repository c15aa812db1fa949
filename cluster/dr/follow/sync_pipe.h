/* Transactions of a sync on their way through the log, some at once: so receiving keys, writing the
 * log and applying entries overlap. One thread uses a pipe; the raft thread ends its proposals. */
#ifndef HOLDFAST_CLUSTER_DR_FOLLOW_SYNC_PIPE_H
#define HOLDFAST_CLUSTER_DR_FOLLOW_SYNC_PIPE_H

#include "base/buf.h"
#include "cluster/membership/part.h"
#include "raft/replica/rlog.h"

#include <pthread.h>

enum { SYNC_PIPE_MAX = 4 };

struct sync_pipe {
    struct part_host *host;
    pthread_mutex_t lock; /* guards what follows, but for the content of a proposal under way */
    pthread_cond_t ended; /* a proposal has ended */
    uint64_t stage;       /* number of the staged tree that was begun last; 0: none */
    enum status st;       /* first failure; nothing is proposed after it */
    unsigned running;     /* proposals that have not ended */
    struct sync_step {
        struct env_task task;
        struct rlog_propose propose;
        struct sync_pipe *pipe;
        struct buf txn;
        bool busy;
    } steps[SYNC_PIPE_MAX];
};

/* ST_NOMEM. */
NODISCARD enum status sync_pipe_init(struct sync_pipe *pipe, struct part_host *host);
/* Propose an encoded transaction, whose memory the pipe takes, once one of its places is free. The
 * transactions are proposed in the order of the calls. Returns the first failure of any of them:
 * ST_DENIED: a precondition no longer holds; else as rlog_propose. */
NODISCARD enum status sync_pipe_send(struct sync_pipe *pipe, struct buf *txn, bool upkeep);
/* Wait until every transaction is applied, or has failed. Returns the first failure. */
NODISCARD enum status sync_pipe_drain(struct sync_pipe *pipe);
/* Wait until every transaction has ended, and release the pipe. */
void sync_pipe_done(struct sync_pipe *pipe);

#endif
