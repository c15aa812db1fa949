/* A call to the raft thread from another thread, which waits for the result. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_WAIT_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_WAIT_H

#include "base/env.h"

#include <pthread.h>

/* On the stack of the thread that waits. Zero-initialise. The raft thread touches a wait for the
 * last time in wait_end. */
struct wait {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool finished;
    enum status st;
};

/* Post `task` to the raft thread's `env` and block until wait_end. Any thread but the raft thread.
 * The status given to wait_end; ST_NOMEM: the task does not run. */
NODISCARD enum status wait_for(struct wait *wait, struct env *env, struct env_task *task);
/* End the wait, once. Raft thread. */
void wait_end(struct wait *wait, enum status st);

#endif
