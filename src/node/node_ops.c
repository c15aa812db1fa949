#include "node/node_ops.h"
#include "node/admin.h"
#include "node/quorum.h"

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
    .snapshot_file = node_snapshot_file,
    .snapshot_room = node_snapshot_room,
    .snapshot_save = node_snapshot_save,
    .snapshot_restore = node_snapshot_restore,
};
