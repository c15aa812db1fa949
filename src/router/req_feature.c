/* Refuses requests that need a later feature level than the cluster has
 * (cluster/membership/members/feature.h). */
#include "cluster/membership/members/feature_level.h"
#include "router/req_node.h"

/* The names of the members whose builds have a feature level below `level`, separated by commas. */
static void name_older(struct req *req, uint16_t level, struct buf *out)
{
    struct node_peer *peers = arena_alloc(req->arena, RLOG_MEMBERS_MAX * sizeof *peers);
    unsigned n = peers != NULL ? req->host->node_ops->peers(req->host->node, peers) : 0;
    ASSERT(n <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < n; i++)
        if (peers[i].feature < level || (!peers[i].active && !peers[i].reached))
            buf_add_format(out, "%s%s", out->len != 0 ? ", " : "", peers[i].name);
}

enum { REPORTS_MS = 2000 }; /* a new active node has the report of every member by then */

/* Whether the level probably rises by itself: every member's build understands it, or has not
 * reported yet, and no operator holds the level. So it is in the first moments of a cluster, and
 * after the last member's upgrade. */
static bool rises(struct req *req, bool older)
{
    const struct node_status *node = req_node(req);
    if (node == NULL || !req_in_txn(req) ||
        state_exists(req->txn, BYTES(FEATURE_HOLD)) != ST_NOT_FOUND)
        return false;
    int64_t active_ms = env_wall_ms(req->env) - node->active_since_ms;
    bool fresh = node->active_since_ms != 0 && active_ms >= 0 && active_ms < REPORTS_MS;
    return !older || fresh;
}

enum status req_need_feature(struct req *req, uint16_t level)
{
    CLEANUP(buf_done) struct buf older = {0};
    ASSERT(level <= RLOG_FEATURE);
    if (req->feature >= level)
        return ST_OK;
    name_older(req, level, &older);
    buf_add_u8(&older, 0);
    TRY(buf_status(&older));
    const char *names = (const char *)older.data;
    if (rises(req, names[0] != '\0'))
        req_await(req);
    return req_fail(req, ST_BUSY,
                    "this needs feature level %u, and the cluster is at level %u: %s%s", level,
                    req->feature,
                    names[0] != '\0' ? "upgrade every member to this build; older or unreachable: "
                                     : "the level rises unless auto_raise is off",
                    names);
}
