/* An env for tests: seeded randomness, a clock that a test may move, posted tasks in a queue. */
#ifndef HOLDFAST_TESTS_UNIT_STATE_FAKE_ENV_H
#define HOLDFAST_TESTS_UNIT_STATE_FAKE_ENV_H

#include "base/env.h"

struct fake_env {
    struct env env;
    uint64_t seed, later_ms;
    struct list tasks, works;
};

static inline uint64_t fake_next(uint64_t *seed)
{
    uint64_t z = *seed += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline uint64_t fake_mono_ns(struct env *env)
{
    return 1000000 * (1 + CONTAINER_OF(env, struct fake_env, env)->later_ms);
}

static inline int64_t fake_wall_ms(struct env *env)
{
    (void)env;
    return 1700000000000;
}

static inline void fake_random(struct env *env, void *buf, size_t n)
{
    struct fake_env *f = CONTAINER_OF(env, struct fake_env, env);
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)buf)[i] = (uint8_t)fake_next(&f->seed);
}

static inline void fake_timer_set(struct env *env, struct env_timer *timer, uint64_t at_ms)
{
    (void)env;
    (void)timer;
    (void)at_ms; /* no timer fires */
}

static inline void fake_timer_stop(struct env *env, struct env_timer *timer)
{
    (void)env;
    (void)timer;
}

static inline void fake_work(struct env *env, struct env_work *work)
{
    list_push(&CONTAINER_OF(env, struct fake_env, env)->works, &work->link);
}

static inline void fake_post(struct env *env, struct env_task *task)
{
    list_push(&CONTAINER_OF(env, struct fake_env, env)->tasks, &task->link);
}

static inline void fake_env_init(struct fake_env *f, uint64_t seed)
{
    static const struct env_ops ops = {
        .mono_ns = fake_mono_ns,
        .wall_ms = fake_wall_ms,
        .random = fake_random,
        .timer_set = fake_timer_set,
        .timer_stop = fake_timer_stop,
        .work = fake_work,
        .post = fake_post,
    };
    *f = (struct fake_env){.env = {&ops, NULL}, .seed = seed};
    list_init(&f->tasks);
    list_init(&f->works);
}

/* One posted task or submitted work; false when there is none. */
static inline bool fake_env_step(struct fake_env *f)
{
    struct list *item = list_pop(&f->tasks);
    if (item != NULL) {
        struct env_task *task = CONTAINER_OF(item, struct env_task, link);
        task->run(task);
        return true;
    }
    item = list_pop(&f->works);
    if (item == NULL)
        return false;
    struct env_work *work = CONTAINER_OF(item, struct env_work, link);
    work->run(work);
    work->done(work);
    return true;
}

static inline void fake_env_run(struct fake_env *f)
{
    while (fake_env_step(f))
        ;
}

#endif
