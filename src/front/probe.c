#include "front/probe.h"

/* Why the node does not serve, for the text of a reply; NULL: it does. A cluster that follows
 * another one, or that was superseded, refuses all clients: a load balancer must not send them
 * there. */
static const char *why_closed(const struct router_host *host, const struct node_status *node,
                              bool ready)
{
    ASSERT(host != NULL && host->node_ops != NULL);
    ASSERT(!node->active || !node->sealed);
    if (host->maintenance)
        return "is in maintenance";
    if (host->leaving)
        return "is about to end";
    if (node->removed)
        return "was removed from the cluster";
    if (!node->initialized)
        return "is not initialised";
    if (node->sealed)
        return "is sealed";
    if (node->dr.mode == DR_MODE_SECONDARY)
        return "belongs to a secondary of disaster recovery, which serves no clients";
    if (node->dr.phase == DR_PHASE_SUPERSEDED)
        return "belongs to a primary that another one has superseded";
    if (ready)
        return node->active || node->has_leader ? NULL : "knows no active node";
    return node->active ? NULL : "is not active";
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
    ASSERT(!request->forwarded && request->dialect != NULL);
    ASSERT(ready || live || text_is(path, "/activez"));
    host->node_ops->status(host->node, &node);
    const char *closed = live ? NULL : why_closed(host, &node, ready);
    if (closed != NULL) {
        struct reason why;
        if (host->awaits_members(host, &why)) {
            reply_error(ret, request->dialect, ST_UNINITIALIZED, &why);
            return true;
        }
        reason_set(&why, "this node %s", closed);
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
