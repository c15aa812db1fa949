#include "core.h"
#include "selftest.h"
#include "sim_env.h"
#include "sim_mem.h"
#include "sim_net.h"

struct probe {
    struct event event;
    struct core *core;
    uint64_t fired_ns;
    unsigned order;
};

static unsigned order;

static void on_probe(struct event *event)
{
    struct probe *p = CONTAINER_OF(event, struct probe, event);
    p->fired_ns = p->core->now_ns;
    p->order = order++;
}

static void events_fire_in_order_of_time_and_scheduling(void)
{
    struct core core;
    struct probe p[50] = {0};
    struct rng r = rng_make(7, 0);
    core_init(&core, 1, false);
    for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
        p[i] = (struct probe){.event = {.fire = on_probe}, .core = &core};
        core_at(&core, &p[i].event, rng_below(&r, 10));
    }
    core_cancel(&core, &p[3].event);
    order = 1;
    while (core_next(&core) != NULL)
        core_fire(&core);
    CHECK(p[3].order == 0);
    for (unsigned i = 0; i < ARRAY_LEN(p); i++)
        for (unsigned j = i + 1; j < ARRAY_LEN(p); j++)
            if (i != 3 && j != 3 && p[i].fired_ns != p[j].fired_ns)
                CHECK((p[i].fired_ns < p[j].fired_ns) == (p[i].order < p[j].order));
            else if (i != 3 && j != 3)
                CHECK(p[i].order < p[j].order);
    core_done(&core);
}

static void streams_of_one_seed_differ_and_repeat(void)
{
    struct rng a = rng_make(1, 1), b = rng_make(1, 2), c = rng_make(1, 1);
    unsigned same = 0;
    for (unsigned i = 0; i < 100; i++) {
        uint64_t x = rng_u64(&a);
        same += x == rng_u64(&b);
        CHECK(x == rng_u64(&c));
    }
    CHECK(same == 0);
}

struct timed {
    struct env_timer timer;
    struct env *env;
    uint64_t fired_ms;
};

static void on_timed(struct env_timer *timer)
{
    struct timed *t = CONTAINER_OF(timer, struct timed, timer);
    t->fired_ms = env_mono_ms(t->env);
}

static bool still_there(void *ctx)
{
    (void)ctx;
    return true;
}

static void timers_follow_a_drifting_clock(void)
{
    for (int64_t drift = -500; drift <= 500; drift += 500) {
        struct core core;
        struct sim_fs fs;
        struct sim_env env;
        struct sim_clock clock = {.boot_ns = 5ull * SIM_S, .drift_ppm = drift};
        core_init(&core, 1, false);
        sim_fs_init(&fs, &core, 1);
        sim_env_init(&env, &core, &fs, &clock, 2);
        env.left = still_there;
        struct timed t = {.timer = {.fire = on_timed}, .env = &env.env};
        env_timer_set(&env.env, &t.timer, 65000);
        while (core_next(&core) != NULL)
            core_fire(&core);
        CHECK(t.fired_ms >= 65000 && t.fired_ms <= 65002);
        sim_env_done(&env);
        sim_fs_done(&fs);
        core_done(&core);
    }
}

struct job {
    struct env_work work;
    struct core *core;
    uint64_t ran_ns, done_ns;
};

static void job_run(struct env_work *work)
{
    struct job *j = CONTAINER_OF(work, struct job, work);
    j->ran_ns = j->core->now_ns;
}

static void job_done(struct env_work *work)
{
    struct job *j = CONTAINER_OF(work, struct job, work);
    j->done_ns = j->core->now_ns;
}

static void work_of_a_lane_runs_in_order_one_at_a_time(void)
{
    struct core core;
    struct sim_fs fs;
    struct sim_env env;
    struct sim_clock clock = {0};
    struct job jobs[8] = {0};
    core_init(&core, 3, false);
    sim_fs_init(&fs, &core, 1);
    sim_env_init(&env, &core, &fs, &clock, 2);
    env.left = still_there;
    for (unsigned i = 0; i < ARRAY_LEN(jobs); i++) {
        jobs[i] = (struct job){.work = {.run = job_run, .done = job_done, .lane = LANE_LOG},
                               .core = &core};
        env_work(&env.env, &jobs[i].work);
    }
    while (core_next(&core) != NULL)
        core_fire(&core);
    for (unsigned i = 0; i < ARRAY_LEN(jobs); i++) {
        CHECK(jobs[i].ran_ns != 0 && jobs[i].done_ns > jobs[i].ran_ns);
        CHECK(i == 0 || jobs[i].ran_ns > jobs[i - 1].ran_ns);
    }
    sim_env_done(&env);
    sim_fs_done(&fs);
    core_done(&core);
}

static void memory_goes_with_its_owner(void)
{
    unsigned before = sim_mem_owner(9);
    char *a = mem_alloc(10), *b = mem_realloc(NULL, 100);
    b = mem_must_realloc(b, 5000);
    CHECK(a != NULL && sim_mem_count(9) == 2);
    sim_mem_owner(before);
    b = mem_realloc(b, 10); /* moved by the simulator itself: no longer the node's */
    CHECK(b != NULL && sim_mem_count(9) == 1);
    mem_free(b);
    sim_mem_drop(9);
    CHECK(sim_mem_count(9) == 0);
}

struct wire {
    struct sim_net net;
    unsigned arrived;
    uint64_t process[SLOTS];
    uint8_t last;
    bool fell_back;
};

static uint64_t wire_process(void *ctx, unsigned slot)
{
    struct wire *w = ctx;
    return w->process[slot];
}

static uint64_t wire_deliver(void *ctx, const struct frame *frame)
{
    struct wire *w = ctx;
    w->arrived++;
    w->fell_back = w->fell_back || frame->data[0] < w->last;
    w->last = frame->data[0];
    return 0;
}

static void wire_send(struct wire *w, uint8_t byte)
{
    struct sim_route route = {.from = 0, .to = 1, .from_id = 1};
    struct bytes part = {&byte, 1};
    sim_net_send(&w->net, &route, &part, 1);
}

static struct wire *wire_new(struct core *core)
{
    struct wire *w = sim_alloc(sizeof *w);
    core_init(core, 5, false);
    sim_net_init(&w->net, core, 4);
    w->net.process = wire_process;
    w->net.deliver = wire_deliver;
    w->net.ctx = w;
    w->process[1] = 1;
    return w;
}

static void wire_free(struct wire *w, struct core *core)
{
    sim_net_done(&w->net);
    core_done(core);
    free(w);
}

static void frames_keep_their_order_when_asked_and_not_otherwise(void)
{
    for (unsigned ordered = 0; ordered < 2; ordered++) {
        struct core core;
        struct wire *w = wire_new(&core);
        w->net.ordered = ordered != 0;
        for (unsigned i = 0; i < 100; i++)
            wire_send(w, (uint8_t)i);
        while (core_next(&core) != NULL)
            core_fire(&core);
        CHECK(w->arrived == 100 && w->fell_back == !w->net.ordered);
        wire_free(w, &core);
    }
}

static void frames_end_with_the_process_and_the_link(void)
{
    struct core core;
    struct wire *w = wire_new(&core);
    wire_send(w, 1);
    w->process[1] = 2; /* restarted before the frame arrived */
    core_fire(&core);
    CHECK(w->arrived == 0);
    w->net.cut[0][1] = true;
    wire_send(w, 2);
    CHECK(core_next(&core) == NULL);
    sim_net_heal(&w->net);
    w->net.repeat_permille = 1000;
    wire_send(w, 3);
    while (core_next(&core) != NULL)
        core_fire(&core);
    CHECK(w->arrived == 2);
    wire_free(w, &core);
}

unsigned selftest_core(void)
{
    events_fire_in_order_of_time_and_scheduling();
    streams_of_one_seed_differ_and_repeat();
    timers_follow_a_drifting_clock();
    work_of_a_lane_runs_in_order_one_at_a_time();
    memory_goes_with_its_owner();
    frames_keep_their_order_when_asked_and_not_otherwise();
    frames_end_with_the_process_and_the_link();
    return 7;
}
