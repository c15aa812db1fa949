/* The outside world as one thread sees it: clocks, randomness, timers, slow work, posted tasks and
 * files. src/loop implements it on libuv, the simulator on virtual time. One env belongs to one
 * thread (its loop thread); only env_post may be called from another. */
#ifndef HOLDFAST_BASE_ENV_H
#define HOLDFAST_BASE_ENV_H

#include "base/bytes.h"
#include "base/list.h"
#include "base/status.h"

struct env;
struct fs;
struct fs_file;

/* A one-shot timer, embedded in its owner. Zero-initialise and set `fire`. */
struct env_timer {
    void (*fire)(
        struct env_timer *timer); /* loop thread; the timer is stopped and may be set again */
    uint64_t at_ms;               /* monotonic */
    uint64_t seq;                 /* of timers with equal times, the one set first fires first */
    size_t slot;                  /* place in the heap + 1; 0 when stopped */
};

/* Slow or blocking work, embedded in its owner. `run` is called once, off the loop thread; then
 * `done` once on the loop thread. Work of one lane runs in order, one at a time. It cannot be
 * cancelled: the owner waits for `done`. */
enum env_lane {
    LANE_LOG,  /* writes of the raft log */
    LANE_BULK, /* snapshots, hashing, background release */
    LANE_POOL, /* unordered: CPU-heavy requests */
    LANE_SLOW, /* unordered: work of seconds, such as making an RSA key, that others must not await
                */
    LANES
};

struct env_work {
    void (*run)(struct env_work *work);
    void (*done)(struct env_work *work);
    enum env_lane lane;
    struct list link; /* private to the env while submitted */
};

/* A function to be called on the loop thread of another env. Embedded in its owner, who may reuse
 * or free the task as soon as `run` has begun. */
struct env_task {
    void (*run)(struct env_task *task);
    struct list link;
};

/* A write to a file with FS_DSYNC, durable when `done` is called. Embedded in its owner. The loop
 * thread never waits for the write; the env decides whether another thread does. The write cannot
 * be cancelled. */
struct env_write {
    struct fs_file *file;
    struct bytes data; /* bytes to write, in one piece */
    uint64_t off;
    void (*done)(struct env_write *write); /* once, on the loop thread, not from within env_write */
    enum status st;       /* when the write is done: its status, as of fs_write_at */
    struct env_work work; /* private to the env while submitted */
};

struct env_ops {
    uint64_t (*mono_ns)(struct env *env);
    int64_t (*wall_ms)(struct env *env);
    void (*random)(struct env *env, void *buf, size_t n);
    void (*timer_set)(struct env *env, struct env_timer *timer, uint64_t at_ms);
    void (*timer_stop)(struct env *env, struct env_timer *timer);
    void (*work)(struct env *env, struct env_work *work);
    bool (*write)(struct env *env, struct env_write *write); /* NULL: env_write_work is used */
    void (*post)(struct env *env, struct env_task *task);
    void (*post_round)(struct env *env, struct env_task *task); /* NULL: `post` is used */
    void (*defer)(struct env *env, struct env_task *task);      /* NULL: `post` is used */
};

struct env {
    const struct env_ops *ops;
    struct fs *fs;
};

/* Monotonic time; its start is arbitrary. */
static inline uint64_t env_mono_ns(struct env *env)
{
    return env->ops->mono_ns(env);
}

static inline uint64_t env_mono_ms(struct env *env)
{
    return env->ops->mono_ns(env) / 1000000;
}

/* This machine's wall clock, ms since 1970; it may jump. Never decides expiry (PROTOCOL R16). */
static inline int64_t env_wall_ms(struct env *env)
{
    return env->ops->wall_ms(env);
}

/* Fill from a cryptographic generator (a seeded one in the simulator). Aborts if there is none. */
static inline void env_random(struct env *env, void *buf, size_t n)
{
    env->ops->random(env, buf, n);
}

/* Fire at `at_ms`, or at once if that time has passed. A running timer is moved. */
static inline void env_timer_set(struct env *env, struct env_timer *timer, uint64_t at_ms)
{
    env->ops->timer_set(env, timer, at_ms);
}

/* Stopping a stopped timer is allowed. */
static inline void env_timer_stop(struct env *env, struct env_timer *timer)
{
    env->ops->timer_stop(env, timer);
}

static inline void env_work(struct env *env, struct env_work *work)
{
    env->ops->work(env, work);
}

/* Run the write as work of LANE_LOG. */
void env_write_work(struct env *env, struct env_write *write);

/* Begin the write. False: nothing was begun, because the write would need a thread. */
NODISCARD static inline bool env_write(struct env *env, struct env_write *write)
{
    if (env->ops->write != NULL)
        return env->ops->write(env, write);
    env_write_work(env, write);
    return true;
}

/* Run `task` on the loop thread of `env`. Any thread may post. Tasks posted by one thread run in
 * the order posted. */
static inline void env_post(struct env *env, struct env_task *task)
{
    env->ops->post(env, task);
}

/* env_post with one wake-up for many tasks: the tasks that a loop thread posts in one round of its
 * loop leave together, at the end of the round at the latest. The caller must not wait for the
 * task, and `env` must live until the task has run. */
static inline void env_post_round(struct env *env, struct env_task *task)
{
    (env->ops->post_round != NULL ? env->ops->post_round : env->ops->post)(env, task);
}

/* Run `task` on this loop thread at the end of the round of the loop: after all events that were
 * ready, before the loop waits for more. Only the loop thread may defer. */
static inline void env_defer(struct env *env, struct env_task *task)
{
    (env->ops->defer != NULL ? env->ops->defer : env->ops->post)(env, task);
}

/* Take back a deferred task that has not run. */
static inline void env_defer_cancel(struct env_task *task)
{
    list_remove(&task->link);
}

/* Binary heap of timers, for implementations of env. Zero-initialise. */
struct timer_heap {
    struct env_timer **slots;
    size_t n, cap;
    uint64_t seq;
};

/* timer_heap_done frees the slots, not the timers. timer_heap_set moves a timer that is in the heap
 * already. */
void timer_heap_done(struct timer_heap *heap);
void timer_heap_set(struct timer_heap *heap, struct env_timer *timer, uint64_t at_ms);
void timer_heap_stop(struct timer_heap *heap, struct env_timer *timer);
struct env_timer *timer_heap_first(const struct timer_heap *heap); /* NULL when empty */

#endif
