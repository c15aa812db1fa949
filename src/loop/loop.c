#include "loop/loop.h"
#include "base/mem.h"
#include "loop/lane.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

struct loop {
    struct env env; /* first: an env pointer is a loop pointer */
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t timer;
    uv_prepare_t prepare;

    struct timer_heap timers;
    uint64_t armed_ms;  /* what `timer` is set to, 0 when stopped */
    uint64_t firing_ms; /* clock of the batch of timers being fired, 0 outside */

    pthread_t owner;
    bool running;
    size_t works; /* submitted and not yet done */
    struct lane lanes[LANE_POOL];
    struct lane *pool;
    bool lane_started[LANES];
    struct lane_queue queues[LANES];

    pthread_mutex_t inbox_lock;
    struct list tasks, finished; /* under inbox_lock, as stop */
    bool stop;
};

static struct loop *loop_of(struct env *env)
{
    return CONTAINER_OF(env, struct loop, env);
}

static void loop_check_thread(const struct loop *l)
{
    ASSERT(!l->running || pthread_equal(l->owner, pthread_self()));
}

static uint64_t loop_mono_ns(struct env *env)
{
    (void)env; /* one clock for all */
    return uv_hrtime();
}

static int64_t loop_wall_ms(struct env *env)
{
    struct timespec now;
    (void)env; /* one clock for all */
    ASSERT(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void loop_random(struct env *env, void *data, size_t n)
{
    uint8_t *at = data;
    (void)env; /* the kernel's generator serves all */
    while (n != 0) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            (void)fprintf(stderr, "no random numbers: getrandom failed\n"); /* then abort */
            abort();
        }
        at += got;
        n -= (size_t)got;
    }
}

/* Timers: the heap decides, one uv timer wakes. It is set once a round, just before polling. */

static void loop_on_timer(uv_timer_t *timer)
{
    struct loop *l = timer->data;
    size_t most = l->timers.n; /* those set meanwhile wait for the next round */
    l->armed_ms = 0;
    l->firing_ms = env_mono_ms(&l->env);
    for (size_t i = 0; i < most; i++) {
        struct env_timer *first = timer_heap_first(&l->timers);
        if (first == NULL || first->at_ms > l->firing_ms)
            break;
        timer_heap_stop(&l->timers, first);
        first->fire(first);
    }
    l->firing_ms = 0;
}

static void loop_on_prepare(uv_prepare_t *prepare)
{
    struct loop *l = prepare->data;
    const struct env_timer *first = timer_heap_first(&l->timers);
    if (first == NULL) {
        if (l->armed_ms != 0)
            (void)uv_timer_stop(&l->timer); /* cannot fail */
        l->armed_ms = 0;
        return;
    }
    uint64_t at_ms = MAX(first->at_ms, 1);
    if (at_ms == l->armed_ms)
        return;
    uint64_t now_ms = uv_now(&l->uv);
    l->armed_ms = at_ms;
    ASSERT(uv_timer_start(&l->timer, loop_on_timer, at_ms > now_ms ? at_ms - now_ms : 0, 0) == 0);
}

static void loop_timer_set(struct env *env, struct env_timer *timer, uint64_t at_ms)
{
    struct loop *l = loop_of(env);
    loop_check_thread(l);
    timer_heap_set(&l->timers, timer, MAX(at_ms, l->firing_ms));
}

static void loop_timer_stop(struct env *env, struct env_timer *timer)
{
    struct loop *l = loop_of(env);
    loop_check_thread(l);
    timer_heap_stop(&l->timers, timer);
}

/* The inbox: tasks of other threads and work that finished. */

static void inbox_add(struct loop *l, struct list *queue, struct list *item)
{
    (void)pthread_mutex_lock(&l->inbox_lock); /* cannot fail: default mutex */
    bool wake = list_empty(&l->tasks) && list_empty(&l->finished);
    list_push(queue, item);
    if (wake)                          /* under the lock, so that loop_free cannot pass between */
        (void)uv_async_send(&l->wake); /* cannot fail: the handle is open */
    (void)pthread_mutex_unlock(&l->inbox_lock); /* held */
}

static void loop_on_wake(uv_async_t *wake)
{
    struct loop *l = wake->data;
    struct list tasks, finished;
    list_init(&tasks);
    list_init(&finished);
    (void)pthread_mutex_lock(&l->inbox_lock); /* cannot fail: default mutex */
    list_splice(&tasks, &l->tasks);
    list_splice(&finished, &l->finished);
    if (l->stop && l->running) {
        uv_stop(&l->uv);
        l->stop = false;
    }
    (void)pthread_mutex_unlock(&l->inbox_lock); /* held */

    for (struct list *item; (item = list_pop(&finished)) != NULL;) {
        struct env_work *work = CONTAINER_OF(item, struct env_work, link);
        l->works--;
        work->done(work);
    }
    for (struct list *item; (item = list_pop(&tasks)) != NULL;) {
        struct env_task *task = CONTAINER_OF(item, struct env_task, link);
        task->run(task);
    }
}

static void loop_on_finished(struct lane_queue *queue, struct env_work *work)
{
    struct loop *l = queue->owner;
    inbox_add(l, &l->finished, &work->link);
}

static void loop_post(struct env *env, struct env_task *task)
{
    struct loop *l = loop_of(env);
    ASSERT(task->run != NULL);
    inbox_add(l, &l->tasks, &task->link);
}

static struct lane *loop_lane(struct loop *l, enum env_lane lane)
{
    static const char *const names[LANE_POOL] = {[LANE_LOG] = "hf-log", [LANE_BULK] = "hf-bulk"};
    if (!l->lane_started[lane]) {
        l->lane_started[lane] = true;
        if (lane == LANE_POOL)
            l->pool = lane_pool_ref();
        else
            lane_init(&l->lanes[lane], names[lane], 1);
    }
    return lane == LANE_POOL ? l->pool : &l->lanes[lane];
}

static void loop_work(struct env *env, struct env_work *work)
{
    struct loop *l = loop_of(env);
    loop_check_thread(l);
    ASSERT(work->lane < LANES);
    l->works++;
    lane_push(loop_lane(l, work->lane), &l->queues[work->lane], work);
}

static const struct env_ops loop_ops = {
    .mono_ns = loop_mono_ns,
    .wall_ms = loop_wall_ms,
    .random = loop_random,
    .timer_set = loop_timer_set,
    .timer_stop = loop_timer_stop,
    .work = loop_work,
    .post = loop_post,
};

static int loop_open_handles(struct loop *l)
{
    int err = uv_async_init(&l->uv, &l->wake, loop_on_wake);
    if (err != 0)
        return err;
    ASSERT(uv_timer_init(&l->uv, &l->timer) == 0);
    ASSERT(uv_prepare_init(&l->uv, &l->prepare) == 0);
    ASSERT(uv_prepare_start(&l->prepare, loop_on_prepare) == 0);
    l->wake.data = l->timer.data = l->prepare.data = l;
    return 0;
}

enum status loop_new(struct fs *fs, struct env **ret_env)
{
    struct loop *l = mem_zalloc(sizeof *l);
    if (l == NULL)
        return ST_NOMEM;
    l->env = (struct env){&loop_ops, fs};
    list_init(&l->tasks);
    list_init(&l->finished);
    for (size_t i = 0; i < LANES; i++)
        lane_queue_init(&l->queues[i], loop_on_finished, l);
    int err = uv_loop_init(&l->uv);
    if (err != 0) {
        mem_free(l);
        return loop_status(err);
    }
    err = loop_open_handles(l);
    if (err != 0) {
        ASSERT(uv_loop_close(&l->uv) == 0);
        mem_free(l);
        return loop_status(err);
    }
    ASSERT(pthread_mutex_init(&l->inbox_lock, NULL) == 0);
    ASSERT(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    *ret_env = &l->env;
    return ST_OK;
}

void loop_run(struct env *env)
{
    struct loop *l = loop_of(env);
    ASSERT(!l->running);
    l->owner = pthread_self();
    l->running = true;
    (void)uv_async_send(&l->wake);        /* an earlier loop_stop must be seen */
    (void)uv_run(&l->uv, UV_RUN_DEFAULT); /* says whether handles remain: they always do */
    l->running = false;
}

void loop_stop(struct env *env)
{
    struct loop *l = loop_of(env);
    (void)pthread_mutex_lock(&l->inbox_lock); /* cannot fail: default mutex */
    l->stop = true;
    (void)uv_async_send(&l->wake);              /* cannot fail: the handle is open */
    (void)pthread_mutex_unlock(&l->inbox_lock); /* held */
}

static void check_closing(uv_handle_t *handle, void *arg)
{
    (void)arg; /* no state */
    ASSERT(uv_is_closing(handle));
}

void loop_free(struct env *env)
{
    if (env == NULL)
        return;
    struct loop *l = loop_of(env);
    ASSERT(!l->running);
    (void)uv_async_send(&l->wake); /* what was posted and not yet taken */
    do
        (void)uv_run(&l->uv, l->works != 0 ? UV_RUN_ONCE : UV_RUN_NOWAIT); /* handles remain */
    while (l->works != 0);
    for (size_t i = 0; i < LANE_POOL; i++)
        if (l->lane_started[i])
            lane_done(&l->lanes[i]);
    if (l->lane_started[LANE_POOL])
        lane_pool_unref();

    uv_close((uv_handle_t *)&l->wake, NULL);
    uv_close((uv_handle_t *)&l->timer, NULL);
    uv_close((uv_handle_t *)&l->prepare, NULL);
    uv_walk(&l->uv, check_closing, NULL);
    (void)uv_run(&l->uv, UV_RUN_DEFAULT); /* until every close has been reported */
    ASSERT(uv_loop_close(&l->uv) == 0);
    ASSERT(list_empty(&l->tasks) && timer_heap_first(&l->timers) == NULL);
    timer_heap_done(&l->timers);
    (void)pthread_mutex_destroy(&l->inbox_lock); /* no other thread knows the env any more */
    mem_free(l);
}

uv_loop_t *loop_uv(struct env *env)
{
    return &loop_of(env)->uv;
}

enum status loop_status(int uv_error)
{
    switch (uv_error) {
    case 0: return ST_OK;
    case UV_ETIMEDOUT: return ST_TIMEOUT;
    case UV_ECANCELED: return ST_CLOSED;
    default: return status_from_errno(-uv_error);
    }
}
