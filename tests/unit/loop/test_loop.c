#include "base/mem.h"
#include "loop/lane.h"
#include "loop/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

static int setup(void **ctx)
{
    return loop_new(NULL, (struct env **)ctx) == ST_OK ? 0 : -1;
}

static int teardown(void **ctx)
{
    loop_free(*ctx);
    return 0;
}

/* Timers */

struct tick {
    struct env_timer timer;
    struct env *env;
    int id, repeats;
    uint64_t seen_ms;
};

static int fired[64];
static size_t n_fired;

static void tick_fire(struct env_timer *timer)
{
    struct tick *t = CONTAINER_OF(timer, struct tick, timer);
    assert_true(n_fired < ARRAY_LEN(fired));
    fired[n_fired++] = t->id;
    t->seen_ms = env_mono_ms(t->env);
    if (t->repeats-- > 0)
        env_timer_set(t->env, timer, 0);
    if (t->id == 0)
        loop_stop(t->env);
}

static struct tick tick_of(struct env *env, int id)
{
    return (struct tick){.timer = {.fire = tick_fire}, .env = env, .id = id};
}

static void timers_fire_in_order_and_never_early(void **ctx)
{
    struct env *env = *ctx;
    struct tick a = tick_of(env, 1), b = tick_of(env, 2), c = tick_of(env, 3),
                end = tick_of(env, 0);
    uint64_t now = env_mono_ms(env);
    n_fired = 0;
    env_timer_set(env, &end.timer, now + 20);
    env_timer_set(env, &c.timer, now + 10);
    env_timer_set(env, &a.timer, now + 3);
    env_timer_set(env, &b.timer, now + 3);
    loop_run(env);
    assert_int_equal(n_fired, 4);
    assert_int_equal(fired[0], 1);
    assert_int_equal(fired[1], 2);
    assert_int_equal(fired[2], 3);
    assert_true(a.seen_ms >= now + 3 && c.seen_ms >= now + 10 && end.seen_ms >= now + 20);
}

static void a_stopped_timer_does_not_fire(void **ctx)
{
    struct env *env = *ctx;
    struct tick a = tick_of(env, 1), end = tick_of(env, 0);
    n_fired = 0;
    env_timer_set(env, &a.timer, 0);
    env_timer_set(env, &end.timer, env_mono_ms(env) + 5);
    env_timer_stop(env, &a.timer);
    env_timer_stop(env, &a.timer);
    loop_run(env);
    assert_int_equal(n_fired, 1);
}

static void a_moved_timer_fires_once_at_its_new_time(void **ctx)
{
    struct env *env = *ctx;
    struct tick a = tick_of(env, 1), end = tick_of(env, 0);
    uint64_t now = env_mono_ms(env);
    n_fired = 0;
    env_timer_set(env, &a.timer, now + 10000);
    env_timer_set(env, &end.timer, now + 10);
    env_timer_set(env, &a.timer, now + 2);
    loop_run(env);
    assert_int_equal(n_fired, 2);
    assert_int_equal(fired[0], 1);
}

static void a_timer_set_to_the_past_again_and_again_starves_none(void **ctx)
{
    struct env *env = *ctx;
    struct tick greedy = tick_of(env, 1), end = tick_of(env, 0);
    greedy.repeats = 40;
    n_fired = 0;
    env_timer_set(env, &greedy.timer, 0);
    env_timer_set(env, &end.timer, 0);
    loop_run(env);
    assert_true(n_fired < 4);
    env_timer_stop(env, &greedy.timer);
}

/* Posted tasks */

enum { POSTERS = 4, POSTS = 500 };

struct post {
    struct env_task task;
    struct poster *from;
    int nth;
};

struct poster {
    struct env *env;
    pthread_t thread;
    int next;
    int *left;
    struct post posts[POSTS];
};

static void post_run(struct env_task *task)
{
    struct post *p = CONTAINER_OF(task, struct post, task);
    assert_int_equal(p->nth, p->from->next++);
    if (--*p->from->left == 0)
        loop_stop(p->from->env);
}

static void *poster_main(void *arg)
{
    struct poster *p = arg;
    for (int i = 0; i < POSTS; i++) {
        p->posts[i] = (struct post){.task = {.run = post_run}, .from = p, .nth = i};
        env_post(p->env, &p->posts[i].task);
    }
    return NULL;
}

static void tasks_of_each_thread_arrive_in_the_order_posted(void **ctx)
{
    static struct poster posters[POSTERS];
    int left = POSTERS * POSTS;
    for (int i = 0; i < POSTERS; i++) {
        posters[i].env = *ctx;
        posters[i].left = &left;
        posters[i].next = 0;
        assert_int_equal(pthread_create(&posters[i].thread, NULL, poster_main, &posters[i]), 0);
    }
    loop_run(*ctx);
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_join(posters[i].thread, NULL), 0);
    assert_int_equal(left, 0);
}

struct reposter {
    struct env_task task;
    struct env *env;
    int left;
};

static void reposter_run(struct env_task *task)
{
    struct reposter *r = CONTAINER_OF(task, struct reposter, task);
    if (--r->left == 0)
        loop_stop(r->env);
    else
        env_post(r->env, task);
}

static void a_task_may_post_itself_again(void **ctx)
{
    struct reposter r = {.task = {.run = reposter_run}, .env = *ctx, .left = 100};
    env_post(r.env, &r.task);
    loop_run(r.env);
    assert_int_equal(r.left, 0);
}

enum { FREED = 100, FREED_ROUNDS = 40 };

struct last_post {
    struct env_task task;
    struct env *env;
};

static void last_post_run(struct env_task *task)
{
    loop_stop(CONTAINER_OF(task, struct last_post, task)->env);
}

static void *last_post_main(void *arg)
{
    struct last_post *posts = arg;
    for (int i = 0; i < FREED; i++)
        env_post(posts[i].env, &posts[i].task);
    return NULL;
}

/* The thread that posted it may not have come back from the call then. */
static void an_env_may_be_freed_once_its_last_task_has_run(void **ctx)
{
    static struct last_post posts[FREED];
    pthread_t thread;
    (void)ctx; /* has its own */
    for (int round = 0; round < FREED_ROUNDS; round++) {
        for (int i = 0; i < FREED; i++) {
            posts[i].task.run = last_post_run;
            assert_int_equal(loop_new(NULL, &posts[i].env), ST_OK);
        }
        assert_int_equal(pthread_create(&thread, NULL, last_post_main, posts), 0);
        for (int i = 0; i < FREED; i++) {
            loop_run(posts[i].env);
            loop_free(posts[i].env);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

/* Work */

struct job {
    struct env_work work;
    struct env *env;
    int nth;
    atomic_int *running, *next_run;
    int *next_done, *left;
    pthread_t ran_on;
};

static atomic_int job_priority; /* of the thread that ran the last job */

static void job_run(struct env_work *work)
{
    struct job *j = CONTAINER_OF(work, struct job, work);
    if (work->lane < LANE_POOL) {
        assert_int_equal(atomic_fetch_add(j->running, 1), 0);
        assert_int_equal(atomic_fetch_add(j->next_run, 1), j->nth);
        atomic_fetch_sub(j->running, 1);
    }
    j->ran_on = pthread_self();
    atomic_store(&job_priority, getpriority(PRIO_PROCESS, 0));
}

static void job_done(struct env_work *work)
{
    struct job *j = CONTAINER_OF(work, struct job, work);
    if (work->lane < LANE_POOL)
        assert_int_equal(j->nth, (*j->next_done)++);
    if (--*j->left == 0)
        loop_stop(j->env);
}

enum { JOBS = 200 };

static void run_jobs(struct env *env, enum env_lane lane, bool stop)
{
    static struct job jobs[JOBS];
    atomic_int running = 0, next_run = 0;
    int next_done = 0, left = JOBS;
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct job){.work = {.run = job_run, .done = job_done, .lane = lane},
                               .env = env,
                               .nth = i,
                               .running = &running,
                               .next_run = &next_run,
                               .next_done = &next_done,
                               .left = &left};
        env_work(env, &jobs[i].work);
    }
    if (stop)
        loop_run(env);
    else
        loop_free(env);
    assert_int_equal(left, 0);
    for (int i = 0; i < JOBS; i++)
        assert_false(pthread_equal(jobs[i].ran_on, pthread_self()));
}

static void log_work_runs_in_order_one_at_a_time_off_the_loop(void **ctx)
{
    run_jobs(*ctx, LANE_LOG, true);
    run_jobs(*ctx, LANE_BULK, true);
}

static void pool_work_runs_off_the_loop(void **ctx)
{
    run_jobs(*ctx, LANE_POOL, true);
    run_jobs(*ctx, LANE_POOL, true);
}

/* Work that waits until it is let go. */
struct held {
    struct env_work work;
    atomic_bool *go;
    struct env *env;
    unsigned *left;
};

static void held_run(struct env_work *work)
{
    struct held *h = CONTAINER_OF(work, struct held, work);
    while (!atomic_load(h->go))
        (void)sched_yield();
}

static void held_done(struct env_work *work)
{
    struct held *h = CONTAINER_OF(work, struct held, work);
    if (--*h->left == 0)
        loop_stop(h->env);
}

static void pool_work_does_not_wait_for_slow_work(void **ctx)
{
    struct held slow[2 * LANE_THREADS_MAX];
    atomic_bool go = false;
    unsigned left = ARRAY_LEN(slow);
    for (size_t i = 0; i < ARRAY_LEN(slow); i++) {
        slow[i] = (struct held){.work = {.run = held_run, .done = held_done, .lane = LANE_SLOW},
                                .go = &go,
                                .env = *ctx,
                                .left = &left};
        env_work(*ctx, &slow[i].work);
    }
    run_jobs(*ctx, LANE_POOL, true);
    assert_int_equal(left, ARRAY_LEN(slow));
    atomic_store(&go, true);
    loop_run(*ctx);
    assert_int_equal(left, 0);
    run_jobs(*ctx, LANE_SLOW, true);
}

static void pool_and_bulk_work_yield_to_the_loops_and_the_log(void **ctx)
{
    int own = getpriority(PRIO_PROCESS, 0);
    run_jobs(*ctx, LANE_LOG, true);
    assert_int_equal(atomic_load(&job_priority), own);
    run_jobs(*ctx, LANE_POOL, true);
    assert_int_equal(atomic_load(&job_priority), MIN(own + 10, 19));
    run_jobs(*ctx, LANE_BULK, true);
    assert_int_equal(atomic_load(&job_priority), MIN(own + 10, 19));
}

static void freeing_waits_for_submitted_work(void **ctx)
{
    struct env *env = NULL;
    (void)ctx; /* has its own */
    assert_int_equal(loop_new(NULL, &env), ST_OK);
    run_jobs(env, LANE_LOG, false);
}

static atomic_bool release;

static void wait_run(struct env_work *work)
{
    (void)work; /* only the flag counts */
    while (!atomic_load(&release))
        sched_yield();
}

static void nothing_run(struct env_work *work)
{
    (void)work; /* its end counts */
}

static void release_done(struct env_work *work)
{
    atomic_store(&release, true);
    job_done(work);
}

static void lanes_do_not_wait_for_each_other(void **ctx)
{
    struct env *env = *ctx;
    int left = 2, done = 0;
    atomic_store(&release, false);
    struct job slow = {.work = {.run = wait_run, .done = job_done, .lane = LANE_BULK},
                       .env = env,
                       .next_done = &done,
                       .left = &left,
                       .nth = 1};
    struct job quick = slow;
    quick.nth = 0;
    quick.work.run = nothing_run;
    quick.work.done = release_done;
    quick.work.lane = LANE_LOG;
    env_work(env, &slow.work);
    env_work(env, &quick.work);
    loop_run(env);
    assert_int_equal(left, 0);
}

/* Several envs */

struct ping {
    struct env_task task;
    struct env *envs[2];
    int at, left;
};

static void ping_run(struct env_task *task)
{
    struct ping *p = CONTAINER_OF(task, struct ping, task);
    if (--p->left == 0) {
        loop_stop(p->envs[0]);
        loop_stop(p->envs[1]);
        return;
    }
    p->at = !p->at;
    env_post(p->envs[p->at], task);
}

static void *env_main(void *env)
{
    loop_run(env);
    return NULL;
}

static void two_envs_hand_a_task_to_and_fro(void **ctx)
{
    struct env *other = NULL;
    pthread_t thread;
    assert_int_equal(loop_new(NULL, &other), ST_OK);
    struct ping p = {.task = {.run = ping_run}, .envs = {*ctx, other}, .left = 300};
    env_post(*ctx, &p.task);
    assert_int_equal(pthread_create(&thread, NULL, env_main, other), 0);
    loop_run(*ctx);
    assert_int_equal(pthread_join(thread, NULL), 0);
    loop_free(other);
    assert_int_equal(p.left, 0);
}

enum { ROUND_TASKS = 100 };

struct rounds {
    struct env_task start, tasks[ROUND_TASKS];
    struct env *here, *other;
    int next;
};

static void round_run(struct env_task *task)
{
    static struct rounds *r;
    if (r == NULL)
        r = CONTAINER_OF(task, struct rounds, tasks[0]); /* the first comes first */
    assert_ptr_equal(task, &r->tasks[r->next]);
    if (++r->next == ROUND_TASKS)
        loop_stop(r->other);
}

/* The last round of this loop. */
static void round_start(struct env_task *task)
{
    struct rounds *r = CONTAINER_OF(task, struct rounds, start);
    for (int i = 0; i < ROUND_TASKS; i++) {
        r->tasks[i].run = round_run;
        (i % 40 == 39 ? env_post : env_post_round)(r->other, &r->tasks[i]);
    }
    loop_stop(r->here);
}

static void what_a_round_posts_arrives_in_order(void **ctx)
{
    struct env *other = NULL;
    pthread_t thread;
    assert_int_equal(loop_new(NULL, &other), ST_OK);
    static struct rounds r = {.start = {.run = round_start}};
    r.here = *ctx;
    r.other = other;
    env_post(*ctx, &r.start);
    assert_int_equal(pthread_create(&thread, NULL, env_main, other), 0);
    loop_run(*ctx);
    assert_int_equal(pthread_join(thread, NULL), 0);
    loop_free(other);
    assert_int_equal(r.next, ROUND_TASKS);
}

static void ping_round(struct env_task *task)
{
    struct ping *p = CONTAINER_OF(task, struct ping, task);
    if (--p->left == 0) {
        loop_stop(p->envs[0]);
        loop_stop(p->envs[1]);
        return;
    }
    p->at = !p->at;
    env_post_round(p->envs[p->at], task);
}

/* Nothing else would end either loop's waiting. */
static void what_a_round_posts_leaves_before_the_loop_waits(void **ctx)
{
    struct env *other = NULL;
    pthread_t thread;
    assert_int_equal(loop_new(NULL, &other), ST_OK);
    struct ping p = {.task = {.run = ping_round}, .envs = {*ctx, other}, .left = 300};
    env_post_round(*ctx, &p.task); /* of a thread without a loop */
    assert_int_equal(pthread_create(&thread, NULL, env_main, other), 0);
    loop_run(*ctx);
    assert_int_equal(pthread_join(thread, NULL), 0);
    loop_free(other);
    assert_int_equal(p.left, 0);
}

struct deferrer {
    struct env *env;
    struct env_task start, ready, deferred, later, cancelled;
    struct env_timer timer;
    unsigned ran; /* tasks that have run */
};

static void deferrer_ready(struct env_task *task)
{
    struct deferrer *d = CONTAINER_OF(task, struct deferrer, ready);
    assert_int_equal(d->ran++, 0);
}

static void deferrer_end(struct env_task *task)
{
    struct deferrer *d = CONTAINER_OF(task, struct deferrer, deferred);
    assert_int_equal(d->ran++, 1);
    env_defer(d->env, &d->later);
}

static void deferrer_later(struct env_task *task)
{
    struct deferrer *d = CONTAINER_OF(task, struct deferrer, later);
    assert_int_equal(d->ran++, 2);
    loop_stop(d->env);
}

static void deferrer_never(struct env_task *task)
{
    (void)task;
    fail_msg("the task was cancelled");
}

static void deferrer_late(struct env_timer *timer)
{
    (void)timer;
    fail_msg("the loop waited before it ran what was deferred");
}

static void deferrer_start(struct env_task *task)
{
    struct deferrer *d = CONTAINER_OF(task, struct deferrer, start);
    env_defer(d->env, &d->cancelled);
    env_defer(d->env, &d->deferred);
    env_post(d->env, &d->ready);
    env_defer_cancel(&d->cancelled);
    env_defer_cancel(&d->cancelled);
    env_timer_set(d->env, &d->timer, env_mono_ms(d->env) + 60000);
}

static void deferred_tasks_run_behind_ready_ones_before_the_loop_waits(void **ctx)
{
    struct deferrer d = {
        .env = *ctx,
        .start = {.run = deferrer_start},
        .ready = {.run = deferrer_ready},
        .deferred = {.run = deferrer_end},
        .later = {.run = deferrer_later},
        .cancelled = {.run = deferrer_never},
        .timer = {.fire = deferrer_late},
    };
    env_post(d.env, &d.start);
    loop_run(d.env);
    assert_int_equal(d.ran, 3);
    env_timer_stop(d.env, &d.timer);
}

static void repost_run(struct env_task *task)
{
    struct reposter *r = CONTAINER_OF(task, struct reposter, task);
    if (r->left != 0)
        env_post_round(r->env, task);
}

struct stopper {
    struct env_timer timer;
    struct reposter *reposter;
};

static void stopper_fire(struct env_timer *timer)
{
    struct reposter *r = CONTAINER_OF(timer, struct stopper, timer)->reposter;
    r->left = 0;
    loop_stop(r->env);
}

static void a_task_that_comes_again_for_ever_lets_a_timer_fire(void **ctx)
{
    struct reposter r = {.task = {.run = repost_run}, .env = *ctx, .left = 1};
    struct stopper s = {.timer = {.fire = stopper_fire}, .reposter = &r};
    env_post(r.env, &r.task);
    env_timer_set(r.env, &s.timer, env_mono_ms(r.env) + 2);
    loop_run(r.env);
    assert_int_equal(r.left, 0);
}

static void stopping_before_the_run_ends_it_at_once(void **ctx)
{
    loop_stop(*ctx);
    loop_run(*ctx);
}

enum { DRAWS = 200, DRAW_TURNS = 3, DRAW_BYTES = 12 };

struct drawer {
    struct env_task task;
    struct env *env;
    unsigned n;
    uint8_t drawn[DRAWS * DRAW_TURNS][DRAW_BYTES];
};

/* More than are fetched ahead, with others of other lengths between them. */
static void drawer_run(struct env_task *task)
{
    struct drawer *d = CONTAINER_OF(task, struct drawer, task);
    uint8_t other[64];
    for (unsigned i = 0; i < DRAWS; i++) {
        env_random(d->env, d->drawn[d->n++], DRAW_BYTES);
        env_random(d->env, other, i % sizeof other);
    }
    if (d->n == ARRAY_LEN(d->drawn))
        loop_stop(d->env);
    else
        env_post(d->env, task);
}

static int draw_order(const void *a, const void *b)
{
    return memcmp(a, b, DRAW_BYTES);
}

static void no_nonce_comes_twice(void **ctx)
{
    static struct drawer d;
    static const uint8_t zero[DRAW_BYTES];
    d = (struct drawer){.task = {.run = drawer_run}, .env = *ctx};
    env_post(*ctx, &d.task);
    loop_run(*ctx);
    qsort(d.drawn, ARRAY_LEN(d.drawn), DRAW_BYTES, draw_order);
    assert_memory_not_equal(d.drawn[0], zero, DRAW_BYTES); /* nor one that was wiped */
    for (size_t i = 1; i < ARRAY_LEN(d.drawn); i++)
        assert_memory_not_equal(d.drawn[i - 1], d.drawn[i], DRAW_BYTES);
}

static void random_bytes_differ_and_clocks_advance(void **ctx)
{
    struct env *env = *ctx;
    uint8_t a[300] = {0}, b[300] = {0};
    uint64_t before = env_mono_ns(env);
    env_random(env, a, sizeof a);
    env_random(env, b, sizeof b);
    env_random(env, b, 0);
    assert_memory_not_equal(a, b, sizeof a);
    assert_true(env_mono_ns(env) > before);
    assert_true(env_wall_ms(env) > 1700000000000);
}

static void making_an_env_survives_lack_of_memory(void **ctx)
{
    struct env *env = NULL;
    (void)ctx; /* has its own */
    mem_fail_nth(1);
    assert_int_equal(loop_new(NULL, &env), ST_NOMEM);
    assert_true(mem_fail_nth(0));
    assert_null(env);
    loop_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(timers_fire_in_order_and_never_early, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stopped_timer_does_not_fire, setup, teardown),
        cmocka_unit_test_setup_teardown(a_moved_timer_fires_once_at_its_new_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_timer_set_to_the_past_again_and_again_starves_none, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(tasks_of_each_thread_arrive_in_the_order_posted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_task_may_post_itself_again, setup, teardown),
        cmocka_unit_test(an_env_may_be_freed_once_its_last_task_has_run),
        cmocka_unit_test_setup_teardown(log_work_runs_in_order_one_at_a_time_off_the_loop, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(pool_work_runs_off_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(pool_work_does_not_wait_for_slow_work, setup, teardown),
        cmocka_unit_test_setup_teardown(pool_and_bulk_work_yield_to_the_loops_and_the_log, setup,
                                        teardown),
        cmocka_unit_test(freeing_waits_for_submitted_work),
        cmocka_unit_test_setup_teardown(lanes_do_not_wait_for_each_other, setup, teardown),
        cmocka_unit_test_setup_teardown(two_envs_hand_a_task_to_and_fro, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_round_posts_arrives_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_round_posts_leaves_before_the_loop_waits, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_task_that_comes_again_for_ever_lets_a_timer_fire, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(deferred_tasks_run_behind_ready_ones_before_the_loop_waits,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(stopping_before_the_run_ends_it_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(random_bytes_differ_and_clocks_advance, setup, teardown),
        cmocka_unit_test_setup_teardown(no_nonce_comes_twice, setup, teardown),
        cmocka_unit_test(making_an_env_survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
