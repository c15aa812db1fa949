/* Gives memory back to the system: the allocator keeps what was released, for its next use.
 *
 * Every ten seconds the main thread compares the memory of bodies, replies and connections with the
 * most that they took since the last time. After a fall by TRIM_FALL_BYTES or more to less than
 * half, the thread pool gives the free pages back: the search for them takes a while. */
#include "base/trace.h"
#include "http/counters.h"
#include "server/server.h"

#include <malloc.h>

enum {
    TRIM_EVERY_MS = 10 * 1000,
    TRIM_FALL_BYTES = 8 * 1024 * 1024,
    CONNECTION_BYTES = 32 * 1024, /* of a connection with TLS */
    OWN_PAGES_BYTES = 256 * 1024, /* a longer allocation has pages of its own */
    OWN_PAGES_MAX = 16 * 1024,    /* such allocations; the kernel allows 65,530 mappings in all */
};

/* How far the replies have fallen from their highest since the last call. */
static uint64_t fall_of(struct http_unwritten *u)
{
    uint64_t used = tally_get(&u->used), highest = tally_get(&u->highest);
    tally_set(&u->highest, 0); /* a count of the worker's that is lost in between does not matter */
    return highest - MIN(highest, used);
}

/* Bytes that clients and nodes make this node keep. *ret_highest: the most that replies took
 * since the last call, with all else as it is now. */
static uint64_t bytes_in_use(struct server *s, uint64_t *ret_highest)
{
    uint64_t fallen = 0;
    uint64_t bytes = http_budget_used(&s->client_bodies) + http_budget_used(&s->cluster_bodies);
    for (unsigned i = 0; i < PARSED_FROM; i++)
        bytes += http_budget_used(&s->host.parsed.of[i]);
    for (unsigned i = 0; i < s->n_workers; i++) {
        struct worker *w = &s->workers[i];
        bytes += tally_get(&w->for_clients.used) + tally_get(&w->for_nodes.used);
        fallen += fall_of(&w->for_clients) + fall_of(&w->for_nodes);
        for (unsigned l = 0; l < ARRAY_LEN(w->listeners); l++) {
            struct http_counters c = {0};
            if (w->listeners[l].http != NULL)
                http_server_counters(w->listeners[l].http, &c);
            bytes += c.connections_open * CONNECTION_BYTES;
        }
    }
    *ret_highest = bytes + fallen;
    return bytes;
}

static void run_trim(struct env_work *work)
{
    (void)work;           /* the allocator's memory is that of the process */
    (void)malloc_trim(0); /* nothing to give back is no failure */
}

static void set_timer(struct server *s)
{
    env_timer_set(s->env, &s->trim.timer, env_mono_ms(s->env) + TRIM_EVERY_MS);
}

static void on_trimmed(struct env_work *work)
{
    struct server *s = CONTAINER_OF(work, struct server, trim.work);
    if (!s->stopping)
        set_timer(s);
}

static void on_time(struct env_timer *timer)
{
    struct server *s = CONTAINER_OF(timer, struct server, trim.timer);
    uint64_t highest = 0, bytes = bytes_in_use(s, &highest);
    s->trim.highest = MAX(s->trim.highest, highest);
    if (s->trim.highest - bytes < TRIM_FALL_BYTES || bytes > s->trim.highest / 2) {
        set_timer(s);
        return;
    }
    s->trim.highest = bytes;
    s->trim.work = (struct env_work){.run = run_trim, .done = on_trimmed, .lane = LANE_POOL};
    env_work(s->env, &s->trim.work);
}

/* Pages of its own go back to the system when a long buffer is released. The allocator would move
 * the bound upwards with each release, and keep the gaps between long replies. */
static void give_long_buffers_pages(void)
{
    int set = mallopt(M_MMAP_THRESHOLD, OWN_PAGES_BYTES) & mallopt(M_MMAP_MAX, OWN_PAGES_MAX);
    if (set == 0)
        trace(TRACE_WARN, "main", "the allocator takes no options: it may keep more memory");
}

void trim_start(struct server *server)
{
    give_long_buffers_pages();
    server->trim.timer.fire = on_time;
    set_timer(server);
}

void trim_stop(struct server *server)
{
    env_timer_stop(server->env, &server->trim.timer);
}
