#include "cluster/membership/members/feature_level.h"

#include "base/plant.h"

uint16_t feature_common(const struct rlog_status *raft, uint16_t own,
                        uint16_t (*of)(void *ctx, const struct rlog_member *member), void *ctx)
{
    uint16_t common = own;
    ASSERT(own >= RLOG_FEATURE_FIRST);
    for (unsigned i = 0; i < raft->n_members; i++) {
        const struct rlog_member *m = &raft->members[i];
        if (m->id == raft->id || (planted(PLANT_LEVEL_EARLY) && m->role != RLOG_VOTER))
            continue;
        uint16_t understood = of(ctx, m);
        ASSERT(understood >= RLOG_FEATURE_FIRST);
        common = MIN(common, understood);
    }
    return common;
}
