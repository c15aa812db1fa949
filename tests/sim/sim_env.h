/* struct env on virtual time, one per running process of a node.
 *
 * Timers, work and tasks are events of the core. Every call into the program runs between
 * sim_env_enter and sim_env_leave, which set whose memory is allocated and let the node look at
 * what the call did. A stalled process gets its events late: a pause, or blocking calls that took
 * their time. */
#ifndef HOLDFAST_SIM_ENV_H
#define HOLDFAST_SIM_ENV_H

#include "base/env.h"
#include "sim_fs.h"

enum { POOL_THREADS = 3 };

struct sim_clock { /* a machine's; survives restarts of the process */
    int64_t wall_offset_ms;
    int64_t drift_ppm;
    uint64_t boot_ns; /* what the monotonic clock showed at virtual time 0 */
};

struct sim_env {
    struct env env; /* first */
    struct core *core;
    struct sim_fs *fs;
    const struct sim_clock *clock;
    unsigned owner; /* of memory */
    struct rng rng, pace;
    struct timer_heap timers;
    struct event timer_event, post_event;
    struct list posted;       /* struct env_task */
    struct list lanes[LANES]; /* struct sim_job, waiting */
    struct list running;
    unsigned busy[LANES];
    uint64_t stalled_until_ns;
    unsigned depth, owner_before;
    /* After each call into the program. It may end the process; then it returns false, and the
     * env is gone. */
    bool (*left)(void *ctx);
    void *ctx;
};

void sim_env_init(struct sim_env *env, struct core *core, struct sim_fs *fs,
                  const struct sim_clock *clock, uint64_t stream);
/* Forget everything that waits or runs; nothing is called any more. */
void sim_env_done(struct sim_env *env);

/* The process is about to end in the midst of what its workers do: let the disk know their calls,
 * of which a part will turn out to have been made. */
void sim_env_cut(struct sim_env *env);

void sim_env_enter(struct sim_env *env);
/* false when the process is gone. */
bool sim_env_leave(struct sim_env *env);

/* No event of the process runs before `until_ns`. */
void sim_env_stall(struct sim_env *env, uint64_t until_ns);
/* When the process is stalled, `event` is put off and false returned: the caller goes away. */
bool sim_env_awake(struct sim_env *env, struct event *event);

uint64_t sim_clock_mono_ns(const struct sim_clock *clock, uint64_t now_ns);
int64_t sim_clock_wall_ms(const struct sim_clock *clock, uint64_t now_ns);

#endif
