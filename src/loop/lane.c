#include "loop/lane.h"
#include "base/cpus.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct lane shared[LANES]; /* LANE_POOL and LANE_SLOW */
static size_t shared_refs[LANES];

/* The next work of the queue that has waited longest; NULL when the lane is ending. */
static struct env_work *lane_take(struct lane *lane, struct lane_queue **ret_queue)
{
    while (list_empty(&lane->ready) && !lane->stopping)
        (void)pthread_cond_wait(&lane->ready_changed, &lane->lock); /* cannot fail: valid args */
    struct list *first = list_pop(&lane->ready);
    if (first == NULL)
        return NULL;
    struct lane_queue *queue = CONTAINER_OF(first, struct lane_queue, link);
    struct list *work = list_pop(&queue->works);
    ASSERT(work != NULL);
    if (!list_empty(&queue->works))
        list_push(&lane->ready, &queue->link);
    *ret_queue = queue;
    return CONTAINER_OF(work, struct env_work, link);
}

static void *lane_main(void *arg)
{
    struct lane *lane = arg;
    struct lane_queue *queue = NULL;
    if (lane->background)
        cpus_background();
    (void)pthread_mutex_lock(&lane->lock); /* cannot fail: default mutex, never held twice */
    for (struct env_work *work; (work = lane_take(lane, &queue)) != NULL;) {
        (void)pthread_mutex_unlock(&lane->lock); /* cannot fail: this thread holds the lock */
        work->run(work);
        queue->finished(queue, work);
        (void)pthread_mutex_lock(&lane->lock); /* cannot fail: default mutex, never held twice */
    }
    (void)pthread_mutex_unlock(&lane->lock); /* cannot fail: this thread holds the lock */
    return NULL;
}

void lane_init(struct lane *lane, const char *name, size_t n_threads, bool background)
{
    sigset_t all, before;
    ASSERT(n_threads > 0 && n_threads <= LANE_THREADS_MAX);
    *lane = (struct lane){.n_threads = n_threads, .background = background};
    list_init(&lane->ready);
    ASSERT(pthread_mutex_init(&lane->lock, NULL) == 0);
    ASSERT(pthread_cond_init(&lane->ready_changed, NULL) == 0);
    (void)sigfillset(&all); /* cannot fail: valid pointer */
    /* only threads of loops handle signals */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < n_threads; i++) {
        int err = pthread_create(&lane->threads[i], NULL, lane_main, lane);
        if (err != 0) {
            /* a failed write changes nothing: abort follows */
            (void)fprintf(stderr, "a thread %s cannot start: %s\n", name, strerror(err));
            abort();
        }
        (void)pthread_setname_np(lane->threads[i], name); /* the name of a thread is only a label */
    }
    /* cannot fail: `before` came from the same function */
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void lane_done(struct lane *lane)
{
    (void)pthread_mutex_lock(&lane->lock); /* cannot fail: default mutex */
    lane->stopping = true;
    /* cannot fail: the variable is initialised */
    (void)pthread_cond_broadcast(&lane->ready_changed);
    /* cannot fail: this thread holds the lock */
    (void)pthread_mutex_unlock(&lane->lock);
    for (size_t i = 0; i < lane->n_threads; i++)
        ASSERT(pthread_join(lane->threads[i], NULL) == 0);
    ASSERT(list_empty(&lane->ready));
    (void)pthread_cond_destroy(&lane->ready_changed); /* no thread waits any more */
    (void)pthread_mutex_destroy(&lane->lock);         /* no thread holds the lock any more */
}

void lane_queue_init(struct lane_queue *queue,
                     void (*finished)(struct lane_queue *queue, struct env_work *work), void *owner)
{
    list_init(&queue->link);
    list_init(&queue->works);
    queue->finished = finished;
    queue->owner = owner;
}

void lane_push(struct lane *lane, struct lane_queue *queue, struct env_work *work)
{
    ASSERT(work->run != NULL && work->done != NULL);
    (void)pthread_mutex_lock(&lane->lock); /* cannot fail: default mutex */
    ASSERT(!lane->stopping);
    if (list_empty(&queue->works))
        list_push(&lane->ready, &queue->link);
    list_push(&queue->works, &work->link);
    (void)pthread_mutex_unlock(&lane->lock); /* cannot fail: this thread holds the lock */
    /* Signal after the unlock: the woken thread needs the lock. The env that submits keeps the lane
     * alive. */
    (void)pthread_cond_signal(&lane->ready_changed); /* cannot fail: the variable is initialised */
}

struct lane *lane_shared_ref(enum env_lane which)
{
    size_t threads = MIN(MAX((size_t)cpus_usable(), 2), (size_t)LANE_THREADS_MAX);
    ASSERT(which == LANE_POOL || which == LANE_SLOW);
    (void)pthread_mutex_lock(&shared_lock); /* cannot fail: default mutex */
    if (shared_refs[which]++ == 0 && which == LANE_POOL)
        lane_init(&shared[which], "hf-pool", threads, true);
    else if (shared_refs[which] == 1)
        lane_init(&shared[which], "hf-slow", threads / 2, true);
    (void)pthread_mutex_unlock(&shared_lock); /* cannot fail: this thread holds the lock */
    return &shared[which];
}

void lane_shared_unref(enum env_lane which)
{
    (void)pthread_mutex_lock(&shared_lock); /* cannot fail: default mutex */
    ASSERT(shared_refs[which] > 0);
    if (--shared_refs[which] == 0)
        lane_done(&shared[which]);
    (void)pthread_mutex_unlock(&shared_lock); /* cannot fail: this thread holds the lock */
}
