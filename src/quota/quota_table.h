/* Counts of requests in windows of time, by client and rule, shared by all threads of a node. The
 * table has a fixed size. A new count in a full group evicts the count whose window began longest
 * ago; an evicted client starts again. */
#ifndef HOLDFAST_QUOTA_QUOTA_TABLE_H
#define HOLDFAST_QUOTA_QUOTA_TABLE_H

#include "base/bytes.h"
#include "base/status.h"

struct quota_table;

/* `seed` is random, so that no client can choose addresses that evict others. ST_NOMEM. */
NODISCARD enum status quota_table_new(const uint64_t seed[2], struct quota_table **ret_table);
void quota_table_free(struct quota_table *table); /* NULL is allowed */

struct quota_window {
    uint64_t limit;       /* requests allowed in a window */
    uint64_t interval_ms; /* length of the window */
    uint64_t blocking_ms; /* block this long after a refused request; 0: until the window ends */
};
struct quota_count {
    uint64_t remaining; /* requests left in the window */
    uint64_t reset_ms;  /* time until a request is accepted again */
};
/* Count one request of a client under a rule, both named by `key`. false: the request is above the
 * limit. Any thread. */
bool quota_table_take(struct quota_table *table, struct bytes key,
                      const struct quota_window *window, uint64_t now_ms,
                      struct quota_count *ret_count);

#endif
