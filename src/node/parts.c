/* The parts of this node, in the order in which they are called: a part may read the facts that the
 * parts before it wrote. The role comes after the seal and before the work that depends on it. */
#include "node/node_internal.h"

#include "cluster/dr/settled.h"

#include <stddef.h>

#define ROW(form, member)                           \
    {                                               \
        &form##_part, offsetof(struct node, member) \
    }

static const struct {
    const struct part *part;
    size_t offset; /* offset of the part's struct in struct node */
} rows[] = {
    ROW(local, local),
    ROW(bootstrap, bootstrap),
    ROW(join, join),
    ROW(enroll, enroll),
    ROW(unseal, unseal),
    ROW(quorum, quorum),
    ROW(dr, dr),
    ROW(role, role),
    ROW(snapshot, snapshot),
    ROW(duty, duties),
    ROW(service, services),
    ROW(root, root),
    ROW(admin, admin),
    ROW(peers, peers),
    ROW(health, health),
    ROW(cleanup, cleanup),
    ROW(feature, feature),
    ROW(transfer, transfer),
    ROW(reseal, reseal),
    ROW(address, address),
    ROW(removed, removed),
    ROW(renew, renew),
    ROW(peer_unseal, peer_unseal),
};

static void *self_of(struct node *n, size_t i)
{
    ASSERT(i < ARRAY_LEN(rows));
    return (char *)n + rows[i].offset;
}

static int64_t cluster_time_ms(void *ctx)
{
    return board_time_ms(ctx);
}

static enum status seal_await(void *ctx, struct bytes seal_record)
{
    return unseal_await(ctx, seal_record);
}

static void seal_drop(void *ctx)
{
    unseal_drop(ctx);
}

static bool seal_has_opener(void *ctx)
{
    return unseal_has_opener(ctx);
}

static enum status seal_prove(void *ctx, struct bytes seal_record, struct bytes message,
                              uint8_t ret_mac[BARRIER_MAC_BYTES], struct reason *reason)
{
    return unseal_prove(ctx, seal_record, message, ret_mac, reason);
}

static bool peer_wanted(void *ctx)
{
    return unseal_wants_peer(ctx);
}

static enum status peer_open(void *ctx, const struct secret *root, struct reason *reason)
{
    return unseal_by_peer(ctx, root, reason);
}

static void on_opened(void *ctx)
{
    enroll_opened(ctx);
}

void node_parts_wire(struct node *n)
{
    const struct node_options *o = &n->options;
    ASSERT(n->host.options == NULL && n->join.bootstrap == NULL);
    n->host.options = &o->member;
    n->join.bootstrap = n->enroll.bootstrap = n->removed.bootstrap = &n->bootstrap;
    n->quorum.bootstrap = &n->bootstrap;
    n->enroll.seal =
        (struct enroll_seal){&n->unseal, seal_await, seal_drop, seal_has_opener, seal_prove};
    n->unseal.options = (struct unseal_options){.type = o->seal_type,
                                                .seal = o->seal,
                                                .former = o->former_seal,
                                                .has_former = o->has_former_seal};
    n->unseal.opened = on_opened;
    n->unseal.opened_ctx = &n->enroll;
    n->unseal.board = n->quorum.board = n->role.board = n->root.board = &n->board;
    n->role.dr = &n->dr;
    n->role.performance_standby = o->performance_standby;
    n->peer_unseal.enabled = o->peer_unseal;
    n->peer_unseal.seal = (struct peer_unseal_seal){&n->unseal, peer_wanted, peer_open};
    n->snapshot.seal = o->seal;
    n->snapshot.former_seal = o->former_seal;
    n->snapshot.state_bytes_max = o->state_bytes_max;
    n->snapshot.reserve_bytes = o->reserve_bytes;
    n->duties.rows = o->duties;
    n->duties.n = o->n_duties;
    n->duties.first[n->duties.n_first++] = (struct node_duty){.name = "migration to another seal",
                                                              .run_with = unseal_migrate,
                                                              .with = &n->unseal.self,
                                                              .secondary = true};
    n->duties.first[n->duties.n_first++] = (struct node_duty){.name = "own seal of a DR secondary",
                                                              .run_with = unseal_renew,
                                                              .with = &n->unseal.self,
                                                              .secondary = true};
    n->duties.first[n->duties.n_first++] = (struct node_duty){
        .name = "superseded root keys", .run_with = dr_settled_upkeep, .with = &n->host.dr};
    n->services.rows = o->services;
    n->services.n = o->n_services;
    n->services.time_ms = cluster_time_ms;
    n->services.time_ctx = &n->board;
    n->services.snapshot = &n->snapshot;
    n->services.seal = o->seal;
    n->admin.peers = n->cleanup.peers = n->transfer.peers = n->feature.peers = &n->peers;
    n->reseal.peers = n->health.peers = &n->peers;
    n->reseal.seal = o->seal;
    n->join.health = n->cleanup.health = &n->health;
    n->cleanup.admin = &n->admin;
    n->health.local = n->renew.local = &n->local;
}

enum status node_parts_start(struct node *n)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        TRY(rows[i].part->start(self_of(n, i), &n->host));
    return ST_OK;
}

void node_parts_tick(struct node *n)
{
    ASSERT(!n->host.stopping);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].part->tick != NULL)
            rows[i].part->tick(self_of(n, i));
}

void node_parts_changed(struct node *n, const struct rlog_status *raft)
{
    ASSERT(n->host.rlog != NULL && !n->host.replica_closed);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].part->changed != NULL)
            rows[i].part->changed(self_of(n, i), raft);
}

void node_parts_receive(struct node *n, const struct part_frame *frame)
{
    ASSERT(!n->host.stopping && frame->kind != FRAME_RAFT);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].part->receive != NULL && rows[i].part->receive(self_of(n, i), frame))
            return;
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

void node_parts_done(struct node *n)
{
    services_done(&n->services);
    dr_done(&n->dr);
    unseal_done(&n->unseal);
    reseal_done(&n->reseal);
    peers_done(&n->peers);
    health_done(&n->health);
}
