/* A disk under test: files in memory, an env driven by hand, and a model of what the log must hold.
 *
 * The model keeps the log after every append. What is loaded after a crash must be one of those
 * states, not older than the newest one reported as written. */
#ifndef HOLDFAST_TESTS_UNIT_RAFT_DISK_WORLD_H
#define HOLDFAST_TESTS_UNIT_RAFT_DISK_WORLD_H

#include "raft/memfs_crash.h"

#include "base/trace.h"
#include "raft/disk/rlog_disk.h"

enum { WORLD_STATES = 512, WORLD_ENTRIES = 1024, WORLD_SEGMENT = 8192 };

struct model_entry {
    uint64_t term, tag; /* tag decides the content */
};

struct model_state {
    uint64_t last;
    struct model_entry *entries; /* by index, [0] unused */
};

struct world {
    struct env env;
    struct memfs *fs;
    uint64_t now_ms;
    struct timer_heap timers;
    struct list works;

    struct rlog_disk *disk;
    struct rlog_loaded loaded;
    struct rlog_identity identity;
    struct reason reason, fatal_reason;
    enum status fatal_why;
    unsigned fatals, idles;
    uint64_t segment_bytes, reserve_bytes;

    struct model_state states[WORLD_STATES]; /* [0]: when opened */
    uint64_t issued, written;                /* write sequence numbers since the open */
    uint64_t tag, term, term_done, vote_done, term_tried, vote_tried;
};

static inline struct world *world_of(struct env *env)
{
    return CONTAINER_OF(env, struct world, env);
}

static inline uint64_t world_mono_ns(struct env *env)
{
    return world_of(env)->now_ms * 1000000;
}

static inline void world_timer_set(struct env *env, struct env_timer *timer, uint64_t at_ms)
{
    timer_heap_set(&world_of(env)->timers, timer, at_ms);
}

static inline void world_timer_stop(struct env *env, struct env_timer *timer)
{
    timer_heap_stop(&world_of(env)->timers, timer);
}

static inline void world_work(struct env *env, struct env_work *work)
{
    list_push(&world_of(env)->works, &work->link);
}

/* Run one work: of `lane`, or the first when `lane` is LANES. False when there is none. */
static inline bool world_run_one(struct world *w, enum env_lane lane)
{
    LIST_FOR (link, &w->works) {
        struct env_work *work = CONTAINER_OF(link, struct env_work, link);
        if (lane != LANES && work->lane != lane)
            continue;
        list_remove(link);
        work->run(work);
        work->done(work);
        return true;
    }
    return false;
}

static inline void world_run(struct world *w)
{
    while (world_run_one(w, LANES))
        continue;
}

/* Let time pass: timers fire, works run. */
static inline void world_sleep(struct world *w, uint64_t ms)
{
    w->now_ms += ms;
    for (struct env_timer *t = timer_heap_first(&w->timers); t != NULL && t->at_ms <= w->now_ms;
         t = timer_heap_first(&w->timers)) {
        timer_heap_stop(&w->timers, t);
        t->fire(t);
    }
    world_run(w);
}

static inline void world_written(void *ctx, uint64_t seq)
{
    struct world *w = ctx;
    assert_true(seq > w->written && seq <= w->issued);
    assert_int_equal(w->fatals, 0);
    w->written = seq;
}

static inline void world_fatal(void *ctx, enum status why, const struct reason *reason)
{
    struct world *w = ctx;
    w->fatals++;
    w->fatal_why = why;
    w->fatal_reason = *reason;
}

static inline void world_idle(void *ctx)
{
    struct world *w = ctx;
    assert_true(rlog_disk_idle(w->disk));
    w->idles++;
}

static inline void world_quiet(enum trace_level level, const char *module, const char *text)
{
    (void)level;
    (void)module;
    (void)text;
}

static inline struct world *world_new(void)
{
    static const struct env_ops ops = {.mono_ns = world_mono_ns,
                                       .timer_set = world_timer_set,
                                       .timer_stop = world_timer_stop,
                                       .work = world_work};
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    trace_set_sink(world_quiet);
    w->fs = memfs_new();
    w->env = (struct env){&ops, &w->fs->fs};
    list_init(&w->works);
    w->segment_bytes = WORLD_SEGMENT;
    w->reserve_bytes = 1;
    w->term = 1;
    w->identity = (struct rlog_identity){.cluster = "0123456789abcde", .name = "n1", .id = 77};
    w->states[0].entries = calloc(WORLD_ENTRIES, sizeof(struct model_entry));
    assert_non_null(w->states[0].entries);
    return w;
}

static inline enum status world_create(struct world *w)
{
    return rlog_disk_create(&w->env, "d", &w->identity, &w->reason);
}

static inline void world_states_drop(struct world *w, uint64_t from)
{
    for (uint64_t i = from; i < WORLD_STATES && w->states[i].entries != NULL; i++) {
        free(w->states[i].entries);
        w->states[i].entries = NULL;
    }
}

static inline enum status world_try_open(struct world *w)
{
    struct rlog_disk_options o = {.env = &w->env,
                                  .dir = "d",
                                  .ops = {world_written, world_fatal, w},
                                  .segment_bytes = w->segment_bytes,
                                  .reserve_bytes = w->reserve_bytes,
                                  .idle = world_idle};
    struct rlog_identity identity;
    w->fatals = 0;
    return rlog_disk_open(&o, &w->identity, &w->disk, &identity, &w->loaded, &w->reason);
}

static inline void world_close(struct world *w)
{
    world_run(w);
    rlog_disk_close(w->disk);
    rlog_loaded_done(&w->loaded);
    w->disk = NULL;
    assert_int_equal(w->timers.n, 0);
}

static inline void world_free(struct world *w)
{
    if (w->disk != NULL)
        world_close(w);
    world_states_drop(w, 0);
    timer_heap_done(&w->timers);
    memfs_free(w->fs);
    trace_set_sink(NULL);
    free(w);
}

/* The power goes, in the middle of whatever the fault asked for. Works that have not begun never
 * do; closing a dead disk changes nothing. */
static inline void world_crash(struct world *w, uint64_t seed)
{
    w->fs->dead = true;
    if (w->disk != NULL)
        world_close(w);
    memfs_crash(w->fs, seed);
}

#endif
