/* Quotas: how many requests a client may make in a time, by path.
 *
 * A client is an IPv4 address, or the 64 bits of an IPv6 address that name a network. Of the quotas
 * whose path fits a request the one with the longest path counts: "" fits all, "kv/" itself and all
 * below, "kv/a*" all that begins so, "kv/a" itself. They compare as policies do: a '/' at the end
 * of a request's path, or the case of a policy's name, makes no other path of it. Each node counts
 * its own clients, by the settings it has read within the last QUOTA_PATIENCE_MS; requests that it
 * sends on are counted here alone. Without quotas a request costs nothing but a look at the clock.
 */
#ifndef HOLDFAST_ROUTER_QUOTA_H
#define HOLDFAST_ROUTER_QUOTA_H

#include "quota/quota_table.h"
#include "router/router.h"

/* Settings (setting.h): one below this prefix for each quota, and one for all of them. */
#define QUOTA_SETTINGS "quota/rate-limit/"
#define QUOTA_CONFIG_SETTING "quota/config"

enum {
    QUOTA_PATIENCE_MS = 100,
    QUOTA_MAX = 1000,
    QUOTA_PATH_MAX = 512,
    QUOTA_RATE_MAX = 1000000000
};

struct quota {
    const char *name, *path, *rate, *role;
    int64_t interval, block_interval; /* seconds */
    bool inheritable, has_inheritable;
};
extern const struct schema quota_schema; /* a quota without its name */

struct quota_config {
    bool enable_rate_limit_audit_logging, enable_rate_limit_response_headers;
    struct field_strings rate_limit_exempt_paths;
};
extern const struct schema quota_config_schema;

/* Digits, perhaps with a fraction: a JSON number above 0. What is asked for in a window, rounded
 * up. ST_INVALID. */
NODISCARD enum status quota_rate(const char *text, uint64_t *ret_limit);

/* One worker's view. */
struct quotas;
NODISCARD enum status quotas_new(struct quota_table *table, struct quotas **ret_quotas);
void quotas_free(struct quotas *quotas); /* Free a worker's quotas. NULL is allowed. */

/* The verdict of the quotas on a request, for the headers of its reply; `limit` 0: no headers. */
struct quota_verdict {
    uint64_t limit;
    struct quota_count count;
    bool refused;
};
/* `req` is what stage_target made of the request; `state` NULL: the node has none yet. ST_LIMITED
 * with the request's error. Settings that cannot be read limit no request. */
NODISCARD enum status quota_judge(struct quotas *quotas, struct state *state,
                                  const struct router_request *request, struct req *req,
                                  uint64_t now_ms, struct quota_verdict *ret_verdict);
/* Add the headers, their text in the arena; without memory some are missing. */
void quota_tell(const struct quota_verdict *verdict, struct arena *arena,
                struct router_reply *reply);

#endif
