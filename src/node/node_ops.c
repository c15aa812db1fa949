#include "node/node_ops.h"
#include "node/admin.h"
#include "node/quorum.h"
#include "snapshot/snapshot.h"

static enum status open_file(struct node *node, struct fs_file **ret_file)
{
    return snapshot_file(node_snapshot(node), ret_file);
}

static bool has_room(struct node *node)
{
    return snapshot_room(node_snapshot(node));
}

static enum status save_state(struct node *node, struct fs_file **ret_file, uint64_t *ret_bytes,
                              struct reason *reason)
{
    return snapshot_save(node_snapshot(node), ret_file, ret_bytes, reason);
}

static enum status restore_state(struct node *node, struct env *env,
                                 const struct snapshot_source *source, struct reason *reason)
{
    return snapshot_restore(node_snapshot(node), env, source, reason);
}

const struct node_ops node_ops = {
    .status = node_status_get,
    .brief = node_brief_get,
    .no_quorum = node_no_quorum,
    .time_ms = node_time_ms,
    .peers = node_peers,
    .seal_status = node_seal_status,
    .unseal_share = node_unseal_share,
    .unseal_reset = node_unseal_reset,
    .seal = node_seal,
    .join = node_join,
    .remove_member = node_remove_member,
    .set_vote = node_set_vote,
    .step_down = node_step_down,
    .snapshot_file = open_file,
    .snapshot_room = has_room,
    .snapshot_save = save_state,
    .snapshot_restore = restore_state,
};
