/* Requests to the servers, as the node. */
#include "agent/agent_internal.h"

#include <stdio.h>

enum { ASK_MAX = 512 };

static _Atomic uint64_t last_index;

uint64_t agent_last_index(void)
{
    return last_index;
}

enum status agent_request(const char *method, const char *path, struct bytes body, int *ret_http,
                          struct buf *ret_body)
{
    char full[ASK_MAX], token[96];
    struct client_call call = {.method = method,
                               .path = full,
                               .header = token,
                               .body = body,
                               .index_header = "x-scheduler-index:"};
    (void)snprintf(full, sizeof full, "/v1/%s", path);
    (void)snprintf(token, sizeof token, "X-Scheduler-Token: %s", agent.secret);
    TRY(client_request(&agent.client, &call, ret_body));
    *ret_http = call.http;
    if (call.index != 0)
        last_index = call.index;
    return ST_OK;
}
