/* Metrics of disaster recovery: the role, the link and the WAL in memory. Members that only the
 * active node of a secondary knows are shown there alone. */
#include "server/metrics_dr.h"
#include "cluster/dr/ring.h"
#include "server/server.h"

#include <stdio.h>

/* One value for each secondary or node of the primary. */
struct peer_column {
    const char *name, *help;
    uint64_t (*get)(const struct dr_peer *peer, const struct rlog_wal_stats *ring, uint64_t now_ms);
    bool seconds; /* the value is in milliseconds */
};

static uint64_t get_connected(const struct dr_peer *peer, const struct rlog_wal_stats *ring,
                              uint64_t now_ms)
{
    (void)ring;
    (void)now_ms;
    return peer->connected;
}

static uint64_t get_behind(const struct dr_peer *peer, const struct rlog_wal_stats *ring,
                           uint64_t now_ms)
{
    (void)now_ms;
    return ring->last - MIN(peer->position, ring->last);
}

static uint64_t get_verified(const struct dr_peer *peer, const struct rlog_wal_stats *ring,
                             uint64_t now_ms)
{
    (void)ring;
    (void)now_ms;
    return peer->verified;
}

static uint64_t get_differs(const struct dr_peer *peer, const struct rlog_wal_stats *ring,
                            uint64_t now_ms)
{
    (void)ring;
    (void)now_ms;
    return peer->differs;
}

static uint64_t get_used(const struct dr_peer *peer, const struct rlog_wal_stats *ring,
                         uint64_t now_ms)
{
    (void)now_ms;
    return dr_ring_used(ring, peer->position);
}

static uint64_t get_heard_ms(const struct dr_peer *peer, const struct rlog_wal_stats *ring,
                             uint64_t now_ms)
{
    (void)ring;
    return now_ms - MIN(peer->heard_ms, now_ms);
}

static const struct peer_column secondary_columns[] = {
    {"holdfast_dr_secondary_connected", "1 while the secondary is connected to this node.",
     get_connected, false},
    {"holdfast_dr_secondary_behind_entries",
     "Versions of this node that the secondary has not confirmed to this node.", get_behind, false},
    {"holdfast_dr_secondary_heard_seconds", "Time since this node last heard the secondary.",
     get_heard_ms, true},
    {"holdfast_dr_secondary_verified_version",
     "Newest version at which this node found the roots of both clusters equal; 0: none.",
     get_verified, false},
    {"holdfast_dr_secondary_differs",
     "1 if the roots of both clusters differed at the last comparison.", get_differs, false},
    {"holdfast_dr_secondary_ring_used_percent",
     "Share of the WAL in memory that holds what the secondary lacks. At 100 it must sync anew.",
     get_used, false},
};

/* The id of a secondary has no character that a label must escape (dr_name.h). */
static void put_secondaries(struct metric_out *out, const struct dr_facts *facts,
                            const struct rlog_wal_stats *ring, uint64_t now_ms)
{
    ASSERT(facts->n_peers <= DR_PEERS_MAX);
    for (size_t c = 0; c < ARRAY_LEN(secondary_columns); c++) {
        const struct peer_column *column = &secondary_columns[c];
        metric_start(out, column->name, METRIC_GAUGE, column->help);
        for (unsigned i = 0; i < facts->n_peers; i++) {
            char label[DR_ID_MAX + sizeof "secondary=\"\""];
            uint64_t value = column->get(&facts->peers[i], ring, now_ms);
            (void)snprintf(label, sizeof label, "secondary=\"%s\"", facts->peers[i].id); /* fits */
            if (column->seconds)
                metric_nanos(out, label, value * 1000000);
            else
                metric_value(out, label, value);
        }
    }
}

static void put_ring(struct metric_out *out, const struct rlog_wal_stats *ring)
{
    metric_one(out, "holdfast_dr_ring_bytes", METRIC_GAUGE,
               "Memory of the WAL that secondaries can still fetch.", ring->bytes);
    metric_one(out, "holdfast_dr_ring_size_bytes", METRIC_GAUGE,
               "Most memory that the WAL takes; beyond it the oldest records are forgotten.",
               ring->bytes_max);
    metric_one(out, "holdfast_dr_ring_first_version", METRIC_GAUGE,
               "A secondary with an older version than the one before this must sync anew.",
               ring->base + 1);
}

/* The certificate of this secondary, on the node that follows. */
static void put_certificate(struct metric_out *out, const struct dr_facts *facts)
{
    if (facts->cert_ends_s == 0)
        return;
    metric_one(out, "holdfast_dr_certificate_expiry_time_seconds", METRIC_GAUGE,
               "On a secondary: end of its certificate for the primary, in seconds since 1970.",
               (uint64_t)MAX(facts->cert_ends_s, (int64_t)0));
}

static void put_link(struct metric_out *out, const struct dr_facts *facts,
                     const struct node_status *status, uint64_t now_ms)
{
    struct dr_lag lag = dr_live_lag(facts, status->version, now_ms);
    metric_one(out, "holdfast_dr_connected", METRIC_GAUGE,
               "On a secondary: 1 while this node is connected to the primary. One node is.",
               facts->connection == DR_LINK_READY);
    if (lag.heard_ms < 0)
        return;
    metric_one(out, "holdfast_dr_lag_entries", METRIC_GAUGE,
               "On a secondary: versions of the primary that are missing here.", lag.entries);
    metric_start(out, "holdfast_dr_lag_seconds", METRIC_GAUGE,
                 "On a secondary: age of the newest applied write, while newer ones are missing.");
    metric_nanos(out, NULL, (uint64_t)lag.ms * 1000000);
    metric_start(out, "holdfast_dr_heard_seconds", METRIC_GAUGE,
                 "On a secondary: time since the primary was last heard.");
    metric_nanos(out, NULL, (uint64_t)lag.heard_ms * 1000000);
    metric_one(out, "holdfast_dr_received_bytes", METRIC_GAUGE,
               "On a secondary: bytes of WAL that came since the connection began.",
               facts->wal_bytes);
    metric_one(out, "holdfast_dr_verified_version", METRIC_GAUGE,
               "On a secondary: newest version at which the roots were equal; 0: none.",
               facts->verified);
    metric_one(out, "holdfast_dr_differs", METRIC_GAUGE,
               "On a secondary: 1 if the roots differed at the last comparison.", facts->differs);
    metric_one(out, "holdfast_dr_sync_keys", METRIC_GAUGE,
               "On a secondary: keys that the sync under way has received.", facts->sync.done);
}

/* The sync mode; its replies wait on the active node. */
static void put_sync_mode(struct metric_out *out, const struct dr_hold_facts *holds)
{
    bool fallen = holds->phase == DR_HOLDS_FALLEN_BACK;
    ASSERT(holds->phase <= DR_HOLDS_SUPERSEDED);
    ASSERT(holds->waiting == 0 || holds->phase == DR_HOLDS_CONFIRMING);
    metric_one(out, "holdfast_dr_sync_mode_enabled", METRIC_GAUGE,
               "1 on a primary in sync mode: replies to writes wait for a secondary.",
               holds->phase == DR_HOLDS_CONFIRMING || fallen);
    metric_one(out, "holdfast_dr_sync_mode_fallen_back", METRIC_GAUGE,
               "1 while writes are acknowledged without a secondary, because none confirmed in "
               "time.",
               fallen);
    metric_one(out, "holdfast_dr_sync_mode_waiting", METRIC_GAUGE,
               "Replies that wait for a secondary now.", holds->waiting);
    metric_one(out, "holdfast_dr_sync_mode_falls_total", METRIC_COUNTER,
               "Times that no secondary confirmed a write in time.", holds->falls);
    metric_start(
        out, "holdfast_dr_sync_mode_writes_total", METRIC_COUNTER,
        "Writes in sync mode: confirmed by a secondary before the reply, not confirmed, or "
        "superseded, with an unknown outcome.");
    metric_value(out, "result=\"confirmed\"", holds->confirmed);
    metric_value(out, "result=\"unconfirmed\"", holds->unconfirmed);
    metric_value(out, "result=\"superseded\"", holds->superseded);
}

static void put_role(struct metric_out *out, const struct dr_role *role)
{
    static const char *const modes[] = {[DR_MODE_DISABLED] = "mode=\"disabled\"",
                                        [DR_MODE_PRIMARY] = "mode=\"primary\"",
                                        [DR_MODE_SECONDARY] = "mode=\"secondary\""};
    metric_start(out, "holdfast_dr_mode", METRIC_GAUGE,
                 "1 for the role of this cluster in disaster recovery, 0 for the other roles.");
    for (unsigned i = 0; i < ARRAY_LEN(modes); i++)
        metric_value(out, modes[i], i == (unsigned)role->mode);
    metric_one(out, "holdfast_dr_epoch", METRIC_GAUGE,
               "Number of promotions of the set, and 1; 0 without a role.", role->epoch);
    metric_one(out, "holdfast_dr_superseded", METRIC_GAUGE,
               "1 while this primary refuses writes, because another cluster took its place.",
               role->phase == DR_PHASE_SUPERSEDED);
    metric_one(out, "holdfast_dr_streaming", METRIC_GAUGE,
               "1 on a secondary that applies the writes of its primary.",
               role->phase == DR_PHASE_STREAMING);
    metric_one(out, "holdfast_dr_syncing", METRIC_GAUGE,
               "1 on a secondary that takes over the state of its primary.",
               role->phase == DR_PHASE_SYNCING);
}

void metrics_dr(struct metric_out *out, struct server *s, const struct node_status *status)
{
    struct rlog_wal_stats ring;
    struct dr_facts facts;
    struct dr_hold_facts holds;
    uint64_t now_ms = env_mono_ms(s->env);
    put_role(out, &status->dr);
    if (status->dr.mode == DR_MODE_DISABLED)
        return;
    node_ops.dr_facts(s->node, &facts);
    rlog_wal_stats(rlog_wal(node_rlog(s->node)), &ring);
    put_ring(out, &ring);
    if (dr_is_secondary(&status->dr)) {
        put_link(out, &facts, status, now_ms);
        put_certificate(out, &facts);
    } else {
        put_secondaries(out, &facts, &ring, now_ms);
        metric_one(out, "holdfast_dr_conflict", METRIC_GAUGE,
                   "1 while another primary of the set is heard whose epoch is not below ours.",
                   dr_live_conflict_of(&facts, now_ms) != NULL);
    }
    node_ops.dr_hold_facts(s->node, &holds);
    if (status->dr.mode == DR_MODE_PRIMARY)
        put_sync_mode(out, &holds);
    const struct dr_counts *counts = node_ops.dr_counts(s->node);
    metrics_dr_counts(out, counts, dr_is_secondary(&status->dr));
    metrics_dr_aliases(out, status, &facts, &ring, counts);
}
