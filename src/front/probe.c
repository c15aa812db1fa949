#include "front/probe.h"

static bool is_ready(const struct node_status *node)
{
    return node->initialized && !node->removed && !node->sealed &&
           (node->active || node->has_leader);
}

bool probe_reply(struct router_host *host, const struct router_request *request,
                 struct router_reply *ret)
{
    struct bytes path = request->target.full;
    bool live = text_is(path, "/livez"), ready = text_is(path, "/readyz");
    struct node_status node;
    ASSERT(ret->n_headers == 0);
    if (!live && !ready && !text_is(path, "/activez"))
        return false;
    if (request->method != METHOD_GET && request->method != METHOD_HEAD) {
        reply_error(ret, request->dialect, ST_UNSUPPORTED, NULL);
        (void)reply_add_header(ret, request->arena, BYTES("Allow"),
                               BYTES("GET, HEAD")); /* without memory the header is missing */
        return true;
    }
    ASSERT(!request->forwarded);
    host->node_ops->status(host->node, &node);
    bool serves = !host->maintenance && !host->leaving && (ready ? is_ready(&node) : node.active);
    if (!live && !serves) {
        struct reason why;
        if (host->awaits_members(host, &why)) {
            reply_error(ret, request->dialect, ST_UNINITIALIZED, &why);
            return true;
        }
        reason_set(&why, "this node %s",
                   host->maintenance   ? "is in maintenance"
                   : !node.initialized ? "is not initialised"
                   : node.sealed       ? "is sealed"
                   : ready             ? "knows no active node"
                                       : "is not active");
        reply_error(ret, request->dialect, ST_NO_LEADER, &why);
        return true;
    }
    buf_add(&ret->body, BYTES("{\"ok\":true}"));
    if (buf_status(&ret->body) != ST_OK) {
        reply_error(ret, request->dialect, ST_NOMEM, NULL);
        return true;
    }
    ret->http = 200;
    ret->content_type = "application/json";
    return true;
}
