#include "cluster/dr/live.h"
#include "cluster/dr/link/dr_conn.h"

#include "base/trace.h"

#include <inttypes.h>
#include <stdio.h>

const char *dr_connection_text(enum dr_connection state)
{
    static const char *const texts[] = {
        [DR_LINK_IDLE] = "idle",      [DR_LINK_CONNECTING] = "connecting",
        [DR_LINK_READY] = "ready",    [DR_LINK_FAILED] = "transient_failure",
        [DR_LINK_ENDED] = "shutdown",
    };
    ASSERT(state < ARRAY_LEN(texts));
    return texts[state];
}

enum status dr_live_init(struct dr_live *live)
{
    ASSERT(!live->open);
    live->open = pthread_mutex_init(&live->lock, NULL) == 0;
    return live->open ? ST_OK : ST_NOMEM;
}

void dr_live_done(struct dr_live *live)
{
    if (live->open)
        (void)pthread_mutex_destroy(&live->lock); /* no thread holds the lock */
    live->open = false;
}

struct dr_facts *dr_live_begin(struct dr_live *live)
{
    int failed = pthread_mutex_lock(&live->lock);
    ASSERT(failed == 0);
    return &live->facts;
}

void dr_live_end(struct dr_live *live)
{
    int failed = pthread_mutex_unlock(&live->lock);
    ASSERT(failed == 0);
}

void dr_live_get(struct dr_live *live, struct dr_facts *ret_facts)
{
    *ret_facts = *dr_live_begin(live);
    dr_live_end(live);
}

void dr_live_reset(struct dr_live *live)
{
    *dr_live_begin(live) = (struct dr_facts){0};
    dr_live_end(live);
}

void dr_live_forget_primary(struct dr_live *live)
{
    struct dr_facts *facts = dr_live_begin(live);
    unsigned n = 0;
    ASSERT(facts->n_peers <= DR_PEERS_MAX);
    for (unsigned i = 0; i < facts->n_peers; i++)
        if (facts->peers[i].address[0] == '\0') /* a secondary that still fetches from here */
            facts->peers[n++] = facts->peers[i];
    facts->n_peers = n;
    facts->known = (struct dr_addresses){0};
    dr_live_end(live);
}

/* The peer to replace when all are in use: one that is not connected. */
static struct dr_peer *spare_peer(struct dr_facts *facts)
{
    if (facts->n_peers < DR_PEERS_MAX)
        return &facts->peers[facts->n_peers++];
    for (unsigned i = 0; i < DR_PEERS_MAX; i++)
        if (!facts->peers[i].connected)
            return &facts->peers[i];
    return NULL;
}

struct dr_peer *dr_live_peer(struct dr_facts *facts, const char *id, const char *address)
{
    for (unsigned i = 0; i < facts->n_peers; i++)
        if (strcmp(facts->peers[i].id, id) == 0 && strcmp(facts->peers[i].address, address) == 0)
            return &facts->peers[i];
    struct dr_peer *peer = spare_peer(facts);
    if (peer == NULL)
        return NULL;
    *peer = (struct dr_peer){.lag_ms = -1};
    /* cannot be cut: both texts were bounded when they were received */
    (void)snprintf(peer->id, sizeof peer->id, "%s", id);
    (void)snprintf(peer->address, sizeof peer->address, "%s", address);
    return peer;
}

struct dr_lag dr_live_lag(const struct dr_facts *facts, uint64_t version, uint64_t now_ms)
{
    struct dr_lag lag = {.heard_ms = -1};
    if (facts->primary_heard_ms == 0)
        return lag;
    lag.heard_ms = (int64_t)(MAX(now_ms, facts->primary_heard_ms) - facts->primary_heard_ms);
    if (facts->primary_version <= version)
        return lag;
    lag.entries = facts->primary_version - version;
    lag.ms = MAX(dr_live_age_ms(facts, now_ms), 0);
    lag.bytes = facts->behind_bytes;
    return lag;
}

int64_t dr_live_age_ms(const struct dr_facts *facts, uint64_t now_ms)
{
    if (facts->settled_ms == 0)
        return -1;
    return (int64_t)(MAX(now_ms, facts->settled_ms) - facts->settled_ms);
}

bool dr_live_conflict(struct dr_live *live, uint64_t epoch, const char *source)
{
    struct dr_facts *facts = dr_live_begin(live);
    bool known = facts->conflict.epoch == epoch;
    ASSERT(epoch != 0);
    facts->conflict.epoch = epoch;
    facts->conflict.heard_ms = (uint64_t)dr_conn_now_ms();
    (void)snprintf(facts->conflict.source, sizeof facts->conflict.source, "%s",
                   source); /* may be cut */
    dr_live_end(live);
    if (!known)
        trace(TRACE_ERROR, "dr",
              "conflict: %s tells that another cluster of this set is a primary of epoch %" PRIu64
              ". Nothing is discarded. Demote one of the two, and make it follow the other",
              source, epoch);
    return !known;
}

void dr_live_agree(struct dr_live *live)
{
    dr_live_begin(live)->conflict = (struct dr_conflict){0};
    dr_live_end(live);
}

const struct dr_conflict *dr_live_conflict_of(const struct dr_facts *facts, uint64_t now_ms)
{
    const struct dr_conflict *c = &facts->conflict;
    return c->epoch != 0 && now_ms < c->heard_ms + DR_CONFLICT_MS ? c : NULL;
}

void dr_live_set_place(struct dr_peer *peer, struct bytes api, struct bytes cluster)
{
    ASSERT(api.len < sizeof peer->api && cluster.len < sizeof peer->cluster);
    *bytes_put((uint8_t *)peer->api, api) = '\0';
    *bytes_put((uint8_t *)peer->cluster, cluster) = '\0';
}
