/* Changes of the cluster that an operator asks for (node_admin.c). */
#ifndef HOLDFAST_NODE_ADMIN_H
#define HOLDFAST_NODE_ADMIN_H

#include "node/node.h"

/* All block, on any thread but the raft thread, for as long as half a minute. On the leader only:
 * ST_NOT_LEADER elsewhere; ST_TIMEOUT: it may yet happen; ST_BUSY, ST_INVALID, with a reason.
 * ST_NOT_FOUND: no member of that name. */
NODISCARD enum status node_remove_member(struct node *node, const char *name,
                                         struct reason *reason);
/* Give a member its vote, or take it, and write that down (NODE_NONVOTER_KEY). */
NODISCARD enum status node_set_vote(struct node *node, const char *name, bool votes,
                                    struct reason *reason);
/* Hand leadership to the member best able to take it. */
NODISCARD enum status node_step_down(struct node *node, struct reason *reason);

#endif
