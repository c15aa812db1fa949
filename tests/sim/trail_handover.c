/* A leader none of whose audit devices takes records hands leadership over. The program's own part
 * decides it (src/node/transfer.c); what members report of themselves is what the simulator knows.
 */
#include "trail.h"

#include "base/mem.h"
#include "cluster.h"
#include "node/transfer.h"

enum { HANDOVER_MS = 90000 /* the leader may have tried in vain, and tries again after 60 s */ };

struct trail_handover {
    struct part_host host;
    struct transfer transfer;
};

struct trail_handover *trail_handover_new(struct node *n)
{
    struct trail_handover *h = mem_must_alloc(sizeof *h);
    *h = (struct trail_handover){
        .host = {.env = &n->env.env, .barrier = n->barrier, .rlog = n->rlog, .initialized = true}};
    h->transfer.peers = (struct peers *)(void *)n; /* peers_target gets it back */
    if (transfer_part.start(&h->transfer, &h->host) != ST_OK)
        core_fail(n->cluster->core, "%s: the handover does not start", n->name);
    return h;
}

void trail_handover_free(struct trail_handover *h)
{
    ASSERT(!h->transfer.running); /* the replica has closed */
    mem_free(h);
}

void trail_handover_look(struct trail_handover *h, bool mute)
{
    struct rlog_status status;
    rlog_status(h->host.rlog, &status);
    h->host.mute = mute;
    transfer_part.changed(&h->transfer, &status);
}

/* Only a stop of the part asks, and the simulator stops nodes without it. */
bool mesh_linked(const struct mesh *mesh, uint64_t id)
{
    (void)mesh;
    (void)id;
    return false;
}

/* A voter that serves. */
uint64_t peers_target(struct peers *peers)
{
    struct node *n = (struct node *)(void *)peers;
    struct rlog_status status;
    rlog_status(n->rlog, &status);
    for (unsigned i = 0; i < status.n_members; i++) {
        struct node *other = node_by_id(n->cluster, status.members[i].id);
        if (other != NULL && other != n && status.members[i].role == RLOG_VOTER &&
            other->state == NODE_UP && !other->stopping && trail_serves(other))
            return other->id;
    }
    return 0;
}

void trail_handover_check(struct cluster *c)
{
    struct node *leader = cluster_leader(c);
    ASSERT(leader != NULL && c->calm);
    if (peers_target((struct peers *)(void *)leader) == 0)
        return; /* the only voter */
    core_say(c->core, "%s: every audit device fails", leader->name);
    trail_devices_mute(leader->trail_devices);
    for (unsigned ms = 0; cluster_leader(c) == leader; ms += 100) {
        if (ms > HANDOVER_MS)
            core_fail(c->core, "%s leads on, although no audit device takes its records",
                      leader->name);
        cluster_run_for(c, 100 * SIM_MS);
    }
    c->tally.reached[REACH_MUTE_HANDOVER]++;
    trail_devices_fault(leader->trail_devices, &c->rng, false);
    while (cluster_leader(c) == NULL)
        cluster_run_for(c, 100 * SIM_MS);
}
