/* How often each client came lately: counts for windows of time, of all threads of a node. A fixed
 * number of clients is remembered; where there are more, those whose windows began longest ago are
 * forgotten, and begin again. */
#ifndef HOLDFAST_QUOTA_QUOTA_TABLE_H
#define HOLDFAST_QUOTA_QUOTA_TABLE_H

#include "base/bytes.h"
#include "base/status.h"

struct quota_table;

/* `seed` is random, so that no client can choose addresses that evict others. ST_NOMEM. */
NODISCARD enum status quota_table_new(const uint64_t seed[2], struct quota_table **ret_table);
void quota_table_free(struct quota_table *table); /* NULL is allowed */

struct quota_window {
    uint64_t limit;                    /* requests in a window */
    uint64_t interval_ms, blocking_ms; /* from the refused request on; 0: until the window ends */
};
struct quota_count {
    uint64_t remaining, reset_ms; /* when there are more again, from now on */
};
/* Count one request of a client under a rule, both named by `key`. false: it is one too many. Any
 * thread. */
bool quota_table_take(struct quota_table *table, struct bytes key,
                      const struct quota_window *window, uint64_t now_ms,
                      struct quota_count *ret_count);

#endif
