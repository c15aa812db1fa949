/* Removed nodes, on both sides.
 *
 * In the cluster: the name of a node that was removed is kept in the state. Its links are refused
 * as "removed", and no member adds the node again, until its record is deleted: by an operator, or
 * with the next certificate that is issued for the name by a join token.
 *
 * The removed node itself: the entry that removes it need not reach it, so it learns from its
 * peers. One of them alone could lie, or be behind; a majority is what removed it. It notes the
 * fact beside its replica, forgets its keys, and serves nothing until its data directory is
 * emptied: what was a replica of this cluster may not come back as the same one (PROTOCOL R13).
 *
 * A removed node whose name was let in again before it heard of its removal is not refused, but no
 * member speaks to its raft id. So a member that has had no leader for a while asks its peers
 * whether it is still a member. */
#include "node/removed.h"

#include "base/trace.h"

#include <stdio.h>

enum { ALONE_MS = 3000, ASK_EVERY_MS = 1000 };

bool node_removed_is(struct node *n, const char *name, bool unsure)
{
    for (unsigned i = 0; i < n->host.n_members; i++)
        if (strcmp(n->host.members[i].name, name) == 0)
            return false; /* the node was let in again; our applied state is older */
    return node_is_noted(n, NODE_REMOVED_KEY, name, unsure);
}

bool node_is_noted(struct node *n, const char *prefix, const char *name, bool unsure)
{
    char key[sizeof NODE_NONVOTER_KEY + MESH_NAME_MAX];
    struct store_item item;
    struct store_pin pin;
    if (n->host.rlog == NULL || n->host.replica_closed)
        return false;
    int len = snprintf(key, sizeof key, "%s%s", prefix, name);
    ASSERT(len > 0 && (size_t)len < sizeof key); /* names are bounded */
    if (store_pin(rlog_store(n->host.rlog), "removed", 0, &pin) != ST_OK)
        return unsure; /* every pin is taken */
    bool found = store_get(&pin, bytes_str(key), &item) == ST_OK;
    store_unpin(&pin);
    return found;
}

/* The others, as far as this node knows: the voters when it was a member, or the founders. Those
 * without a vote may be behind in any number. */
static unsigned peers_of(const struct node *n, const char *names[NODE_PEERS_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < n->host.n_members; i++)
        if (n->host.members[i].role == RLOG_VOTER &&
            strcmp(n->host.members[i].name, n->options.name) != 0)
            names[count++] = n->host.members[i].name;
    for (unsigned i = 0; n->host.n_members == 0 && i < n->options.n_founders; i++)
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
    trace(TRACE_WARN, "node", "%s says that this node is no member of the cluster", from);
    if (n->n_refused_by == ARRAY_LEN(n->refused_by))
        n->n_refused_by = 0; /* names of long ago: those that count say it again */
    (void)snprintf(n->refused_by[n->n_refused_by++], MESH_NAME_MAX, "%s", from); /* a valid name */
}

void node_removed_hear(struct node *n, const char *from)
{
    if (n->host.removed || n->host.stopping)
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
    n->host.removed = true;
    node_seal(n);
    pthread_mutex_lock(&n->lock);
    n->status.removed = true;
    node_brief_publish(n);
    pthread_mutex_unlock(&n->lock);
}

void node_removed_look(struct node *n, const struct rlog_status *raft)
{
    uint64_t now = env_mono_ms(n->host.env);
    if (n->phase != NODE_MEMBER || n->host.removed || raft->leader != 0) {
        n->alone_ms = 0;
        return;
    }
    if (n->alone_ms == 0)
        n->alone_ms = now;
    if (now - n->alone_ms < ALONE_MS || now - n->alone_asked_ms < ASK_EVERY_MS)
        return;
    n->alone_asked_ms = now;
    for (unsigned i = 0; i < raft->n_members; i++)
        if (raft->members[i].id != n->host.id)
            node_send(n, raft->members[i].id, FRAME_MEMBER, (struct bytes){0});
}

static bool has_member(const struct rlog_status *raft, uint64_t id)
{
    for (unsigned i = 0; i < raft->n_members; i++)
        if (raft->members[i].id == id)
            return true;
    return false;
}

/* Whether `id` is none is said by who has a leader, and of what is committed. */
static void answer(struct node *n, uint64_t id, const struct rlog_status *raft)
{
    uint8_t who[8];
    if (raft->leader == 0 || !raft->members_committed || has_member(raft, id))
        return;
    le64_put(who, id);
    node_send(n, id, FRAME_STRANGER, bytes_of(who, sizeof who));
}

void node_removed_receive(struct node *n, uint64_t from, const char *from_name,
                          enum frame_kind kind, struct bytes content)
{
    struct rlog_status raft;
    struct reader r = reader_of(content);
    if (n->phase != NODE_MEMBER || n->host.removed || n->host.rlog == NULL ||
        n->host.replica_closed)
        return;
    rlog_status(n->host.rlog, &raft);
    if (kind == FRAME_MEMBER)
        answer(n, from, &raft);
    else if (reader_u64(&r) == n->host.id && reader_end(&r) == ST_OK && raft.leader == 0)
        node_removed_hear(n, from_name);
}
