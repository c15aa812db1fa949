/* Removed nodes, on both sides.
 *
 * In the cluster: the state keeps the name of a removed node. Voters refuse its links as
 * "removed", and no member adds the node again until the record is deleted: by an operator, or when
 * a join token is used to issue a certificate for the name.
 *
 * A node that lags may apply a removal long after the node was let in again. If it then refused the
 * leader, it would lag for ever. So only a voter with a leader refuses, and never that leader.
 *
 * The removed node itself: the entry that removes the node may never reach it, so the node learns
 * of its removal from its peers. One peer alone could lie or lag, so the node believes only a
 * majority. A peer that lags links with this node once it has caught up; then its word is
 * forgotten, or peers that lag one after the other would make a majority. A node that believes it
 * was removed records that beside its replica, forgets its keys, and serves nothing until its data
 * directory is emptied: an old replica of the cluster must not come back under its raft id
 * (PROTOCOL R13).
 *
 * After a recovery from a lost majority, the state keeps the raft ids of the former cluster. A node
 * that comes back under such an id is refused as "superseded". It believes one member: where a
 * majority of the former cluster was lost, no majority could say so. A node joins under a new id,
 * so it is never refused for this reason.
 *
 * If the name of a removed node was let in again before the node heard of its removal, no link is
 * refused, but no member sends to the old raft id. So a member that has had no leader for a while
 * asks its peers whether it is still a member. */
#include "cluster/membership/removal/removed.h"

#include "cluster/membership/local.h"

#include "base/trace.h"

#include <stdio.h>

enum { ALONE_MS = 3000, ASK_EVERY_MS = 1000 };

bool removed_is(const struct part_host *host, const char *name, bool unsure)
{
    for (unsigned i = 0; i < host->n_members; i++)
        if (strcmp(host->members[i].name, name) == 0)
            return false; /* the node was let in again; this node's applied state is older */
    return local_has(host, MEMBER_REMOVED_KEY, name, unsure);
}

static bool votes(const struct part_host *host)
{
    for (unsigned i = 0; i < host->n_members; i++)
        if (host->members[i].id == host->id)
            return host->members[i].role == RLOG_VOTER;
    return false;
}

bool removed_refuses(const struct part_host *host, const char *name, uint64_t id)
{
    struct rlog_status raft;
    if (host->rlog == NULL || !votes(host) || !removed_is(host, name, false))
        return false; /* unsure: do not call the node removed */
    rlog_status(host->rlog, &raft);
    return raft.leader != 0 && raft.leader != id;
}

/* The names of the other voters of the configuration that this node knows, or of the other initial
 * members while it knows none. Members without a vote are left out: all of them may lag. */
static unsigned peers_of(const struct removed *r, const char *names[REMOVED_PEERS_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < r->host->n_members; i++)
        if (r->host->members[i].role == RLOG_VOTER &&
            strcmp(r->host->members[i].name, r->host->options->name) != 0)
            names[count++] = r->host->members[i].name;
    for (unsigned i = 0; r->host->n_members == 0 && i < r->host->options->n_initial_members; i++)
        if (strcmp(r->host->options->initial_members[i].name, r->host->options->name) != 0)
            names[count++] = r->host->options->initial_members[i].name;
    ASSERT(count <= REMOVED_PEERS_MAX);
    return count;
}

/* Whether a majority of the other voters says that this node is no member. */
static bool is_settled(const struct removed *r)
{
    const char *names[REMOVED_PEERS_MAX];
    unsigned count = peers_of(r, names), said = 0;
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < r->n_refused_by; j++)
            said += strcmp(names[i], r->refused_by[j]) == 0;
    return said > count / 2;
}

static void note_refusal(struct removed *r, const char *from)
{
    for (unsigned i = 0; i < r->n_refused_by; i++)
        if (strcmp(r->refused_by[i], from) == 0)
            return;
    trace(TRACE_WARN, "node", "%s says that this node is no member of the cluster", from);
    if (r->n_refused_by == ARRAY_LEN(r->refused_by))
        r->n_refused_by = 0; /* count anew: current voters repeat their refusal */
    ASSERT(r->n_refused_by < ARRAY_LEN(r->refused_by));
    /* cannot be cut: the name is valid */
    (void)snprintf(r->refused_by[r->n_refused_by++], MESH_NAME_MAX, "%s", from);
}

void removed_hear(struct removed *r, const char *from)
{
    ASSERT(part_on_thread(r->host));
    if (r->host->removed || r->host->stopping)
        return;
    note_refusal(r, from);
    if (is_settled(r))
        bootstrap_removed(r->bootstrap);
}

bool removed_is_superseded(const struct part_host *host, uint64_t id)
{
    char name[RECOVERED_NAME_MAX];
    local_recovered_name(id, name);
    return local_has(host, MEMBER_RECOVERED_KEY, name, false);
}

void removed_hear_superseded(struct removed *r, const char *from)
{
    ASSERT(part_on_thread(r->host));
    if (r->host->phase == PHASE_MEMBER && !r->host->removed && !r->host->stopping)
        bootstrap_superseded(r->bootstrap, from);
}

static bool is_linked(const struct part_host *host, const char *name)
{
    for (unsigned i = 0; i < host->n_members; i++)
        if (strcmp(host->members[i].name, name) == 0)
            return mesh_linked(host->mesh, host->members[i].id);
    return false;
}

/* Forget the words of peers that link with this node again. Only while there is a leader: a node
 * without one hears FRAME_NO_MEMBER over such a link. */
static void forget_lagging(struct removed *r, const struct rlog_status *raft)
{
    unsigned kept = 0;
    if (raft->leader == 0 || r->host->mesh == NULL)
        return;
    for (unsigned i = 0; i < r->n_refused_by; i++) {
        if (is_linked(r->host, r->refused_by[i]))
            continue;
        memmove(r->refused_by[kept], r->refused_by[i], MESH_NAME_MAX);
        kept++;
    }
    ASSERT(kept <= r->n_refused_by);
    r->n_refused_by = kept;
}

static void removed_changed(void *self, const struct rlog_status *raft)
{
    struct removed *r = self;
    uint64_t now = env_mono_ms(r->host->env);
    ASSERT(part_on_thread(r->host));
    if (!r->host->removed)
        forget_lagging(r, raft);
    if (r->host->phase != PHASE_MEMBER || r->host->removed || raft->leader != 0) {
        r->alone_ms = 0;
        return;
    }
    if (r->alone_ms == 0)
        r->alone_ms = now;
    if (now - r->alone_ms < ALONE_MS || now - r->alone_asked_ms < ASK_EVERY_MS)
        return;
    r->alone_asked_ms = now;
    for (unsigned i = 0; i < raft->n_members; i++)
        if (raft->members[i].id != r->host->id)
            r->host->calls->send(r->host, raft->members[i].id, FRAME_MEMBER, (struct bytes){0});
}

static bool has_member(const struct rlog_status *raft, uint64_t id)
{
    for (unsigned i = 0; i < raft->n_members; i++)
        if (raft->members[i].id == id)
            return true;
    return false;
}

/* Tell `id` that it is no member. Only a node with a leader and committed members may say so. */
static void answer_member(struct removed *r, uint64_t id, const struct rlog_status *raft)
{
    uint8_t who[8];
    if (raft->leader == 0 || !raft->members_committed || has_member(raft, id))
        return;
    le64_put(who, id);
    r->host->calls->send(r->host, id, FRAME_NO_MEMBER, bytes_of(who, sizeof who));
}

static bool removed_receive(void *self, const struct part_frame *frame)
{
    struct removed *r = self;
    struct part_host *host = r->host;
    struct rlog_status raft;
    struct reader content = reader_of(frame->content);
    ASSERT(part_on_thread(host));
    if (frame->kind != FRAME_MEMBER && frame->kind != FRAME_NO_MEMBER)
        return false;
    if (host->phase != PHASE_MEMBER || host->removed || host->rlog == NULL || host->replica_closed)
        return true;
    rlog_status(host->rlog, &raft);
    if (frame->kind == FRAME_MEMBER)
        answer_member(r, frame->from, &raft);
    else if (reader_u64(&content) == host->id && reader_end(&content) == ST_OK && raft.leader == 0)
        removed_hear(r, frame->from_name);
    return true;
}

static enum status removed_start(void *self, struct part_host *host)
{
    struct removed *r = self;
    ASSERT(r->host == NULL && r->n_refused_by == 0);
    r->host = host;
    return ST_OK;
}

const struct part removed_part = {.name = "removed",
                                  .start = removed_start,
                                  .changed = removed_changed,
                                  .receive = removed_receive};
