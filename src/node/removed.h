/* Removed nodes: whom this one takes for removed, and how it learns that it was. Raft thread. */
#ifndef HOLDFAST_NODE_REMOVED_H
#define HOLDFAST_NODE_REMOVED_H

#include "node/node_internal.h"

/* Of another node; `unsure` where that cannot be told now. */
bool node_removed_is(struct node *n, const char *name, bool unsure);
/* Whether there is a record of a name, below one of the keys of node.h. */
bool node_is_noted(struct node *n, const char *prefix, const char *name, bool unsure);
void node_removed_hear(struct node *n, const char *from); /* a peer says it of this one */
void node_removed_begin(struct node *n);                  /* this node was removed */
void node_removed_look(struct node *n, const struct rlog_status *raft); /* a tick */
void node_removed_receive(struct node *n, uint64_t from, const char *from_name,
                          enum frame_kind kind, struct bytes content);

#endif
