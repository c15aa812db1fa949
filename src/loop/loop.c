#include "loop/loop.h"
#include "base/mem.h"
#include "loop/lane.h"
#include "loop/loop_aio.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum {
    OUTBOXES = 8,       /* most other envs to which a thread posts in batches */
    OUTBOX_TASKS = 32,  /* tasks of a batch that is sent before the round ends */
    INBOX_ROUNDS = 8,   /* rounds over the inbox before other events have their turn */
    RANDOM_AHEAD = 240, /* random bytes fetched by one call of the kernel */
    /* longest request served from fetched bytes; keys come from the kernel one by one */
    RANDOM_SMALL = 16,
};

/* Tasks for another env, sent together at the end of the round. */
struct outbox {
    struct loop *to;
    struct list tasks;
    size_t n;
};

struct loop {
    struct env env; /* must come first: an env pointer is a loop pointer */
    uv_loop_t uv;
    uv_poll_t wake;
    int wake_fd; /* an eventfd, not uv_async_t: a thread that uv_async_t wakes spins until its
                    sender runs on */
    uv_timer_t timer;
    uv_prepare_t prepare;

    struct timer_heap timers;
    uint64_t armed_ms;  /* time that `timer` is set to; 0: the timer is stopped */
    uint64_t firing_ms; /* clock of the batch of timers that is being fired; 0: none is */

    pthread_t owner;
    bool running;
    size_t works; /* works submitted and not yet done */
    struct lane lanes[LANE_POOL];
    struct lane *shared[LANES - LANE_POOL];
    bool lane_started[LANES];
    struct lane_queue queues[LANES];
    struct loop_aio aio;

    struct outbox outboxes[OUTBOXES];
    size_t n_outboxes;
    struct list deferred; /* tasks for the end of the round */

    /* Random bytes fetched in advance, for one turn of the loop only: if a virtual machine is saved
     * and resumed twice, the two copies must not use the same random bytes. */
    uint8_t random[RANDOM_AHEAD];
    size_t random_left; /* number of unused bytes, which are the first ones */
    /* bytes were requested in this turn: only the second request fetches in advance */
    bool random_asked;

    pthread_mutex_t inbox_lock;
    struct list tasks, finished; /* inbox_lock guards these and all members below */
    bool looking;                /* the loop thread will look into the inbox without being woken */
    bool stop;
    _Atomic unsigned
        wakers; /* threads about to wake the loop; the loop is not freed before they have */
};

static _Thread_local struct loop *current; /* loop whose callbacks this thread runs */

static void deferred_run(struct loop *l);
static void outboxes_flush(struct loop *l);

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
    (void)env; /* all loops have the same clock */
    return uv_hrtime();
}

static int64_t loop_wall_ms(struct env *env)
{
    struct timespec now;
    (void)env; /* all loops have the same clock */
    ASSERT(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void random_fetch(void *data, size_t n)
{
    uint8_t *at = data;
    while (n != 0) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            /* a failed write changes nothing: abort follows */
            (void)fprintf(stderr, "no random numbers: getrandom failed\n");
            abort();
        }
        at += got;
        n -= (size_t)got;
    }
}

static void random_forget(struct loop *l)
{
    mem_wipe(l->random, l->random_left);
    l->random_left = 0;
    l->random_asked = false;
}

/* Hand random bytes out once: they are gone from the loop before the caller has them. */
static void random_take(struct loop *l, void *data, size_t n)
{
    if (l->random_left < n) {
        random_fetch(l->random, sizeof l->random);
        l->random_left = sizeof l->random;
    }
    l->random_left -= n;
    memcpy(data, l->random + l->random_left, n);
    mem_wipe(l->random + l->random_left, n);
}

static void loop_random(struct env *env, void *data, size_t n)
{
    struct loop *l = loop_of(env);
    if (current == l && l->random_asked && n <= RANDOM_SMALL) {
        random_take(l, data, n);
        return;
    }
    if (current == l)
        l->random_asked = true;
    random_fetch(data, n);
}

/* Timers: a heap holds them, and one uv timer wakes the loop. The uv timer is set once a round,
 * just before polling. */

static void loop_on_timer(uv_timer_t *timer)
{
    struct loop *l = timer->data;
    size_t most = l->timers.n; /* timers set meanwhile wait for the next round */
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
    deferred_run(l); /* may post */
    outboxes_flush(l);
    random_forget(l);
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

/* The inbox: tasks from other threads, and finished work. */

static void wake_up(struct loop *l)
{
    ssize_t done;
    do
        done = write(l->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
    while (done < 0 && errno == EINTR);
    /* EAGAIN: the counter is full, so the loop wakes anyway */
    ASSERT(done == sizeof(uint64_t) || errno == EAGAIN);
}

static void inbox_add(struct loop *l, struct list *queue, struct list *items)
{
    (void)pthread_mutex_lock(&l->inbox_lock); /* cannot fail: default mutex */
    bool wake = !l->looking && list_empty(&l->tasks) && list_empty(&l->finished);
    list_splice(queue, items);
    l->wakers += wake ? 1 : 0;
    (void)pthread_mutex_unlock(&l->inbox_lock); /* cannot fail: this thread holds the lock */
    if (wake) { /* after the unlock: the woken thread needs the lock */
        wake_up(l);
        l->wakers--;
    }
}

static void inbox_add_one(struct loop *l, struct list *queue, struct list *item)
{
    struct list items;
    list_init(&items);
    list_push(&items, item);
    inbox_add(l, queue, &items);
}

/* Take the tasks that arrived. False: no task arrived, or other work has its turn; then the next
 * task that is added wakes the loop again. */
static bool inbox_take(struct loop *l, unsigned round, struct list *tasks, struct list *finished)
{
    (void)pthread_mutex_lock(&l->inbox_lock); /* cannot fail: default mutex */
    bool any = !list_empty(&l->tasks) || !list_empty(&l->finished);
    if (l->stop && l->running) {
        uv_stop(&l->uv);
        l->stop = false;
    }
    l->looking = any && round < INBOX_ROUNDS;
    if (l->looking) {
        list_splice(tasks, &l->tasks);
        list_splice(finished, &l->finished);
    } else if (any) {
        wake_up(l);
    }
    bool taken = l->looking;
    (void)pthread_mutex_unlock(&l->inbox_lock); /* cannot fail: this thread holds the lock */
    return taken;
}

static void loop_on_wake(uv_poll_t *wake, int error, int events)
{
    struct loop *l = wake->data;
    struct list tasks, finished;
    uint64_t times;
    (void)events; /* only readable events were requested */
    ASSERT(error == 0);
    if (read(l->wake_fd, &times, sizeof times) < 0)
        ASSERT(errno == EAGAIN || errno == EINTR); /* the loop calls again */
    list_init(&tasks);
    list_init(&finished);
    for (unsigned round = 0; inbox_take(l, round, &tasks, &finished); round++) {
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
}

/* The outboxes: tasks for other envs, which are sent together. */

static void outbox_flush(struct outbox *box)
{
    if (box->n == 0)
        return;
    box->n = 0;
    inbox_add(box->to, &box->to->tasks, &box->tasks);
}

static struct outbox *outbox_of(struct loop *from, const struct loop *to)
{
    for (size_t i = 0; i < from->n_outboxes; i++)
        if (from->outboxes[i].to == to)
            return &from->outboxes[i];
    return NULL;
}

/* Envs come and go only before and after the threads that post to them. */
static void outboxes_flush(struct loop *l)
{
    for (size_t i = 0; i < l->n_outboxes; i++)
        outbox_flush(&l->outboxes[i]);
    l->n_outboxes = 0;
}

static void loop_on_finished(struct lane_queue *queue, struct env_work *work)
{
    struct loop *l = queue->owner;
    inbox_add_one(l, &l->finished, &work->link);
}

static void loop_post(struct env *env, struct env_task *task)
{
    struct loop *l = loop_of(env);
    ASSERT(task->run != NULL);
    struct outbox *box = current != NULL ? outbox_of(current, l) : NULL;
    if (box != NULL)
        outbox_flush(box); /* send the batch first: tasks of one thread stay in order */
    inbox_add_one(l, &l->tasks, &task->link);
}

static void loop_post_round(struct env *env, struct env_task *task)
{
    struct loop *l = loop_of(env), *from = current;
    struct outbox *box = from != NULL && from != l ? outbox_of(from, l) : NULL;
    ASSERT(task->run != NULL);
    if (box == NULL && from != NULL && from != l && from->n_outboxes < OUTBOXES) {
        box = &from->outboxes[from->n_outboxes++];
        *box = (struct outbox){.to = l};
        list_init(&box->tasks);
    }
    if (box == NULL) {
        inbox_add_one(l, &l->tasks, &task->link);
        return;
    }
    list_push(&box->tasks, &task->link);
    if (++box->n == OUTBOX_TASKS)
        outbox_flush(box);
}

/* Also those that are deferred meanwhile: the loop may wait for long afterwards. */
static void deferred_run(struct loop *l)
{
    for (struct list *item; (item = list_pop(&l->deferred)) != NULL;) {
        struct env_task *task = CONTAINER_OF(item, struct env_task, link);
        task->run(task);
    }
}

static void loop_defer(struct env *env, struct env_task *task)
{
    struct loop *l = loop_of(env);
    loop_check_thread(l);
    ASSERT(task->run != NULL);
    list_push(&l->deferred, &task->link);
}

static struct lane *loop_lane(struct loop *l, enum env_lane lane)
{
    static const char *const names[LANE_POOL] = {[LANE_LOG] = "hf-log", [LANE_BULK] = "hf-bulk"};
    if (!l->lane_started[lane]) {
        l->lane_started[lane] = true;
        if (lane >= LANE_POOL)
            l->shared[lane - LANE_POOL] = lane_shared_ref(lane);
        else
            lane_init(&l->lanes[lane], names[lane], 1, lane == LANE_BULK);
    }
    return lane >= LANE_POOL ? l->shared[lane - LANE_POOL] : &l->lanes[lane];
}

static void loop_work(struct env *env, struct env_work *work)
{
    struct loop *l = loop_of(env);
    loop_check_thread(l);
    ASSERT(work->lane < LANES);
    l->works++;
    lane_push(loop_lane(l, work->lane), &l->queues[work->lane], work);
}

static void on_write_over(struct loop_aio *aio, struct env_write *write, bool again)
{
    struct loop *l = CONTAINER_OF(aio, struct loop, aio);
    l->works--;
    if (again)
        env_write_work(&l->env, write);
    else
        write->done(write);
}

static bool loop_write(struct env *env, struct env_write *write)
{
    struct loop *l = loop_of(env);
    loop_check_thread(l);
    bool begun = loop_aio_begin(&l->aio, &l->uv, write);
    l->works += begun;
    return begun;
}

static const struct env_ops loop_ops = {
    .mono_ns = loop_mono_ns,
    .wall_ms = loop_wall_ms,
    .random = loop_random,
    .timer_set = loop_timer_set,
    .timer_stop = loop_timer_stop,
    .work = loop_work,
    .write = loop_write,
    .post = loop_post,
    .post_round = loop_post_round,
    .defer = loop_defer,
};

static int loop_open_handles(struct loop *l)
{
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->wake_fd < 0)
        return -errno;
    int err = uv_poll_init(&l->uv, &l->wake, l->wake_fd);
    if (err != 0) {
        (void)close(l->wake_fd); /* nothing was written to wake_fd */
        return err;
    }
    ASSERT(uv_poll_start(&l->wake, UV_READABLE, loop_on_wake) == 0);
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
    l->aio.over = on_write_over;
    list_init(&l->tasks);
    list_init(&l->finished);
    list_init(&l->deferred);
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
    current = l;
    wake_up(l); /* let the loop see an earlier loop_stop */
    /* the result says whether handles remain: some always do */
    (void)uv_run(&l->uv, UV_RUN_DEFAULT);
    deferred_run(l);
    outboxes_flush(l);
    random_forget(l);
    current = NULL;
    l->running = false;
}

void loop_stop(struct env *env)
{
    struct loop *l = loop_of(env);
    (void)pthread_mutex_lock(&l->inbox_lock); /* cannot fail: default mutex */
    l->stop = true;
    wake_up(l);
    (void)pthread_mutex_unlock(&l->inbox_lock); /* cannot fail: this thread holds the lock */
}

static void check_closing(uv_handle_t *handle, void *arg)
{
    (void)arg; /* the walk needs no state */
    ASSERT(uv_is_closing(handle));
}

void loop_free(struct env *env)
{
    if (env == NULL)
        return;
    struct loop *l = loop_of(env);
    ASSERT(!l->running);
    wake_up(l); /* let the loop take the tasks that were posted */
    do
        (void)uv_run(&l->uv, l->works != 0
                                 ? UV_RUN_ONCE
                                 : UV_RUN_NOWAIT); /* the result only says whether handles remain */
    while (l->works != 0);
    for (size_t i = 0; i < LANE_POOL; i++)
        if (l->lane_started[i])
            lane_done(&l->lanes[i]);
    for (enum env_lane lane = LANE_POOL; lane < LANES; lane++)
        if (l->lane_started[lane])
            lane_shared_unref(lane);
    while (l->wakers != 0)   /* wait for threads of the pool that are about to wake the loop */
        (void)sched_yield(); /* cannot fail */

    uv_close((uv_handle_t *)&l->wake, NULL);
    uv_close((uv_handle_t *)&l->timer, NULL);
    uv_close((uv_handle_t *)&l->prepare, NULL);
    loop_aio_close(&l->aio);
    uv_walk(&l->uv, check_closing, NULL);
    (void)uv_run(&l->uv, UV_RUN_DEFAULT); /* run until libuv has reported every close */
    ASSERT(uv_loop_close(&l->uv) == 0);
    (void)close(l->wake_fd); /* closing an eventfd loses nothing */
    loop_aio_done(&l->aio);
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
