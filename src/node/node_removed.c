/* Removed nodes, on both sides.
 *
 * In the cluster: the name of a node that was removed is kept in the state. Its links are refused
 * with that word, and nobody adds it again, until its record is deleted: by an operator, or with
 * the next certificate that a join token buys for the name.
 *
 * The removed node itself: the entry that removes it need not reach it, so it learns from its
 * peers. One of them alone could lie, or be behind; a majority is what removed it. It notes the
 * fact beside its replica, forgets its keys, and serves nothing until its data directory is
 * emptied: what was a replica of this cluster may not come back as the same one (PROTOCOL R13). */
#include "node/node_parts.h"

#include "base/trace.h"

#include <stdio.h>

bool node_removed_is(struct node *n, const char *name, bool unsure)
{
    char key[sizeof NODE_REMOVED_KEY + MESH_NAME_MAX];
    struct store_item item;
    struct store_pin pin;
    if (n->rlog == NULL || n->rlog_closed)
        return false;
    for (unsigned i = 0; i < n->n_members; i++)
        if (strcmp(n->members[i].name, name) == 0)
            return false; /* it was let in again, and what we applied is older */
    (void)snprintf(key, sizeof key, NODE_REMOVED_KEY "%s", name); /* names are bounded */
    if (store_pin(rlog_store(n->rlog), "removed", 0, &pin) != ST_OK)
        return unsure; /* every pin is taken */
    bool found = store_get(&pin, bytes_str(key), &item) == ST_OK;
    store_unpin(&pin);
    return found;
}

/* The others, as far as this node knows: its peers when it was a member, or the founders. */
static unsigned peers_of(const struct node *n, const char *names[NODE_PEERS_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < n->n_members; i++)
        if (strcmp(n->members[i].name, n->options.name) != 0)
            names[count++] = n->members[i].name;
    for (unsigned i = 0; n->n_members == 0 && i < n->options.n_founders; i++)
        if (strcmp(n->options.founders[i].name, n->options.name) != 0)
            names[count++] = n->options.founders[i].name;
    ASSERT(count <= NODE_PEERS_MAX);
    return count;
}

/* Whether a majority of the others has said so. */
static bool is_settled(const struct node *n)
{
    const char *names[NODE_PEERS_MAX];
    unsigned count = peers_of(n, names), said = 0;
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < n->n_refused_by; j++)
            said += strcmp(names[i], n->refused_by[j]) == 0;
    return said > count / 2;
}

static void note(struct node *n, const char *from)
{
    for (unsigned i = 0; i < n->n_refused_by; i++)
        if (strcmp(n->refused_by[i], from) == 0)
            return;
    if (n->n_refused_by == ARRAY_LEN(n->refused_by))
        n->n_refused_by = 0; /* names of long ago: those that count say it again */
    (void)snprintf(n->refused_by[n->n_refused_by++], MESH_NAME_MAX, "%s", from); /* a valid name */
}

void node_removed_hear(struct node *n, const char *from)
{
    if (n->removed || n->stopping)
        return;
    note(n, from);
    if (is_settled(n))
        node_removed_begin(n);
}

void node_removed_begin(struct node *n)
{
    enum status st = node_join_keep_removed(n);
    trace(TRACE_ERROR, "node",
          "this node was removed from the cluster: it serves nothing until an operator lets it in "
          "again and its data directory is emptied");
    if (st != ST_OK)
        trace(TRACE_ERROR, "node", "that cannot be noted: %s", status_text(st));
    n->removed = true;
    node_seal(n);
    pthread_mutex_lock(&n->lock);
    n->status.removed = true;
    pthread_mutex_unlock(&n->lock);
}
