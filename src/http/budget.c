#include "http/budget.h"
#include "base/mem.h"

#include <stdlib.h>

enum { IPV6_NETWORK_BYTES = 8 };

enum status http_budget_init(struct http_budget *budget, struct env *env,
                             const struct http_budget_options *options)
{
    ASSERT(options->share <= options->total && options->clients_max > 0);
    *budget = (struct http_budget){.total = options->total,
                                   .share = options->share,
                                   .clients_max = options->clients_max,
                                   /* half of the slots stay free, so that searches are short */
                                   .n_slots = 2 * options->clients_max};
    budget->slots = mem_zalloc(budget->n_slots * sizeof *budget->slots);
    if (budget->slots == NULL)
        return ST_NOMEM;
    env_random(env, budget->seed, sizeof budget->seed);
    if (pthread_mutex_init(&budget->lock, NULL) != 0)
        abort(); /* cannot fail on Linux */
    return ST_OK;
}

void http_budget_done(struct http_budget *budget)
{
    if (budget->slots == NULL)
        return;
    ASSERT(budget->used == 0 && budget->n_clients == 0);
    (void)pthread_mutex_destroy(&budget->lock); /* no thread holds it */
    mem_free(budget->slots);
    budget->slots = NULL;
}

static void lock(struct http_budget *budget)
{
    int failed = pthread_mutex_lock(&budget->lock);
    ASSERT(failed == 0);
}

static void unlock(struct http_budget *budget)
{
    int failed = pthread_mutex_unlock(&budget->lock);
    ASSERT(failed == 0);
}

/* The network that counts as one client. */
static struct bytes network_of(const struct ip *ip)
{
    return bytes_of(ip->bytes, ip->len == 16 ? (size_t)IPV6_NETWORK_BYTES : ip->len);
}

bool http_budget_same(const struct ip *a, const struct ip *b)
{
    return bytes_eq(network_of(a), network_of(b));
}

static uint64_t client_of(const struct http_budget *budget, const struct ip *ip)
{
    uint64_t client = siphash(budget->seed, network_of(ip)).words[0];
    return client != 0 ? client : 1;
}

/* The slot of the client, or the free slot where the client belongs. */
static size_t find(const struct http_budget *budget, uint64_t client)
{
    size_t at = client % budget->n_slots;
    while (budget->slots[at].client != 0 && budget->slots[at].client != client)
        at = (at + 1) % budget->n_slots;
    return at;
}

/* Free a slot, and move up the later entries that a search would no longer reach. */
static void forget(struct http_budget *budget, size_t at)
{
    budget->n_clients--;
    budget->slots[at] = (struct budget_slot){0};
    for (size_t from = (at + 1) % budget->n_slots; budget->slots[from].client != 0;
         from = (from + 1) % budget->n_slots) {
        struct budget_slot moved = budget->slots[from];
        budget->slots[from] = (struct budget_slot){0};
        budget->slots[find(budget, moved.client)] = moved;
    }
}

static bool take(struct http_budget *budget, uint64_t client, size_t n)
{
    struct budget_slot *slot = &budget->slots[find(budget, client)];
    bool fresh = slot->client == 0;
    if (n > budget->total - budget->used || n > budget->share - slot->held ||
        (fresh && budget->n_clients == budget->clients_max))
        return false;
    budget->n_clients += fresh;
    budget->used += n;
    *slot = (struct budget_slot){client, slot->held + n};
    return true;
}

bool http_budget_take(struct http_budget *budget, const struct ip *client, size_t n)
{
    uint64_t id = client_of(budget, client);
    if (n == 0)
        return true;
    lock(budget);
    bool taken = take(budget, id, n);
    unlock(budget);
    return taken;
}

void http_budget_give(struct http_budget *budget, const struct ip *client, size_t n)
{
    uint64_t id = client_of(budget, client);
    if (n == 0)
        return;
    lock(budget);
    size_t at = find(budget, id);
    ASSERT(budget->slots[at].held >= n && budget->used >= n);
    budget->used -= n;
    budget->slots[at].held -= n;
    if (budget->slots[at].held == 0)
        forget(budget, at);
    unlock(budget);
}

size_t http_budget_held(struct http_budget *budget, const struct ip *client)
{
    uint64_t id = client_of(budget, client);
    lock(budget);
    size_t held = budget->slots[find(budget, id)].held;
    unlock(budget);
    return held;
}

size_t http_budget_used(struct http_budget *budget)
{
    lock(budget);
    size_t used = budget->used;
    unlock(budget);
    return used;
}
