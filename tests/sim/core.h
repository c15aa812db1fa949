/* Core of the simulator: seeded randomness, virtual time, the event heap, and failing a run.
 *
 * One process runs one simulation on one thread. Whatever decides the order of things comes from
 * the seed: a run is repeated exactly by its seed and profile. */
#ifndef HOLDFAST_SIM_CORE_H
#define HOLDFAST_SIM_CORE_H

#include "base/bytes.h"

enum { SIM_US = 1000, SIM_MS = 1000 * 1000, SIM_S = 1000 * 1000 * 1000 };

struct rng {
    uint64_t s[2];
};

/* Streams of one seed do not influence each other: `stream` separates them. */
struct rng rng_make(uint64_t seed, uint64_t stream);
uint64_t rng_u64(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t below);             /* 0..below-1; below ≥ 1 */
uint64_t rng_between(struct rng *r, uint64_t lo, uint64_t hi); /* lo..hi */
bool rng_chance(struct rng *r, unsigned permille);

/* Mixes `v` into `h`. */
static inline uint64_t hash_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

/* Embedded in its owner. Zero-initialise and set `fire`. */
struct event {
    uint64_t at_ns, seq;
    size_t slot; /* place in the heap + 1; 0 when not scheduled */
    void (*fire)(struct event *event);
};

struct core {
    uint64_t seed, now_ns;
    uint64_t fired;         /* events so far */
    uint64_t fired_at_once; /* events at the present instant */
    uint64_t hash;          /* of everything that happened */
    bool verbose;
    struct event **heap;
    size_t heap_n, heap_cap;
    uint64_t seq;
};

void core_init(struct core *core, uint64_t seed, bool verbose);
void core_done(struct core *core);
/* A scheduled event is moved. */
void core_at(struct core *core, struct event *event, uint64_t at_ns);
void core_after(struct core *core, struct event *event, uint64_t delay_ns);
void core_cancel(struct core *core, struct event *event);
/* The next event, still scheduled; NULL when there is none. */
struct event *core_next(const struct core *core);
/* Move the clock to `at_ns` and count one event; the run fails when time stands still. */
void core_advance(struct core *core, uint64_t at_ns);
/* Run the next event, which must exist. */
void core_fire(struct core *core);

/* Record what happened, for the comparison of two runs of one seed. */
static inline void core_note(struct core *core, uint64_t what)
{
    core->hash = hash_mix(core->hash, what);
}

/* A line of the event trace, with --verbose. */
void core_say(const struct core *core, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The run found a fault: report it and leave the process with status 1. */
void core_fail(const struct core *core, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn, cold));
/* Where core_fail writes its one line; standard error at first. */
void core_fail_to(int fd);

/* Memory of the simulator itself; never NULL. Released with free(). */
void *sim_alloc(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *sim_grow(void *old, size_t size) __attribute__((returns_nonnull, warn_unused_result));

#endif
