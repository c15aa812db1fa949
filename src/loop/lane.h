/* Threads that run work off the loop. A lane serves one or several queues, one for each env that
 * uses the lane. It takes works from the queues in turn. */
#ifndef HOLDFAST_LOOP_LANE_H
#define HOLDFAST_LOOP_LANE_H

#include "base/env.h"

#include <pthread.h>

enum { LANE_THREADS_MAX = 8 };

struct lane {
    pthread_mutex_t lock;
    pthread_cond_t ready_changed;
    struct list ready; /* queues that hold work; `lock` guards this and all members below */
    bool stopping;
    size_t n_threads;
    bool background;
    pthread_t threads[LANE_THREADS_MAX];
};

/* The works one env has submitted to one lane. `finished` is called on the lane's thread after
 * `run`, and is the lane's last touch of the work. */
struct lane_queue {
    struct list link, works; /* guarded by the lane's lock */
    void (*finished)(struct lane_queue *queue, struct env_work *work);
    void *owner;
};

/* Start `n_threads` threads named `name`, in the background (base/cpus.h) or not. Aborts when the
 * system has none: the program cannot do its work without. */
void lane_init(struct lane *lane, const char *name, size_t n_threads, bool background);

/* Run all queued work, then end the threads. */
void lane_done(struct lane *lane);

/* Works of a queue are begun in order; `finished` is called on a thread of the lane. */
void lane_queue_init(struct lane_queue *queue,
                     void (*finished)(struct lane_queue *queue, struct env_work *work),
                     void *owner);
void lane_push(struct lane *lane, struct lane_queue *queue, struct env_work *work);

/* Get a lane that the whole process shares: LANE_POOL, or LANE_SLOW with half as many threads. The
 * first reference starts the lane, the last unref ends it. The threads have a lower priority than
 * the loops and the log, on which every client waits. */
struct lane *lane_shared_ref(enum env_lane which);
void lane_shared_unref(enum env_lane which);

#endif
