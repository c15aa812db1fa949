/* An env for tests whose clock is moved by hand: tasks, work and timers run when the test runs
 * them. */
#ifndef HOLDFAST_TESTS_UNIT_ROUTER_CLOCK_ENV_H
#define HOLDFAST_TESTS_UNIT_ROUTER_CLOCK_ENV_H

#include "base/env.h"

struct clock_env {
    struct env env;
    uint64_t seed, now_ms;
    struct list tasks, works;
    struct timer_heap timers;
    unsigned works_run;
};

static inline struct clock_env *clock_of(struct env *env)
{
    return CONTAINER_OF(env, struct clock_env, env);
}

static inline uint64_t clock_mono_ns(struct env *env)
{
    return clock_of(env)->now_ms * 1000000;
}

static inline int64_t clock_wall_ms(struct env *env)
{
    return 1700000000000 + (int64_t)clock_of(env)->now_ms;
}

static inline void clock_random(struct env *env, void *buf, size_t n)
{
    uint64_t *seed = &clock_of(env)->seed;
    for (size_t i = 0; i < n; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        ((uint8_t *)buf)[i] = (uint8_t)(*seed >> 56);
    }
}

static inline void clock_timer_set(struct env *env, struct env_timer *timer, uint64_t at_ms)
{
    timer_heap_set(&clock_of(env)->timers, timer, at_ms);
}

static inline void clock_timer_stop(struct env *env, struct env_timer *timer)
{
    timer_heap_stop(&clock_of(env)->timers, timer);
}

static inline void clock_work(struct env *env, struct env_work *work)
{
    list_push(&clock_of(env)->works, &work->link);
}

static inline void clock_post(struct env *env, struct env_task *task)
{
    list_push(&clock_of(env)->tasks, &task->link);
}

static inline void clock_env_init(struct clock_env *c)
{
    static const struct env_ops ops = {
        .mono_ns = clock_mono_ns,
        .wall_ms = clock_wall_ms,
        .random = clock_random,
        .timer_set = clock_timer_set,
        .timer_stop = clock_timer_stop,
        .work = clock_work,
        .post = clock_post,
    };
    *c = (struct clock_env){.env = {&ops, NULL}, .seed = 42, .now_ms = 1000};
    list_init(&c->tasks);
    list_init(&c->works);
}

/* Everything that can happen now. */
static inline void clock_run(struct clock_env *c)
{
    for (;;) {
        struct list *item = list_pop(&c->tasks);
        if (item != NULL) {
            struct env_task *task = CONTAINER_OF(item, struct env_task, link);
            task->run(task);
            continue;
        }
        item = list_pop(&c->works);
        if (item != NULL) {
            struct env_work *work = CONTAINER_OF(item, struct env_work, link);
            c->works_run++;
            work->run(work);
            work->done(work);
            continue;
        }
        struct env_timer *timer = timer_heap_first(&c->timers);
        if (timer == NULL || timer->at_ms > c->now_ms)
            return;
        timer_heap_stop(&c->timers, timer);
        timer->fire(timer);
    }
}

#endif
