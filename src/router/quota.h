/* Quotas of requests: how many requests a client may make in a time, by path (quota_rule.h).
 *
 * A client is an IPv4 address, or the 64 bits of an IPv6 address that name a network. Each node
 * counts the requests of its own clients, by settings that are at most QUOTA_PATIENCE_MS old. A
 * forwarded request is counted only by the node that the client asked. Without quotas a request
 * costs one reading of the clock. */
#ifndef HOLDFAST_ROUTER_QUOTA_H
#define HOLDFAST_ROUTER_QUOTA_H

#include "quota/quota_table.h"
#include "router/quota_rule.h"
#include "router/router.h"

#define QUOTA_CONFIG_SETTING "quota/config" /* a setting (setting.h) */

enum { QUOTA_PATIENCE_MS = 100 };

struct quota_config {
    bool enable_rate_limit_audit_logging, enable_rate_limit_response_headers;
    struct field_strings rate_limit_exempt_paths;
};
extern const struct schema quota_config_schema;

/* The quotas of requests as one worker knows them. */
struct quotas;
NODISCARD enum status quotas_new(struct quota_table *table, struct quotas **ret_quotas);
void quotas_free(struct quotas *quotas); /* Free a worker's quotas. NULL is allowed. */

/* The decision of the quotas about a request, for the headers of the reply; `limit` 0: no
 * headers. */
struct quota_verdict {
    uint64_t limit;
    struct quota_count count;
    bool refused;
    bool unrecorded; /* refused, and the settings keep refusals out of the audit devices */
};
/* Count a request that stage_target has read. `state` NULL: the node has no state yet. ST_LIMITED
 * with the request's error. Settings that cannot be read limit no request. */
NODISCARD enum status quota_judge(struct quotas *quotas, struct state *state,
                                  const struct router_request *request, struct req *req,
                                  uint64_t now_ms, struct quota_verdict *ret_verdict);
/* Add the headers to the reply, with their text in the arena. Without memory some headers are
 * missing. */
void quota_tell(const struct quota_verdict *verdict, struct arena *arena,
                struct router_reply *reply);

#endif
