#include "router/req_node.h"

struct node_status *req_node(struct req *req)
{
    struct node_status *node = arena_alloc(req->arena, sizeof *node);
    if (node != NULL)
        req->host->node_ops->status(req->host->node, node);
    return node;
}

bool req_node_starts(const struct req *req, const struct node_status *node)
{
    struct reason why;
    return !node->initialized && node->applied_index == 0 && !node->waits && !node->removed &&
           !req->host->awaits_members(req->host, &why);
}

void req_warn_no_quorum(struct req *req)
{
    struct reason why;
    struct node_brief node = req->host->node_ops->brief(req->host->node);
    if (!node.active && req->host->node_ops->no_quorum(req->host->node, &why))
        req_warn(req, "%s: this is what the node that was asked knows", why.text);
}

enum status req_nothing_staged(struct req *req)
{
    ASSERT(req->route->outside != NULL); /* `outside` does everything */
    return ST_OK;
}
