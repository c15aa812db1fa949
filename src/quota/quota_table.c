/* A hash table of counts: groups of WAYS slots, a lock for every LOCKS-th group. */
#include "quota/quota_table.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>

enum { GROUPS = 4096, WAYS = 8, LOCKS = 64 };

struct slot {
    uint64_t key; /* key of the counter; 0: the slot is free */
    uint64_t begun_ms, blocked_ms, count;
};

struct quota_table {
    uint64_t seed[2];
    pthread_mutex_t locks[LOCKS]; /* lock i guards every group whose number % LOCKS is i */
    struct slot slots[GROUPS][WAYS];
};

enum status quota_table_new(const uint64_t seed[2], struct quota_table **ret_table)
{
    struct quota_table *table = mem_zalloc(sizeof *table);
    if (table == NULL)
        return ST_NOMEM;
    memcpy(table->seed, seed, sizeof table->seed);
    for (size_t i = 0; i < LOCKS; i++)
        if (pthread_mutex_init(&table->locks[i], NULL) != 0)
            abort(); /* cannot fail on Linux */
    *ret_table = table;
    return ST_OK;
}

void quota_table_free(struct quota_table *table)
{
    for (size_t i = 0; table != NULL && i < LOCKS; i++)
        (void)pthread_mutex_destroy(&table->locks[i]); /* no thread holds the lock */
    mem_free(table);
}

static uint64_t mixed(uint64_t h)
{
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

static uint64_t hash_of(const struct quota_table *table, struct bytes key)
{
    uint64_t h = mixed(table->seed[0] ^ key.len);
    for (size_t at = 0; at < key.len; at += 8) {
        uint64_t word = 0;
        memcpy(&word, key.data + at, MIN(key.len - at, (size_t)8));
        h = mixed(h ^ word) + table->seed[1];
    }
    h = mixed(h);
    return h != 0 ? h : 1;
}

/* The slot of the key; else the slot with the oldest window, emptied for the key. */
static struct slot *slot_of(struct slot group[WAYS], uint64_t key)
{
    struct slot *oldest = &group[0];
    ASSERT(key != 0);
    for (size_t i = 0; i < WAYS; i++) {
        if (group[i].key == key)
            return &group[i];
        if (group[i].begun_ms < oldest->begun_ms)
            oldest = &group[i];
    }
    *oldest = (struct slot){.key = key};
    return oldest;
}

static bool take(struct slot *slot, const struct quota_window *window, uint64_t now_ms,
                 struct quota_count *ret_count)
{
    if (slot->blocked_ms > now_ms) {
        *ret_count = (struct quota_count){.reset_ms = slot->blocked_ms - now_ms};
        return false;
    }
    /* Each worker reads the clock before it takes the lock: its time may be the earlier one. */
    now_ms = MAX(now_ms, slot->begun_ms);
    if (slot->count == 0 || now_ms - slot->begun_ms >= window->interval_ms) {
        slot->begun_ms = now_ms;
        slot->count = 0;
    }
    *ret_count = (struct quota_count){.reset_ms = slot->begun_ms + window->interval_ms - now_ms};
    if (slot->count >= window->limit) {
        slot->blocked_ms = now_ms + window->blocking_ms;
        ret_count->reset_ms = MAX(ret_count->reset_ms, window->blocking_ms);
        return false;
    }
    slot->count++;
    ASSERT(slot->count <= window->limit);
    ret_count->remaining = window->limit - slot->count;
    return true;
}

bool quota_table_take(struct quota_table *table, struct bytes key,
                      const struct quota_window *window, uint64_t now_ms,
                      struct quota_count *ret_count)
{
    uint64_t hash = hash_of(table, key);
    size_t group = hash % GROUPS;
    pthread_mutex_t *lock = &table->locks[group % LOCKS];

    ASSERT(window->limit > 0 && window->interval_ms > 0);
    int failed = pthread_mutex_lock(lock);
    ASSERT(failed == 0);
    bool taken = take(slot_of(table->slots[group], hash), window, now_ms, ret_count);
    failed = pthread_mutex_unlock(lock);
    ASSERT(failed == 0);
    return taken;
}
