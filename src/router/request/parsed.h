/* Request bodies that take much memory once they are parsed, and the budgets that bound them.
 *
 * 1. A small document is parsed on the worker's thread, in the request's own memory, and counted
 *    nowhere: it is always served.
 * 2. A large document is parsed on the thread pool, in memory of its own. This memory counts in the
 *    client's budget from before the parsing until the memory is wiped, after the reply.
 * 3. There are three budgets: for clients of this node, for requests that other nodes forwarded,
 *    and for clients without a token. No group can use up the budget of another group.
 *
 * Inside src/router, except the budgets. */
#ifndef HOLDFAST_ROUTER_REQUEST_PARSED_H
#define HOLDFAST_ROUTER_REQUEST_PARSED_H

#include "base/arena.h"
#include "http/budget.h"

enum parsed_from { PARSED_CLIENTS, PARSED_NODES, PARSED_ANONYMOUS, PARSED_FROM };

/* Bounds of parsed bodies, in bytes. All zero: unbounded. */
struct parsed_budgets {
    struct http_budget of[PARSED_FROM];
};

/* Initialise the budgets. `body_bytes_max`: the longest body that any listener accepts. ST_NOMEM:
 * call the done function nevertheless. */
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
/* Charge the most memory that the body can need when parsed. ST_BUSY: the client's share, or the
 * budget, is used up. Any thread. */
NODISCARD enum status parsed_take(struct parsed *parsed, struct bytes body);
/* The body was parsed: give back the charged memory that its values did not need. Any thread. */
void parsed_settle(struct parsed *parsed);
/* Wipe the memory on the pool, then give back all that was charged. NULL is allowed. On the thread
 * of `env`. */
void parsed_free(struct env *env, struct parsed *parsed);

#endif
