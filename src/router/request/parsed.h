/* Request bodies that take much memory once they are parsed, and the budgets that bound them.
 *
 * 1. A small document is parsed on the worker's thread, in the request's own memory, and counted
 *    nowhere: it is always served.
 * 2. A large document is parsed on the thread pool, in memory of its own. Its client pays for that
 *    memory from before it is parsed until it was wiped, after the reply.
 * 3. Clients of this node, clients that other nodes speak for, and clients without a token have a
 *    budget each: none of the three can use up that of another.
 *
 * Inside src/router, but for the budgets. */
#ifndef HOLDFAST_ROUTER_REQUEST_PARSED_H
#define HOLDFAST_ROUTER_REQUEST_PARSED_H

#include "base/arena.h"
#include "http/budget.h"

enum parsed_from { PARSED_CLIENTS, PARSED_NODES, PARSED_ANONYMOUS, PARSED_FROM };

/* Bounds of parsed bodies, in bytes. All zero: unbounded. */
struct parsed_budgets {
    struct http_budget of[PARSED_FROM];
};

/* `body_bytes_max`: of any listener. ST_NOMEM: what was initialised must still be done. */
NODISCARD enum status parsed_budgets_init(struct parsed_budgets *budgets, struct env *env,
                                          uint64_t body_bytes_max);
void parsed_budgets_done(struct parsed_budgets *budgets);

struct parsed {
    struct arena arena;
    struct http_budget *budget; /* budget that counts the memory; NULL: nothing is counted */
    struct ip client;
    size_t counted;
    struct env_work work;
};

/* Whether a body costs a worker's thread little time and memory. */
bool parsed_is_small(struct bytes body);

/* Make the memory for a large body. ST_NOMEM. */
NODISCARD enum status parsed_new(struct http_budget *budget, const struct ip *client,
                                 struct parsed **ret_parsed);
/* Count the most that the body can become. ST_BUSY: the client's share, or the budget, is used up.
 * Any thread, as the next. */
NODISCARD enum status parsed_take(struct parsed *parsed, struct bytes body);
/* The body was parsed: give back what its values did not need. */
void parsed_settle(struct parsed *parsed);
/* Wipe it on the pool, then give back all. NULL is allowed. On the thread of `env`. */
void parsed_free(struct env *env, struct parsed *parsed);

#endif
