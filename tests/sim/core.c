#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EVENTS_AT_ONCE_MAX = 200000 };

static int fail_fd = STDERR_FILENO;

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = *x += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

struct rng rng_make(uint64_t seed, uint64_t stream)
{
    uint64_t x = seed ^ hash_mix(0x5EED, stream);
    struct rng r = {{splitmix(&x), splitmix(&x) | 1}};
    return r;
}

/* xoroshiro128+ (Blackman and Vigna). */
uint64_t rng_u64(struct rng *r)
{
    uint64_t a = r->s[0], b = r->s[1], sum = a + b;
    b ^= a;
    r->s[0] = (a << 24 | a >> 40) ^ b ^ b << 16;
    r->s[1] = b << 37 | b >> 27;
    return sum;
}

uint64_t rng_below(struct rng *r, uint64_t below)
{
    ASSERT(below != 0);
    return (uint64_t)((unsigned __int128)rng_u64(r) * below >> 64);
}

uint64_t rng_between(struct rng *r, uint64_t lo, uint64_t hi)
{
    ASSERT(lo <= hi);
    return lo + rng_below(r, hi - lo + 1);
}

bool rng_chance(struct rng *r, unsigned permille)
{
    return rng_below(r, 1000) < permille;
}

void core_init(struct core *core, uint64_t seed, bool verbose)
{
    *core = (struct core){.seed = seed, .verbose = verbose, .hash = seed};
}

void core_done(struct core *core)
{
    free(core->heap);
    core->heap = NULL;
}

static bool before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

static void place(struct core *core, size_t i, struct event *event)
{
    core->heap[i] = event;
    event->slot = i + 1;
}

static void sift_up(struct core *core, size_t i, struct event *event)
{
    for (; i > 0 && before(event, core->heap[(i - 1) / 2]); i = (i - 1) / 2)
        place(core, i, core->heap[(i - 1) / 2]);
    place(core, i, event);
}

static void sift_down(struct core *core, size_t i, struct event *event)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= core->heap_n)
            break;
        if (child + 1 < core->heap_n && before(core->heap[child + 1], core->heap[child]))
            child++;
        if (!before(core->heap[child], event))
            break;
        place(core, i, core->heap[child]);
        i = child;
    }
    place(core, i, event);
}

void core_at(struct core *core, struct event *event, uint64_t at_ns)
{
    ASSERT(event->fire != NULL);
    core_cancel(core, event);
    if (core->heap_n == core->heap_cap) {
        core->heap_cap = core->heap_cap != 0 ? core->heap_cap * 2 : 256;
        core->heap = sim_grow(core->heap, core->heap_cap * sizeof(struct event *));
    }
    event->at_ns = MAX(at_ns, core->now_ns);
    event->seq = core->seq++;
    sift_up(core, core->heap_n++, event);
}

void core_after(struct core *core, struct event *event, uint64_t delay_ns)
{
    core_at(core, event, core->now_ns + delay_ns);
}

void core_cancel(struct core *core, struct event *event)
{
    if (event->slot == 0)
        return;
    size_t i = event->slot - 1;
    ASSERT(i < core->heap_n && core->heap[i] == event);
    event->slot = 0;
    struct event *last = core->heap[--core->heap_n];
    if (last == event)
        return;
    if (i > 0 && before(last, core->heap[(i - 1) / 2]))
        sift_up(core, i, last);
    else
        sift_down(core, i, last);
}

struct event *core_next(const struct core *core)
{
    return core->heap_n != 0 ? core->heap[0] : NULL;
}

void core_advance(struct core *core, uint64_t at_ns)
{
    if (at_ns > core->now_ns) {
        core->now_ns = at_ns;
        core->fired_at_once = 0;
    }
    core->fired++;
    if (++core->fired_at_once > EVENTS_AT_ONCE_MAX)
        core_fail(core, "time stands still: %u events at one instant", EVENTS_AT_ONCE_MAX);
}

void core_fire(struct core *core)
{
    struct event *event = core->heap[0];
    core_cancel(core, event);
    core_advance(core, event->at_ns);
    event->fire(event); /* may free the event */
}

void core_say(const struct core *core, const char *format, ...)
{
    va_list args;
    if (!core->verbose)
        return;
    printf("%11.6f ", (double)core->now_ns / 1e9);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void core_fail_to(int fd)
{
    fail_fd = fd;
}

void core_fail(const struct core *core, const char *format, ...)
{
    char text[900];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (core->verbose)
        printf("%11.6f FAIL %s\n", (double)core->now_ns / 1e9, text);
    fflush(stdout);
    dprintf(fail_fd, "seed %llu at %.3f s: %s\n", (unsigned long long)core->seed,
            (double)core->now_ns / 1e9, text);
    _exit(1);
}

void *sim_alloc(size_t size)
{
    void *pointer = calloc(1, size != 0 ? size : 1);
    ASSERT(pointer != NULL);
    return pointer;
}

void *sim_grow(void *old, size_t size)
{
    void *pointer = realloc(old, size);
    ASSERT(pointer != NULL);
    return pointer;
}
