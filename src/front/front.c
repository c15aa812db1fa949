#include "front/front.h"

#include "front/cors.h"
#include "front/probe.h"

static bool was_probed(struct router_worker *worker, struct router_call *call)
{
    struct router_answer answer = {0};
    if (!probe_answer(router_worker_host(worker), call, &answer))
        return false;
    router_answer(worker, call, &answer);
    return true;
}

void front_handle(struct router_worker *worker, struct router_call *call)
{
    ASSERT(call->respond != NULL && call->verdict == NULL);
    if (!call->forwarded) {
        if (was_probed(worker, call))
            return;
        cors_judge(router_worker_state(worker), call);
    }
    router_handle(worker, call);
}
