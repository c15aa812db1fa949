#include "http/unwritten.h"
#include "base/trace.h"

#include <inttypes.h>

enum {
    CLIENTS_MAX = 16384, /* clients that hold something at once */
    QUIET_MS = 60 * 1000,
    ROOM_BYTES = 64 * 1024,
    ROOM_FREE_PART = 8,  /* below this part of the budget there is room for every client */
    QUEUE_PART = 8,      /* part of the budget that requests may take which wait for room */
    UNBOUNDED_SHIFT = 1, /* the tables only count; this file decides */
};

const char *unwritten_bound_name(enum unwritten_bound bound)
{
    static const char *const names[] = {"none", "address", "token", "anonymous", "all"};
    ASSERT(bound < ARRAY_LEN(names));
    return names[bound];
}

static void end_all(struct env_task *task)
{
    struct http_unwritten *u = CONTAINER_OF(task, struct http_unwritten, end_task);
    u->end_posted = false;
    for (struct list *item; (item = list_pop(&u->ending)) != NULL;) {
        struct http_owed *owed = CONTAINER_OF(item, struct http_owed, link);
        owed->close(owed);
    }
    u->ending_bytes = 0;
}

enum status http_unwritten_init(struct http_unwritten *u, struct env *env, size_t total)
{
    const struct http_budget_options counts = {.total = SIZE_MAX >> UNBOUNDED_SHIFT,
                                               .share = SIZE_MAX >> UNBOUNDED_SHIFT,
                                               .clients_max = CLIENTS_MAX};
    ASSERT(total >= 4);
    *u = (struct http_unwritten){.env = env,
                                 .total = total,
                                 .address_share = total / 2,
                                 .token_share = total / 2,
                                 .anonymous_total = total / 4,
                                 .end_task.run = end_all};
    list_init(&u->waiting);
    list_init(&u->ending);
    const struct http_budget_options queue = {
        .total = total / QUEUE_PART, .share = total / QUEUE_PART / 2, .clients_max = CLIENTS_MAX};
    TRY(http_budget_init(&u->queue, env, &queue));
    TRY(http_budget_init(&u->addresses, env, &counts));
    return http_budget_init(&u->tokens, env, &counts);
}

void http_unwritten_done(struct http_unwritten *u)
{
    ASSERT(u->env == NULL || (list_empty(&u->waiting) && list_empty(&u->ending)));
    http_budget_done(&u->addresses);
    http_budget_done(&u->tokens);
    http_budget_done(&u->queue);
}

/* The number of a token in the form of the table's clients. */
static struct ip token_key(uint64_t token)
{
    uint8_t bytes[16] = {0};
    memcpy(bytes, &token, sizeof token);
    return ip_of(bytes, sizeof bytes);
}

static size_t token_held(struct http_unwritten *u, uint64_t token)
{
    const struct ip key = token_key(token);
    return http_budget_held(&u->tokens, &key);
}

static bool over(size_t held, size_t n, size_t bound)
{
    return n > bound - MIN(held, bound);
}

/* The bound that `n` more bytes would exceed. */
static enum unwritten_bound bound_of(struct http_unwritten *u, const struct http_payer *payer,
                                     size_t n)
{
    size_t used = (size_t)tally_get(&u->used);
    size_t address = http_budget_held(&u->addresses, &payer->address);
    size_t token = payer->token != 0 ? token_held(u, payer->token) : u->anonymous;
    bool alone = address == 0 && token == 0;
    if (alone && n > u->anonymous_total)
        return used < u->total ? UNWRITTEN_FITS : UNWRITTEN_ALL;
    if (over(address, n, u->address_share))
        return UNWRITTEN_ADDRESS;
    if (payer->token != 0 && over(token, n, u->token_share))
        return UNWRITTEN_TOKEN;
    if (payer->token == 0 && over(token, n, u->anonymous_total))
        return UNWRITTEN_ANONYMOUS;
    return over(used, n, u->total) ? UNWRITTEN_ALL : UNWRITTEN_FITS;
}

static bool holds_up(const struct http_owed *owed, enum unwritten_bound bound,
                     const struct http_payer *payer)
{
    switch (bound) {
    case UNWRITTEN_ADDRESS: return http_budget_same(&owed->payer.address, &payer->address);
    case UNWRITTEN_TOKEN: return owed->payer.token == payer->token;
    case UNWRITTEN_ANONYMOUS: return owed->payer.token == 0;
    default: return true;
    }
}

/* Count a closed connection. One line a minute reports all of them. */
static void report_closed(struct http_unwritten *u, enum unwritten_bound bound,
                          const struct http_payer *payer)
{
    uint64_t now_ms = env_mono_ms(u->env);
    char client[IP_PORT_TEXT] = "unknown";
    tally_add(&u->closed[bound], 1);
    if (now_ms < u->quiet_until_ms)
        return;
    u->quiet_until_ms = now_ms + QUIET_MS;
    if (payer->address.len != 0)
        ip_port_put(&payer->address, 0, client);
    trace(TRACE_WARN, "http",
          "replies that clients do not read take %" PRIu64
          " bytes: closed a connection of client %s (bound: %s)",
          tally_get(&u->used), client, unwritten_bound_name(bound));
}

static void count(struct http_unwritten *u, const struct http_payer *payer, size_t n)
{
    u->anonymous += payer->token == 0 ? n : 0;
    tally_add(&u->used, n);
    if (tally_get(&u->used) > tally_get(&u->highest))
        tally_set(&u->highest, tally_get(&u->used));
}

void http_unwritten_give(struct http_unwritten *u, const struct http_payer *payer, size_t n)
{
    const struct ip key = token_key(payer->token);
    ASSERT(tally_get(&u->used) >= n);
    ASSERT(payer->token != 0 || u->anonymous >= n);
    http_budget_give(&u->addresses, &payer->address, n);
    if (payer->token != 0)
        http_budget_give(&u->tokens, &key, n);
    u->anonymous -= payer->token == 0 ? n : 0;
    tally_set(&u->used, tally_get(&u->used) - n);
}

void http_owed_clear(struct http_unwritten *u, struct http_owed *owed)
{
    list_remove(&owed->link);
    if (owed->bytes != 0)
        http_unwritten_give(u, &owed->payer, owed->bytes);
    owed->bytes = 0;
}

/* Let the connection that waited longest make room. Its memory is released within this turn of the
 * loop: count it no more. False: none waits, `self` is the one, or too much is being released. */
static bool evict(struct http_unwritten *u, enum unwritten_bound bound,
                  const struct http_payer *payer, const struct http_owed *self)
{
    if (u->ending_bytes > (bound == UNWRITTEN_ALL ? u->total / 4 : u->total / 8))
        return false;
    LIST_FOR (item, &u->waiting) {
        struct http_owed *owed = CONTAINER_OF(item, struct http_owed, link);
        if (!holds_up(owed, bound, payer))
            continue;
        if (owed == self)
            return false;
        report_closed(u, bound, &owed->payer);
        u->ending_bytes += owed->bytes;
        http_owed_clear(u, owed);
        list_push(&u->ending, &owed->link);
        if (!u->end_posted)
            env_post(u->env, &u->end_task);
        u->end_posted = true;
        return true;
    }
    return false;
}

/* Both tables have room for the client, or neither counts. */
bool http_unwritten_put(struct http_unwritten *u, const struct http_payer *payer, size_t n)
{
    const struct ip key = token_key(payer->token);
    if (!http_budget_take(&u->addresses, &payer->address, n))
        return false;
    if (payer->token != 0 && !http_budget_take(&u->tokens, &key, n)) {
        http_budget_give(&u->addresses, &payer->address, n);
        return false;
    }
    count(u, payer, n);
    return true;
}

static enum unwritten_bound take(struct http_unwritten *u, const struct http_payer *payer, size_t n,
                                 const struct http_owed *self)
{
    enum unwritten_bound bound;
    while ((bound = bound_of(u, payer, n)) != UNWRITTEN_FITS)
        if (!evict(u, bound, payer, self))
            return bound;
    return http_unwritten_put(u, payer, n) ? UNWRITTEN_FITS : UNWRITTEN_ALL;
}

bool http_unwritten_room(struct http_unwritten *u, const struct http_payer *payer)
{
    enum unwritten_bound bound;
    while ((bound = bound_of(u, payer, MIN((size_t)ROOM_BYTES, u->total / ROOM_FREE_PART))) !=
           UNWRITTEN_FITS)
        if (!evict(u, bound, payer, NULL))
            return false;
    return true;
}

bool http_unwritten_queue(struct http_unwritten *u, const struct http_payer *payer, size_t n)
{
    const struct ip key = token_key(payer->token); /* 0: all clients without a token */
    if (!http_budget_take(&u->queue, &key, n))
        return false;
    if (http_unwritten_put(u, payer, n))
        return true;
    http_budget_give(&u->queue, &key, n);
    return false;
}

void http_unwritten_unqueue(struct http_unwritten *u, const struct http_payer *payer, size_t n)
{
    const struct ip key = token_key(payer->token);
    http_budget_give(&u->queue, &key, n);
    http_unwritten_give(u, payer, n);
}

bool http_unwritten_has_much(const struct http_unwritten *u)
{
    return tally_get(&u->used) < u->total / ROOM_FREE_PART;
}

enum unwritten_bound http_unwritten_take(struct http_unwritten *u, const struct http_payer *payer,
                                         size_t n)
{
    return take(u, payer, n, NULL);
}

bool http_owed_wait(struct http_unwritten *u, struct http_owed *owed,
                    const struct http_payer *payer, size_t bytes)
{
    ASSERT(owed->close != NULL);
    if (owed->bytes == 0)
        owed->payer = *payer;
    if (bytes < owed->bytes) {
        http_unwritten_give(u, &owed->payer, owed->bytes - bytes);
        owed->bytes = bytes;
    }
    size_t more = bytes - owed->bytes;
    enum unwritten_bound bound = more != 0 ? take(u, &owed->payer, more, owed) : UNWRITTEN_FITS;
    if (bound != UNWRITTEN_FITS) {
        report_closed(u, bound, &owed->payer);
        http_owed_clear(u, owed);
        return false;
    }
    owed->bytes = bytes;
    if (list_empty(&owed->link)) /* else it waits already, and keeps its place */
        list_push(&u->waiting, &owed->link);
    return true;
}
