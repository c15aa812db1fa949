#include "router/req_dr_health.h"

#include "cluster/dr/role.h"

/* The peer whose heartbeat is the newest: its figures are those of the link. */
static const struct dr_peer *newest_peer(const struct dr_facts *facts)
{
    const struct dr_peer *newest = NULL;
    ASSERT(facts->n_peers <= DR_PEERS_MAX);
    for (unsigned i = 0; i < facts->n_peers; i++)
        if (newest == NULL || facts->peers[i].heard_ms > newest->heard_ms)
            newest = &facts->peers[i];
    return newest;
}

/* Of a primary: the age of what its most distant secondary has. */
static int64_t oldest_age_ms(const struct dr_facts *facts)
{
    int64_t oldest_ms = 0;
    for (unsigned i = 0; i < facts->n_peers; i++)
        if (facts->peers[i].connected)
            oldest_ms = MAX(oldest_ms, facts->peers[i].lag_ms);
    return oldest_ms;
}

struct req_dr_health req_dr_health(struct req *req, const struct node_status *node)
{
    struct req_dr_health out = {.takes_part = node->dr.mode != DR_MODE_DISABLED};
    ASSERT(req != NULL);
    struct dr_facts facts; /* on the stack: wiping an arena takes time */
    if (!out.takes_part)
        return out;
    req->host->node_ops->dr_facts(req->host->node, &facts);
    const struct dr_peer *peer = newest_peer(&facts);
    bool secondary = node->dr.mode == DR_MODE_SECONDARY;
    out.last_wal = node->version;
    out.canary_age_ms =
        !secondary ? oldest_age_ms(&facts) : dr_live_age_ms(&facts, env_mono_ms(req->env));
    bool heard = peer != NULL && peer->heard_wall_ms != 0;
    out.clock_skew_ms = heard ? peer->skew_ms : 0;
    out.echo_duration_ms = heard ? (int64_t)(peer->round_trip_us / 1000) : secondary ? -1 : 0;
    return out;
}
