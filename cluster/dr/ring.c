#include "cluster/dr/ring.h"
#include "base/trace.h"

#include <stdio.h>

unsigned dr_ring_used(const struct rlog_wal_stats *ring, uint64_t position)
{
    enum { ALL = 100 };
    if (!ring->on || ring->last <= position)
        return 0;
    if (position < ring->base)
        return ALL;
    ASSERT(ring->last > ring->base && ring->bytes_max != 0);
    /* the factors are a share of the records and a share of the bytes, neither above 1 */
    double records = (double)(ring->last - position) / (double)(ring->last - ring->base);
    double bytes = (double)MIN(ring->bytes, ring->bytes_max) / (double)ring->bytes_max;
    return (unsigned)(ALL * records * bytes);
}

static char *find(struct dr_ring_watch *watch, const char *id)
{
    for (unsigned i = 0; i < watch->n; i++)
        if (strcmp(watch->ids[i], id) == 0)
            return watch->ids[i];
    return NULL;
}

bool dr_ring_judge(struct dr_ring_watch *watch, const struct rlog_wal_stats *ring,
                   const struct dr_peer *peer)
{
    char *warned = find(watch, peer->id);
    unsigned used = dr_ring_used(ring, peer->position);
    if (warned != NULL && used < DR_RING_NEAR_PERCENT / 2) {
        memmove(warned, watch->ids[--watch->n], DR_ID_MAX); /* may be the same place */
        return false;
    }
    if (warned != NULL || used < DR_RING_NEAR_PERCENT || watch->n == DR_PEERS_MAX)
        return false;
    (void)snprintf(watch->ids[watch->n++], DR_ID_MAX, "%s", peer->id); /* fits: it was bounded */
    return true;
}

static void warn_of(const struct rlog_wal_stats *ring, const struct dr_peer *peer)
{
    trace(
        TRACE_WARN, "dr",
        "secondary %s lacks %llu writes, which take %u %% of the WAL in memory: when it lacks more "
        "than the WAL holds, it must sync anew",
        peer->id, (unsigned long long)(ring->last - MIN(peer->position, ring->last)),
        dr_ring_used(ring, peer->position));
}

void dr_ring_warn(struct dr *dr, struct dr_ring_watch *watch)
{
    struct rlog_wal_stats ring;
    struct dr_facts facts;
    rlog_wal_stats(rlog_wal(dr->host->rlog), &ring);
    dr_live_get(&dr->live, &facts);
    ASSERT(facts.n_peers <= DR_PEERS_MAX && watch->n <= DR_PEERS_MAX);
    for (unsigned i = 0; i < facts.n_peers; i++)
        if (facts.peers[i].heard_ms != 0 && facts.peers[i].id[0] != '\0' &&
            dr_ring_judge(watch, &ring, &facts.peers[i]))
            warn_of(&ring, &facts.peers[i]);
}
