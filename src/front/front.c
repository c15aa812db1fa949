#include "front/front.h"

#include "front/cors.h"
#include "front/probe.h"

static bool was_probed(struct router_worker *worker, struct router_request *request)
{
    struct router_reply reply = {0};
    if (!probe_reply(router_worker_host(worker), request, &reply))
        return false;
    router_reply(worker, request, &reply);
    return true;
}

void front_handle(struct router_worker *worker, struct router_request *request)
{
    ASSERT(request->verdict == NULL);
    if (!request->forwarded) {
        if (was_probed(worker, request))
            return;
        cors_judge(router_worker_state(worker), request);
    }
    router_handle(worker, request);
}
