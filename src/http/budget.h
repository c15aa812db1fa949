/* A bounded amount of something that many clients share, of which one client gets a share only.
 *
 * A client is an IPv4 address, or the first 64 bits of an IPv6 address, because one customer has
 * all addresses with these bits. Amounts are bytes, connections or streams: the owner chooses what
 * it counts.
 *
 * 1. `used` never exceeds `total`, and what one client holds never exceeds `share`.
 * 2. Only clients that hold an amount are stored, `clients_max` at most. Further clients get
 *    nothing, as if the budget were used up.
 *
 * Any thread. */
#ifndef HOLDFAST_HTTP_BUDGET_H
#define HOLDFAST_HTTP_BUDGET_H

#include "base/env.h"
#include "crypto/siphash.h"
#include "text/cidr.h"

#include <pthread.h>

struct budget_slot {
    uint64_t client; /* hash of the client's network; 0: the slot is free */
    size_t held;
};

struct http_budget {
    size_t total, share; /* `share` is at most `total` */
    pthread_mutex_t lock;
    /* key of the hash, so that a client cannot choose addresses that collide */
    uint8_t seed[SIPHASH_KEY_BYTES];
    size_t used;
    size_t n_clients, clients_max, n_slots;
    struct budget_slot *slots;
};

struct http_budget_options {
    size_t total, share;
    size_t clients_max; /* clients that hold something at once; at least 1 */
};

/* `env` gives the random seed. ST_NOMEM. */
NODISCARD enum status http_budget_init(struct http_budget *budget, struct env *env,
                                       const struct http_budget_options *options);
/* Free a budget that was initialised or is all zero. */
void http_budget_done(struct http_budget *budget);

/* Take `n` for the client. False: `n` more do not fit, and nothing was taken. All clients of
 * unknown address (len 0) count as one client. */
NODISCARD bool http_budget_take(struct http_budget *budget, const struct ip *client, size_t n);
/* Give back `n` of what the client holds. */
void http_budget_give(struct http_budget *budget, const struct ip *client, size_t n);
size_t http_budget_used(struct http_budget *budget);
/* The part that the client holds. */
size_t http_budget_held(struct http_budget *budget, const struct ip *client);
/* Whether two addresses are one client. */
bool http_budget_same(const struct ip *a, const struct ip *b);

#endif
