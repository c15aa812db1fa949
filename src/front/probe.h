/* Probes for load balancers and service managers, outside of /v1 and without a token: /livez while
 * the process runs, /readyz while this node can serve requests, /activez while it is active and its
 * cluster serves clients: no secondary of disaster recovery, no superseded primary. */
#ifndef HOLDFAST_FRONT_PROBE_H
#define HOLDFAST_FRONT_PROBE_H

#include "router/request/reply.h"
#include "router/router.h"

/* True: the path of the request is a probe's, and `ret` is the reply. */
bool probe_reply(struct router_host *host, const struct router_request *request,
                 struct router_reply *ret);

#endif
