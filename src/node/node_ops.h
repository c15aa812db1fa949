/* The functions of this node that the layers above call, as a table, so that a test can put another
 * node in its place. Each member is the function of that name in node.h, quorum.h, admin.h and
 * snapshot/snapshot.h, where its shape, errors and thread are described. */
#ifndef HOLDFAST_NODE_NODE_OPS_H
#define HOLDFAST_NODE_NODE_OPS_H

#include "node/node.h"

struct node_ops {
    void (*status)(struct node *node, struct node_status *ret_status);
    struct node_brief (*brief)(const struct node *node);
    bool (*no_quorum)(struct node *node, struct reason *ret_why);
    int64_t (*time_ms)(struct node *node);
    unsigned (*peers)(struct node *node, struct node_peer *ret_peers);

    void (*seal_status)(struct node *node, struct node_seal_status *ret_status);
    enum status (*unseal_share)(struct node *node, struct env *env, struct bytes share,
                                struct reason *reason);
    enum status (*unseal_reset)(struct node *node, struct reason *reason);
    void (*seal)(struct node *node);

    enum status (*join)(struct node *node, const struct node_join *how, struct reason *reason);
    enum status (*remove_member)(struct node *node, const char *name, struct reason *reason);
    enum status (*set_vote)(struct node *node, const char *name, bool votes, struct reason *reason);
    enum status (*step_down)(struct node *node, struct reason *reason);

    enum status (*snapshot_file)(struct node *node, struct fs_file **ret_file);
    bool (*snapshot_room)(struct node *node);
    enum status (*snapshot_save)(struct node *node, struct fs_file **ret_file, uint64_t *ret_bytes,
                                 struct reason *reason);
    enum status (*snapshot_restore)(struct node *node, struct env *env,
                                    const struct snapshot_source *source, struct reason *reason);
};

extern const struct node_ops node_ops;

#endif
