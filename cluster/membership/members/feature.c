#include "cluster/membership/members/feature.h"
#include "cluster/membership/local.h"

#include "base/trace.h"
#include "state/feature.h"

#include <stdatomic.h>
#include <stdio.h>

enum { TRY_EVERY_MS = 1000 };

static uint16_t reported(void *ctx, const struct rlog_member *member)
{
    struct feature *f = ctx;
    uint16_t linked = mesh_feature(f->host->mesh, member->id); /* of the process that runs now */
    uint16_t said = peers_feature(f->peers, member->id);
    return linked == 0 ? RLOG_FEATURE_FIRST : MIN(linked, said);
}

static void on_raised(struct rlog_propose *p, enum status st)
{
    struct feature *f = CONTAINER_OF(p, struct feature, propose);
    ASSERT(f->raising);
    f->raising = false;
    buf_done(&f->txn);
    if (st == ST_OK)
        trace(TRACE_INFO, "node", "the cluster's feature level is %u now: older builds are refused",
              p->feature);
    else if (!f->host->stopping)
        trace(TRACE_WARN, "node", "the feature level was not raised: %s", status_text(st));
}

static void raise_to(struct feature *f, uint16_t level)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    char text[8];
    ASSERT(!f->raising && f->txn.len == 0);
    ASSERT(f->host->active_term != 0);
    int len = snprintf(text, sizeof text, "%u", level);
    ASSERT(len > 0 && (size_t)len < sizeof text);
    rlog_txn_put(&txn, BYTES(STATE_FEATURE_RAISED), bytes_of(text, (size_t)len));
    if (rlog_txn_encode(&txn, &f->txn) != ST_OK) {
        buf_done(&f->txn);
        return; /* out of memory: the next attempt tries again */
    }
    f->raising = true;
    f->propose = (struct rlog_propose){.txn = buf_bytes(&f->txn),
                                       .upkeep = true,
                                       .term = f->host->active_term,
                                       .feature = level,
                                       .done = on_raised};
    rlog_propose(f->host->rlog, &f->propose);
}

static void feature_changed(void *self, const struct rlog_status *raft)
{
    struct feature *f = self;
    uint64_t now = env_mono_ms(f->host->env);
    bool risen = raft->feature != atomic_load_explicit(&f->host->feature, memory_order_relaxed);
    atomic_store_explicit(&f->host->feature, raft->feature, memory_order_release);
    if (risen)
        f->host->calls->link(f->host); /* closes the links to older builds */
    if (f->host->active_term == 0 || f->host->stopping || f->raising || f->host->mesh == NULL ||
        raft->feature >= RLOG_FEATURE || !raft->members_committed ||
        (f->tried_ms != 0 && now - f->tried_ms < TRY_EVERY_MS))
        return;
    uint16_t common = feature_common(raft, RLOG_FEATURE, reported, f);
    if (common <= raft->feature || local_has(f->host, FEATURE_HOLD_DIR, FEATURE_HOLD_NAME, true))
        return;
    f->tried_ms = now;
    raise_to(f, common);
}

static enum status feature_start(void *self, struct part_host *host)
{
    struct feature *f = self;
    ASSERT(f->host == NULL && f->peers != NULL);
    f->host = host;
    return ST_OK;
}

static bool feature_stop(void *self)
{
    const struct feature *f = self;
    return !f->raising || !f->host->replica_closed; /* the proposal ends with the replica */
}

const struct part feature_part = {
    .name = "feature", .start = feature_start, .changed = feature_changed, .stop = feature_stop};
