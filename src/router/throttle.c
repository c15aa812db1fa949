#include "router/throttle.h"
#include "http/budget.h"

#include <string.h>

struct bucket {
    uint32_t burst, every_ms;
};

/* The time until which the bucket is paid after one more request; 0: the bucket is empty. */
static uint64_t next_of(const struct bucket *bucket, uint64_t paid_ms, uint64_t now_ms)
{
    uint64_t next = MAX(paid_ms, now_ms) + bucket->every_ms;
    return next <= now_ms + (uint64_t)bucket->burst * bucket->every_ms ? next : 0;
}

/* The slot of the client. If the client has none, the slot whose client came longest ago. */
static struct throttle_client *find_client(struct throttle *throttle, const struct ip *client)
{
    struct throttle_client *oldest = &throttle->clients[0];
    for (size_t i = 0; i < ARRAY_LEN(throttle->clients); i++) {
        struct throttle_client *c = &throttle->clients[i];
        if (c->ip.len != 0 && http_budget_same(&c->ip, client))
            return c;
        if (c->paid_ms < oldest->paid_ms)
            oldest = c;
    }
    *oldest = (struct throttle_client){.ip = *client};
    return oldest;
}

static struct throttle_client *find_holder(struct throttle *throttle, const struct ip *client)
{
    for (size_t i = 0; i < ARRAY_LEN(throttle->holders); i++) {
        struct throttle_client *c = &throttle->holders[i];
        if (c->ip.len != 0 && http_budget_same(&c->ip, client))
            return c;
    }
    return NULL;
}

static bool take_of_holder(struct throttle *throttle, const struct bucket *bucket,
                           const struct ip *client, uint64_t now_ms)
{
    struct throttle_client *holder = find_holder(throttle, client);
    uint64_t next = holder != NULL ? next_of(bucket, holder->paid_ms, now_ms) : 0;
    if (next != 0)
        holder->paid_ms = next;
    return next != 0;
}

static bool take(struct throttle *throttle, const struct ip *client, uint64_t now_ms)
{
    const struct bucket all = {throttle->burst, throttle->every_ms};
    const struct bucket each = {(throttle->burst + 1) / 2, throttle->every_ms * 2};
    if (take_of_holder(throttle, &each, client, now_ms))
        return true;
    struct throttle_client *c = find_client(throttle, client);
    ASSERT(each.burst != 0);
    uint64_t own_ms = next_of(&each, c->paid_ms, now_ms);
    uint64_t all_ms = next_of(&all, throttle->paid_ms, now_ms);
    if (own_ms == 0 || all_ms == 0)
        return false;
    c->paid_ms = own_ms;
    throttle->paid_ms = all_ms;
    return true;
}

static void lock(struct throttle *throttle)
{
    int failed = pthread_mutex_lock(&throttle->lock);
    ASSERT(failed == 0);
}

static void unlock(struct throttle *throttle)
{
    int failed = pthread_mutex_unlock(&throttle->lock);
    ASSERT(failed == 0);
}

bool throttle_take(struct throttle *throttle, const struct ip *client, uint64_t now_ms)
{
    if (throttle->burst == 0)
        return true;
    ASSERT(throttle->every_ms != 0);
    lock(throttle);
    bool taken = take(throttle, client, now_ms);
    unlock(throttle);
    return taken;
}

void throttle_hold(struct throttle *throttle, const struct ip *client)
{
    lock(throttle);
    struct throttle_client *all = throttle->holders, *held = find_holder(throttle, client);
    struct throttle_client first = held != NULL ? *held : (struct throttle_client){.ip = *client};
    size_t before = held != NULL ? (size_t)(held - all) : THROTTLE_HOLDERS - 1;
    memmove(all + 1, all, before * sizeof *all);
    all[0] = first;
    unlock(throttle);
}

void throttle_keep_shares(struct throttle *throttle, const struct ip *client, bool first,
                          uint64_t now_ms)
{
    lock(throttle);
    if (first)
        throttle->sharer.ip = *client;
    throttle->sharer.paid_ms = now_ms + THROTTLE_SHARES_MS;
    unlock(throttle);
}

bool throttle_may_forget(struct throttle *throttle, const struct ip *client, uint64_t now_ms)
{
    lock(throttle);
    const struct throttle_client *sharer = &throttle->sharer;
    bool may =
        sharer->ip.len == 0 || sharer->paid_ms <= now_ms || http_budget_same(&sharer->ip, client);
    unlock(throttle);
    return may;
}
