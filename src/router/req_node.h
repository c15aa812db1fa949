/* Facts about this node, for handlers. */
#ifndef HOLDFAST_ROUTER_REQ_NODE_H
#define HOLDFAST_ROUTER_REQ_NODE_H

#include "router/router.h"

/* The status of this node, in the arena; NULL without memory. */
struct node_status *req_node(struct req *req);
/* Whether this node has started and not read its log yet, so that the cluster looks as if it were
 * not initialised. Not a node that waits for others, or for a join request. */
bool req_node_starts(const struct req *req, const struct node_status *node);
/* The handler of a route that does everything in its `outside`. */
NODISCARD enum status req_nothing_staged(struct req *req);
/* Without a quorum: warn that the reply is the knowledge of this node alone. */
void req_warn_no_quorum(struct req *req);

#endif
