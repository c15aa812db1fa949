#include "sim_env.h"

#include "sim_mem.h"

#include <stdlib.h>

static const int64_t WALL_START_MS = 1800000000000; /* an instant in 2027 */

/* Work that waits for its lane, then for its virtual end. Only then it is really run: until that
 * moment nobody sees what it does. What it needs longer than that only delays its answer. */
struct sim_job {
    struct list link;
    struct event event;
    struct sim_env *env;
    struct env_work *work;
    bool ran;
    struct fs_job calls;
};

static struct sim_env *env_of(struct env *env)
{
    return CONTAINER_OF(env, struct sim_env, env);
}

uint64_t sim_clock_mono_ns(const struct sim_clock *clock, uint64_t now_ns)
{
    return clock->boot_ns + now_ns / 1000000 * (uint64_t)(1000000 + clock->drift_ppm) +
           now_ns % 1000000;
}

int64_t sim_clock_wall_ms(const struct sim_clock *clock, uint64_t now_ns)
{
    int64_t now_ms = (int64_t)(now_ns / SIM_MS);
    return WALL_START_MS + clock->wall_offset_ms + now_ms + now_ms * clock->drift_ppm / 1000000;
}

static uint64_t sim_mono_ns(struct env *base)
{
    struct sim_env *env = env_of(base);
    return sim_clock_mono_ns(env->clock, env->core->now_ns);
}

static int64_t sim_wall_ms(struct env *base)
{
    struct sim_env *env = env_of(base);
    return sim_clock_wall_ms(env->clock, env->core->now_ns);
}

static void sim_random(struct env *base, void *buf, size_t n)
{
    struct sim_env *env = env_of(base);
    for (size_t at = 0; at < n; at += 8) {
        uint64_t word = rng_u64(&env->rng);
        memcpy((uint8_t *)buf + at, &word, MIN(n - at, sizeof word));
    }
}

void sim_env_enter(struct sim_env *env)
{
    if (env->depth++ == 0)
        env->owner_before = sim_mem_owner(env->owner);
}

bool sim_env_leave(struct sim_env *env)
{
    ASSERT(env->depth > 0);
    if (--env->depth != 0)
        return true;
    uint64_t cost = sim_fs_cost(env->fs); /* calls of the loop thread block it */
    if (cost != 0)
        sim_env_stall(env, env->core->now_ns + cost);
    sim_mem_owner(env->owner_before);
    return env->left(env->ctx);
}

void sim_env_stall(struct sim_env *env, uint64_t until_ns)
{
    env->stalled_until_ns = MAX(env->stalled_until_ns, until_ns);
}

bool sim_env_awake(struct sim_env *env, struct event *event)
{
    if (env->stalled_until_ns <= env->core->now_ns)
        return true;
    core_at(env->core, event, env->stalled_until_ns);
    return false;
}

static uint64_t timer_due_ns(const struct sim_env *env, const struct env_timer *timer)
{
    uint64_t now = env->core->now_ns, at_ns = timer->at_ms * SIM_MS;
    uint64_t mono = sim_clock_mono_ns(env->clock, now);
    if (at_ns <= mono)
        return now;
    uint64_t rate = (uint64_t)(1000000 + env->clock->drift_ppm);
    return now + (at_ns - mono) / rate * 1000000 + 1000000; /* late by up to 1 ms, as real ones */
}

static void timers_schedule(struct sim_env *env)
{
    struct env_timer *first = timer_heap_first(&env->timers);
    if (first == NULL)
        core_cancel(env->core, &env->timer_event);
    else
        core_at(env->core, &env->timer_event, timer_due_ns(env, first));
}

static void on_timer(struct event *event)
{
    struct sim_env *env = CONTAINER_OF(event, struct sim_env, timer_event);
    struct env_timer *first = timer_heap_first(&env->timers);
    if (!sim_env_awake(env, event))
        return;
    if (first == NULL || first->at_ms > env_mono_ms(&env->env)) {
        timers_schedule(env);
        return;
    }
    core_note(env->core, 0x7100 + env->owner);
    timer_heap_stop(&env->timers, first);
    sim_env_enter(env);
    first->fire(first);
    timers_schedule(env);
    (void)sim_env_leave(env); /* nothing is touched after it */
}

static void sim_timer_set(struct env *base, struct env_timer *timer, uint64_t at_ms)
{
    struct sim_env *env = env_of(base);
    timer_heap_set(&env->timers, timer, at_ms);
    timers_schedule(env);
}

static void sim_timer_stop(struct env *base, struct env_timer *timer)
{
    struct sim_env *env = env_of(base);
    timer_heap_stop(&env->timers, timer);
    timers_schedule(env);
}

static void on_post(struct event *event)
{
    struct sim_env *env = CONTAINER_OF(event, struct sim_env, post_event);
    if (!sim_env_awake(env, event))
        return;
    struct list *link = list_pop(&env->posted);
    if (link == NULL)
        return;
    if (!list_empty(&env->posted))
        core_after(env->core, &env->post_event, 0);
    struct env_task *task = CONTAINER_OF(link, struct env_task, link);
    sim_env_enter(env);
    task->run(task);
    (void)sim_env_leave(env); /* nothing is touched after it */
}

static void sim_post(struct env *base, struct env_task *task)
{
    struct sim_env *env = env_of(base);
    list_push(&env->posted, &task->link);
    if (env->post_event.slot == 0)
        core_after(env->core, &env->post_event, 1 * SIM_US);
}

static void lane_start(struct sim_env *env, enum env_lane lane)
{
    unsigned most = lane == LANE_POOL ? POOL_THREADS : 1; /* LANE_SLOW: half of them */
    while (env->busy[lane] < most && !list_empty(&env->lanes[lane])) {
        struct sim_job *job = CONTAINER_OF(list_pop(&env->lanes[lane]), struct sim_job, link);
        uint64_t slow = MAX(env->fs->faults.slow, 1u) * env->fs->sync_ns_max;
        env->busy[lane]++;
        list_push(&env->running, &job->link);
        core_after(env->core, &job->event, rng_between(&env->pace, 5 * SIM_US, 50 * SIM_US + slow));
    }
}

/* The calls to the disk that it makes are the job's. */
static void job_call(struct sim_job *job)
{
    struct sim_env *env = job->env;
    uint64_t inline_cost = sim_fs_cost(env->fs);
    sim_fs_job_run(env->fs, &job->calls);
    job->work->run(job->work);
    sim_fs_job_pause(env->fs);
    job->ran = true;
    job->calls.cost_ns = sim_fs_cost(env->fs);
    env->fs->cost_ns = inline_cost;
}

static void job_run(struct sim_job *job)
{
    struct sim_env *env = job->env;
    enum env_lane lane = job->work->lane;
    sim_env_enter(env);
    job_call(job);
    if (!env->fs->dead)
        sim_fs_job_end(env->fs, &job->calls);
    core_after(env->core, &job->event, job->calls.cost_ns / 4 + 1 * SIM_US);
    env->busy[lane]--;
    lane_start(env, lane);
    (void)sim_env_leave(env); /* nothing is touched after it */
}

static void on_job(struct event *event)
{
    struct sim_job *job = CONTAINER_OF(event, struct sim_job, event);
    struct sim_env *env = job->env;
    struct env_work *work = job->work;
    if (!job->ran) { /* a worker thread goes on although the loop is stalled */
        job_run(job);
        return;
    }
    if (!sim_env_awake(env, event))
        return;
    core_note(env->core, 0x7200 + env->owner);
    list_remove(&job->link);
    free(job);
    sim_env_enter(env);
    work->done(work);
    (void)sim_env_leave(env); /* nothing is touched after it */
}

void sim_env_cut(struct sim_env *env)
{
    bool dead = env->fs->dead;
    unsigned owner = sim_mem_owner(env->owner);
    env->fs->dead = false;
    LIST_FOR (link, &env->running) {
        struct sim_job *job = CONTAINER_OF(link, struct sim_job, link);
        if (!job->ran)
            job_call(job);
    }
    env->fs->dead = dead;
    sim_mem_owner(owner);
}

static void sim_work(struct env *base, struct env_work *work)
{
    struct sim_env *env = env_of(base);
    struct sim_job *job = sim_alloc(sizeof *job);
    ASSERT(work->run != NULL && work->done != NULL && work->lane < LANES);
    job->event.fire = on_job;
    job->env = env;
    job->work = work;
    list_push(&env->lanes[work->lane], &job->link);
    lane_start(env, work->lane);
}

static const struct env_ops sim_env_ops = {
    .mono_ns = sim_mono_ns,
    .wall_ms = sim_wall_ms,
    .random = sim_random,
    .timer_set = sim_timer_set,
    .timer_stop = sim_timer_stop,
    .work = sim_work,
    .post = sim_post,
};

void sim_env_init(struct sim_env *env, struct core *core, struct sim_fs *fs,
                  const struct sim_clock *clock, uint64_t stream)
{
    *env = (struct sim_env){.env = {.ops = &sim_env_ops, .fs = &fs->fs},
                            .core = core,
                            .fs = fs,
                            .clock = clock,
                            .rng = rng_make(core->seed, stream),
                            .pace = rng_make(core->seed, stream ^ 0xACE),
                            .timer_event = {.fire = on_timer},
                            .post_event = {.fire = on_post}};
    list_init(&env->posted);
    list_init(&env->running);
    for (unsigned lane = 0; lane < LANES; lane++)
        list_init(&env->lanes[lane]);
}

static void jobs_drop(struct core *core, struct list *jobs)
{
    struct list *link;
    while ((link = list_pop(jobs)) != NULL) {
        struct sim_job *job = CONTAINER_OF(link, struct sim_job, link);
        core_cancel(core, &job->event);
        free(job);
    }
}

void sim_env_done(struct sim_env *env)
{
    core_cancel(env->core, &env->timer_event);
    core_cancel(env->core, &env->post_event);
    jobs_drop(env->core, &env->running);
    for (unsigned lane = 0; lane < LANES; lane++)
        jobs_drop(env->core, &env->lanes[lane]);
    timer_heap_done(&env->timers);
}
