/* Shared by tests of the store: a seeded generator, and an env that is driven by hand. */
#ifndef HOLDFAST_TESTS_STORE_HAND_ENV_H
#define HOLDFAST_TESTS_STORE_HAND_ENV_H

#include "support.h"

#include "base/mem.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
}

static inline size_t rng_below(struct rng *rng, size_t n)
{
    return (size_t)(rng_next(rng) % n);
}

/* HOLDFAST_LONG=1 asks for the long form of a random test. */
static inline size_t rounds(size_t quick, size_t lengthy)
{
    const char *text = getenv("HOLDFAST_LONG");
    return text != NULL && strcmp(text, "1") == 0 ? lengthy : quick;
}

struct hand_env {
    struct env env;
    uint64_t now_ms;
    struct timer_heap timers;
    struct list works;
};

static inline uint64_t hand_mono_ns(struct env *env)
{
    return CONTAINER_OF(env, struct hand_env, env)->now_ms * 1000000;
}

static inline void hand_timer_set(struct env *env, struct env_timer *timer, uint64_t at_ms)
{
    timer_heap_set(&CONTAINER_OF(env, struct hand_env, env)->timers, timer, at_ms);
}

static inline void hand_timer_stop(struct env *env, struct env_timer *timer)
{
    timer_heap_stop(&CONTAINER_OF(env, struct hand_env, env)->timers, timer);
}

static inline void hand_work(struct env *env, struct env_work *work)
{
    assert_int_equal(work->lane, LANE_BULK);
    list_push(&CONTAINER_OF(env, struct hand_env, env)->works, &work->link);
}

static inline void hand_env_init(struct hand_env *h)
{
    static const struct env_ops ops = {
        .mono_ns = hand_mono_ns,
        .timer_set = hand_timer_set,
        .timer_stop = hand_timer_stop,
        .work = hand_work,
    };
    *h = (struct hand_env){.env.ops = &ops, .now_ms = 1};
    list_init(&h->works);
}

static inline void hand_env_done(struct hand_env *h)
{
    assert_true(list_empty(&h->works));
    assert_int_equal(h->timers.n, 0);
    timer_heap_done(&h->timers);
}

/* Do the work that waits. */
static inline void hand_env_work(struct hand_env *h)
{
    for (struct list *link; (link = list_pop(&h->works)) != NULL;) {
        struct env_work *work = CONTAINER_OF(link, struct env_work, link);
        work->run(work);
        work->done(work);
    }
}

/* Let time pass, firing what is due. */
static inline void hand_env_pass(struct hand_env *h, uint64_t ms)
{
    uint64_t until = h->now_ms + ms;
    for (;;) {
        struct env_timer *timer = timer_heap_first(&h->timers);
        if (timer == NULL || timer->at_ms > until)
            break;
        h->now_ms = MAX(h->now_ms, timer->at_ms);
        timer_heap_stop(&h->timers, timer);
        timer->fire(timer);
    }
    h->now_ms = until;
}

static inline void store_close(struct store *store, struct hand_env *h)
{
    hand_env_work(h);
    store_free(store);
    hand_env_done(h);
}

#endif
