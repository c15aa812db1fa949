/* The time since this node heard the leader of the log. */
#include "router/router.h"

uint64_t req_contact_ms(const struct req *req)
{
    const struct router_host *host = req->host;
    if (host->node_ops->brief(host->node).leads)
        return 0;
    uint64_t now_ms = env_mono_ms(req->env), heard_ms = host->node_ops->heard_ms(host->node);
    return now_ms - MIN(now_ms, heard_ms);
}
