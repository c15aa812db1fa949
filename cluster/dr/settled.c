#include "cluster/dr/settled.h"

#include "cluster/dr/dr.h"
#include "state/state_core.h"

static const struct dr_peer *peer_of(const struct dr_facts *facts, const char *id)
{
    ASSERT(facts->n_peers <= DR_PEERS_MAX);
    for (unsigned i = 0; i < facts->n_peers; i++)
        if (strcmp(facts->peers[i].id, id) == 0)
            return &facts->peers[i];
    return NULL;
}

uint64_t dr_settled(const struct dr_secondaries *secondaries, const struct dr_facts *facts)
{
    uint64_t settled = STATE_NO_SECONDARY;
    ASSERT(secondaries->n <= DR_SECONDARIES_MAX);
    for (unsigned i = 0; i < secondaries->n; i++) {
        const struct dr_secondary *one = &secondaries->items[i];
        const struct dr_peer *peer = peer_of(facts, one->id);
        if (one->activated_ms != 0)
            settled = MIN(settled, peer != NULL ? peer->settled : 0);
    }
    return settled;
}

enum status dr_settled_upkeep(const void *self, struct state_txn *txn, int64_t now_ms,
                              unsigned steps)
{
    struct dr *d = *(struct dr *const *)self;
    struct dr_secondaries secondaries = {0};
    struct dr_facts *facts;
    (void)steps;
    if (state_count(txn, BYTES(BARRIER_LINKS)) == 0)
        return state_superseded_upkeep(txn, now_ms, STATE_NO_SECONDARY);
    TRY(dr_secondaries_read(txn, now_ms, &secondaries));
    facts = dr_live_begin(&d->live);
    uint64_t settled = dr_settled(&secondaries, facts);
    dr_live_end(&d->live);
    return state_superseded_upkeep(txn, now_ms, settled);
}
