/* The parts of this node, in the order in which they are called: a part may read the facts that the
 * parts before it wrote. */
#include "node/node_internal.h"

static const struct {
    const struct part *part;
    size_t offset; /* of its struct in the node */
} rows[] = {
    {&snapshot_part, offsetof(struct node, snapshot)},
    {&duty_part, offsetof(struct node, duties)},
    {&service_part, offsetof(struct node, services)},
};

static void *self_of(struct node *n, size_t i)
{
    ASSERT(i < ARRAY_LEN(rows));
    return (char *)n + rows[i].offset;
}

enum status node_parts_start(struct node *n)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        TRY(rows[i].part->start(self_of(n, i), &n->host));
    return ST_OK;
}

void node_parts_changed(struct node *n, const struct rlog_status *raft)
{
    ASSERT(!n->host.stopping && n->host.rlog != NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].part->changed != NULL)
            rows[i].part->changed(self_of(n, i), raft);
}

bool node_parts_stop(struct node *n)
{
    bool rest = true;
    ASSERT(n->host.stopping);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].part->stop != NULL && !rows[i].part->stop(self_of(n, i)))
            rest = false;
    return rest;
}
