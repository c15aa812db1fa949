#include "node/node_ops.h"
#include "crypto/tls.h"
#include "node/node_internal.h"

#include <stdio.h>

static struct node_brief get_brief(const struct node *node)
{
    return board_brief(&node->board);
}

static bool lost_quorum(struct node *node, struct reason *ret_why)
{
    return quorum_lost(&node->quorum, ret_why);
}

static int64_t get_time_ms(struct node *node)
{
    return board_time_ms(&node->board);
}

static uint64_t get_heard_ms(const struct node *node)
{
    return node->host.rlog != NULL ? rlog_heard_ms(node->host.rlog) : 0;
}

static void copy_text(char *to, size_t room, const char *from)
{
    /* cannot be cut: both texts were bounded when they were received */
    (void)snprintf(to, room, "%s", from);
}

/* Describe one peer. The caller holds the board's lock. */
static void describe_peer(struct node *n, unsigned at, struct node_peer *ret)
{
    const struct node_status *s = &n->board.status;
    const struct member_options *o = &n->options.member;
    const struct rlog_member *m = &s->raft.members[at];
    struct peer_report report;
    struct member_health health;
    bool ours = m->id == n->host.id;
    *ret = (struct node_peer){.feature = ours ? RLOG_FEATURE : RLOG_FEATURE_FIRST,
                              .active = s->active && ours,
                              .reached = quorum_reaches(&n->quorum, m->id),
                              .last_index = s->raft.match[at],
                              .last_term = s->raft.match_term[at]};
    copy_text(ret->name, sizeof ret->name, m->name);
    copy_text(ret->cluster_address, sizeof ret->cluster_address, m->address);
    if (ours) {
        copy_text(ret->api_address, sizeof ret->api_address, o->api_addr);
        copy_text(ret->version, sizeof ret->version, o->version);
        ret->serves = !s->sealed && !n->host.mute;
    } else if (peers_get(&n->peers, m->id, &report)) {
        copy_text(ret->api_address, sizeof ret->api_address, report.api_addr);
        copy_text(ret->version, sizeof ret->version, report.version);
        ret->serves = report.unsealed;
        ret->heard_ms = report.wall_ms;
        ret->feature = report.feature;
    }
    if (health_get(&n->health, m->id, &health)) {
        ret->healthy = health.healthy;
        ret->silent = health.silent;
        ret->stable_ms = health.since_wall_ms;
    }
}

static unsigned list_peers(struct node *node, struct node_peer *ret_peers)
{
    pthread_mutex_lock(&node->board.lock);
    unsigned n = node->board.status.raft.n_members;
    ASSERT(n <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < n; i++)
        describe_peer(node, i, &ret_peers[i]);
    pthread_mutex_unlock(&node->board.lock);
    return n;
}

static void get_dr_facts(struct node *node, struct dr_facts *ret_facts)
{
    dr_live_get(&node->dr.live, ret_facts);
}

static bool begin_hold(struct node *node, struct dr_hold *hold, uint64_t now_ms)
{
    return dr_hold_begin(&node->dr.holds, hold, now_ms);
}

static void get_hold_facts(struct node *node, struct dr_hold_facts *ret_facts)
{
    dr_hold_get(&node->dr.holds, ret_facts);
}

static const struct dr_counts *get_counts(const struct node *node)
{
    return &node->dr.counts;
}

static enum status read_lost(struct node *node, const char *name, uint64_t from,
                             bool (*each)(void *ctx, const struct dr_lost_write *write), void *ctx)
{
    return dr_lost_read(&node->host, name, from, each, ctx);
}

static enum status check_hashes(struct node *node, bool mend, struct dr_check *ret_check)
{
    return dr_check_run(&node->dr, mend, ret_check);
}

static enum status run_drill(struct node *node, const struct dr_drill_ask *ask,
                             struct dr_drill *ret_drill, struct reason *reason)
{
    return dr_drill_run(&node->dr, ask, ret_drill, reason);
}

static enum status read_authority(struct node *node, struct buf *out, struct reason *reason)
{
    return tls_pem_read(node->options.member.ca_file, out, reason);
}

static void get_seal_status(struct node *node, struct node_seal_status *ret_status)
{
    unseal_status(&node->unseal, ret_status);
    if (ret_status->why.text[0] == '\0')
        reseal_why(&node->reseal, &ret_status->why);
}

static enum status give_share(struct node *node, struct env *env, struct bytes share, bool migrate,
                              struct reason *reason)
{
    return unseal_share(&node->unseal, env, share, migrate, reason);
}

static enum status reset_shares(struct node *node, struct reason *reason)
{
    return unseal_reset(&node->unseal, reason);
}

static void seal_node(struct node *node)
{
    unseal_seal(&node->unseal);
}

static enum status join_cluster(struct node *node, const struct join_request *request,
                                struct reason *reason)
{
    return enroll_join(&node->enroll, request, reason);
}

static enum status remove_member(struct node *node, const char *name, struct reason *reason)
{
    return admin_remove(&node->admin, name, reason);
}

static enum status set_vote(struct node *node, const char *name, bool votes, struct reason *reason)
{
    return admin_set_vote(&node->admin, name, votes, reason);
}

static enum status step_down(struct node *node, struct reason *reason)
{
    return admin_step_down(&node->admin, reason);
}

static enum status open_snapshot(struct node *node, struct fs_file **ret_file)
{
    return snapshot_file(&node->snapshot, ret_file);
}

static bool has_room(struct node *node)
{
    return snapshot_room(&node->snapshot);
}

static enum status save_state(struct node *node, struct fs_file **ret_file, uint64_t *ret_bytes,
                              struct reason *reason)
{
    return snapshot_save(&node->snapshot, ret_file, ret_bytes, reason);
}

static enum status restore_state(struct node *node, struct env *env,
                                 const struct snapshot_source *source, struct reason *reason)
{
    return snapshot_restore(&node->snapshot, env, source, reason);
}

const struct node_ops node_ops = {
    .status = node_status_get,
    .brief = get_brief,
    .no_quorum = lost_quorum,
    .time_ms = get_time_ms,
    .heard_ms = get_heard_ms,
    .peers = list_peers,
    .dr_facts = get_dr_facts,
    .dr_hold = begin_hold,
    .dr_hold_facts = get_hold_facts,
    .dr_counts = get_counts,
    .dr_check = check_hashes,
    .dr_drill = run_drill,
    .dr_lost = read_lost,
    .authority = read_authority,
    .seal_status = get_seal_status,
    .unseal_share = give_share,
    .unseal_reset = reset_shares,
    .seal = seal_node,
    .join = join_cluster,
    .remove_member = remove_member,
    .set_vote = set_vote,
    .step_down = step_down,
    .snapshot_file = open_snapshot,
    .snapshot_room = has_room,
    .snapshot_save = save_state,
    .snapshot_restore = restore_state,
};
