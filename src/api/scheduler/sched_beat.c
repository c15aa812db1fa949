/* When each node was last heard. The table is of this process and costs no log entry; the active
 * node decides by it, and gives every node more time after it became active. */
#include "api/scheduler/scheduler.h"
#include "base/mem.h"
#include "text/random.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { SLOTS_MAX = 65536 };

struct slot {
    char node[TEXT_UUID_LEN + 1];
    uint64_t at_ms;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot *slots;
static size_t n_slots, room;

static uint64_t mono_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* this clock exists */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct slot *find(const char *node)
{
    for (size_t i = 0; i < n_slots; i++)
        if (strcmp(slots[i].node, node) == 0)
            return &slots[i];
    return NULL;
}

static struct slot *sched_beat_add(void)
{
    if (n_slots == room && room < SLOTS_MAX) {
        size_t more = room == 0 ? 64 : room * 2;
        struct slot *grown = mem_realloc(slots, more * sizeof *slots);
        if (grown == NULL)
            return NULL;
        slots = grown;
        room = more;
    }
    return n_slots < room ? &slots[n_slots++] : NULL;
}

void sched_beat(const char *node)
{
    ASSERT(strlen(node) == TEXT_UUID_LEN);
    (void)pthread_mutex_lock(&lock); /* a plain mutex, not held by this thread */
    struct slot *slot = find(node);
    if (slot == NULL && (slot = sched_beat_add()) != NULL)
        memcpy(slot->node, node, sizeof slot->node);
    if (slot != NULL)
        slot->at_ms = mono_ms();
    (void)pthread_mutex_unlock(&lock);
}

bool sched_beat_is_late(const char *node, uint64_t since_ms)
{
    const struct sched_settings *settings = sched_settings();
    uint64_t now_ms = mono_ms();
    (void)pthread_mutex_lock(&lock);
    const struct slot *slot = find(node);
    bool heard = slot != NULL && slot->at_ms >= since_ms;
    uint64_t at_ms = heard ? slot->at_ms : since_ms;
    (void)pthread_mutex_unlock(&lock);
    int64_t limit_ms =
        heard ? 2 * settings->beat_ttl_ms + settings->beat_grace_ms : settings->beat_first_ms;
    return now_ms > at_ms + (uint64_t)limit_ms;
}

int64_t sched_beat_ttl_ms(void)
{
    return sched_settings()->beat_ttl_ms;
}
