/* The functions of this node that the layers above call, as a table, so that a test can put another
 * node in its place. A function that is a part's has the shape, errors and thread that the part's
 * header describes. */
#ifndef HOLDFAST_NODE_NODE_OPS_H
#define HOLDFAST_NODE_NODE_OPS_H

#include "cluster/dr/check.h"
#include "cluster/dr/drill/drill.h"
#include "cluster/dr/follow/follow.h"
#include "cluster/dr/live.h"
#include "cluster/membership/join/enroll.h"
#include "cluster/membership/members/admin.h"
#include "node/node.h"
#include "node/unseal.h"
#include "snapshot/snapshot.h"

/* A member as the active node knows it. Other nodes know these facts only of themselves. */
struct node_peer {
    char name[64], version[32];
    char api_address[160]; /* URL of the member's API; "" before its first report */
    char cluster_address[160];
    bool active, reached; /* the member is active; this node reaches the member */
    bool serves;          /* by its last report: unsealed, and its audit devices do not all fail */
    int64_t heard_ms;     /* last report, by this node's wall clock; 0: never, or this node */
    /* As a leader judges the member (health.h); else false and 0. `stable_ms`: since when, by this
     * node's wall clock. */
    bool healthy, silent;
    int64_t stable_ms;
    uint16_t feature; /* feature level that the member understands; the first where unknown */
    uint64_t last_index, last_term; /* end of the member's log, as a leader knows it; else 0 */
};

struct node_ops {
    void (*status)(struct node *node, struct node_status *ret_status); /* board_get */
    struct node_brief (*brief)(const struct node *node);               /* board_brief */
    /* Whether too few voters can be reached for a leader, for longer than an election takes; then
     * *ret_why counts them and names those that are missing. Any thread. */
    bool (*no_quorum)(struct node *node, struct reason *ret_why);
    int64_t (*time_ms)(struct node *node); /* board_time_ms */
    /* The monotonic time when this node last heard a leader; 0: never. Any thread. */
    uint64_t (*heard_ms)(const struct node *node);
    /* Fill at most RLOG_MEMBERS_MAX peers; returns their number. Any thread. */
    unsigned (*peers)(struct node *node, struct node_peer *ret_peers);
    /* Append the authority of the cluster ports, PEM, as ca_file has it. Blocks; any thread.
     * Statuses of tls_pem_read. */
    enum status (*authority)(struct node *node, struct buf *out, struct reason *reason);

    /* The link of disaster recovery, as this node knows it (cluster/dr/live.h). Any thread. */
    void (*dr_facts)(struct node *node, struct dr_facts *ret_facts);
    /* dr_hold_begin: wait for a secondary, and dr_hold_get. */
    bool (*dr_hold)(struct node *node, struct dr_hold *hold, uint64_t now_ms);
    void (*dr_hold_facts)(struct node *node, struct dr_hold_facts *ret_facts);
    /* The counters of the link (counts.h). */
    const struct dr_counts *(*dr_counts)(const struct node *node);
    /* dr_lost_read, the same. */
    enum status (*dr_lost)(struct node *node, const char *name, uint64_t from,
                           bool (*each)(void *ctx, const struct dr_lost_write *write), void *ctx);
    /* dr_check_run, on the calling thread, which may block. */
    enum status (*dr_check)(struct node *node, bool mend, struct dr_check *ret_check);
    /* dr_drill_run, the same. */
    enum status (*dr_drill)(struct node *node, const struct dr_drill_ask *ask,
                            struct dr_drill *ret_drill, struct reason *reason);

    /* unseal_status, and reseal_why; unseal_share, _reset, _seal */
    void (*seal_status)(struct node *node, struct node_seal_status *ret_status);
    enum status (*unseal_share)(struct node *node, struct env *env, struct bytes share,
                                bool migrate, struct reason *reason);
    enum status (*unseal_reset)(struct node *node, struct reason *reason);
    void (*seal)(struct node *node);

    /* enroll_join; admin_remove, _set_vote, _step_down */
    enum status (*join)(struct node *node, const struct join_request *request,
                        struct reason *reason);
    enum status (*remove_member)(struct node *node, const char *name, struct reason *reason);
    enum status (*set_vote)(struct node *node, const char *name, bool votes, struct reason *reason);
    enum status (*step_down)(struct node *node, struct reason *reason);

    /* snapshot_file, _room, _save, _restore */
    enum status (*snapshot_file)(struct node *node, struct fs_file **ret_file);
    bool (*snapshot_room)(struct node *node);
    enum status (*snapshot_save)(struct node *node, struct fs_file **ret_file, uint64_t *ret_bytes,
                                 struct reason *reason);
    enum status (*snapshot_restore)(struct node *node, struct env *env,
                                    const struct snapshot_source *source, struct reason *reason);
};

extern const struct node_ops node_ops;

#endif
