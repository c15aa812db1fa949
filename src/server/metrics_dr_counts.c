/* Counters of the link of disaster recovery, and the names under which operators of Vault know
 * values of ours: their dashboards read them, so the forms of those names are not ours. A name that
 * ends like that of a counter and is none is left out. */
#include "server/metrics_dr.h"
#include "server/server.h"

#include <stdio.h>

enum { REINDEX_BUILDING = 2 }; /* upstream's number of this stage */

static uint64_t value_of(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

struct part_row {
    const char *label;
    const _Atomic uint64_t *counter;
};

static void put_rows(struct metric_out *out, const char *name, const char *help,
                     const struct part_row *rows, size_t n)
{
    metric_start(out, name, METRIC_COUNTER, help);
    for (size_t i = 0; i < n; i++)
        metric_value(out, rows[i].label, value_of(rows[i].counter));
}
#define PUT_ROWS(out, name, help, rows) put_rows(out, name, help, rows, ARRAY_LEN(rows))

static void put_refusals(struct metric_out *out, const struct dr_counts *c)
{
    static const char *const reasons[DR_COUNTS_REFUSALS] = {
        [DR_REFUSE_REVOKED] = "revoked",
        [DR_REFUSE_ID] = "id",
        [DR_REFUSE_SET] = "set",
        [DR_REFUSE_EPOCH] = "epoch",
        [DR_REFUSE_SUPERSEDED] = "superseded",
        [DR_REFUSE_FEATURE] = "feature",
        [DR_REFUSE_BUSY] = "busy",
        [DR_REFUSE_NOT_PRIMARY] = "not_primary",
        [DR_REFUSE_SEALED] = "sealed",
        [DR_REFUSE_CONFLICT] = "conflict",
        [DR_REFUSE_AHEAD] = "ahead",
        [DR_REFUSE_DIVERGED] = "diverged",
    };
    metric_start(out, "holdfast_dr_refusals_total", METRIC_COUNTER,
                 "On a primary: connections of secondaries that were refused, by reason.");
    for (unsigned i = 1; i < DR_COUNTS_REFUSALS; i++) {
        char label[40];
        ASSERT(reasons[i] != NULL);
        (void)snprintf(label, sizeof label, "reason=\"%s\"", reasons[i]); /* fits */
        metric_value(out, label, value_of(&c->refused[i]));
    }
}

static void put_served(struct metric_out *out, const struct dr_counts *c)
{
    const struct part_row purposes[] = {
        {"purpose=\"stream\"", &c->served[DR_STREAM]},
        {"purpose=\"sync\"", &c->served[DR_SYNC]},
        {"purpose=\"difference\"", &c->served[DR_DIFF]},
        {"purpose=\"heartbeat\"", &c->served[DR_HEARTBEAT]},
    };
    const struct part_row bytes[] = {{"kind=\"stream\"", &c->stream_bytes},
                                     {"kind=\"sync\"", &c->sync_bytes}};
    const struct part_row roots[] = {{"result=\"equal\"", &c->equal},
                                     {"result=\"different\"", &c->different}};
    const struct part_row heralds[] = {{"result=\"heard\"", &c->heralded},
                                       {"result=\"unheard\"", &c->unheard}};
    ASSERT(out != NULL && c != NULL);
    PUT_ROWS(out, "holdfast_dr_connections_total",
             "On a primary: connections of secondaries that were served, by purpose.", purposes);
    put_refusals(out, c);
    PUT_ROWS(out, "holdfast_dr_sent_bytes_total",
             "On a primary: bytes of streams and of syncs on the wire.", bytes);
    PUT_ROWS(out, "holdfast_dr_checkpoints_total",
             "On a primary: comparisons of a secondary's root with the root here.", roots);
    metric_one(out, "holdfast_dr_conflicts_total", METRIC_COUNTER,
               "On a primary: times that another primary of the set with the same or a later epoch "
               "was heard.",
               value_of(&c->conflicts));
    PUT_ROWS(out, "holdfast_dr_announcements_total",
             "On a promoted cluster: attempts to tell the former primary of the new epoch.",
             heralds);
}

static void put_followed(struct metric_out *out, const struct dr_counts *c)
{
    const struct part_row streams[] = {{"result=\"begun\"", &c->streams},
                                       {"result=\"failed\"", &c->stream_failures}};
    const struct part_row syncs[] = {{"kind=\"first\"", &c->syncs_whole},
                                     {"kind=\"difference\"", &c->syncs_different}};
    uint64_t begun = value_of(&c->streams);
    ASSERT(out != NULL && c != NULL);
    PUT_ROWS(out, "holdfast_dr_streams_total",
             "On a secondary: attempts to follow a node of the primary.", streams);
    metric_one(out, "holdfast_dr_reconnects_total", METRIC_COUNTER,
               "On a secondary: streams that followed an earlier one of this node.",
               begun - MIN(begun, 1U));
    PUT_ROWS(out, "holdfast_dr_syncs_total",
             "On a secondary: syncs that ended well: of the whole state, or of the difference.",
             syncs);
    metric_one(out, "holdfast_dr_sync_failures_total", METRIC_COUNTER,
               "On a secondary: syncs that failed; the next one begins anew.",
               value_of(&c->syncs_failed));
    metric_one(out, "holdfast_dr_sync_received_bytes_total", METRIC_COUNTER,
               "On a secondary: bytes of syncs on the wire.", value_of(&c->received_bytes));
    metric_one(out, "holdfast_dr_repairs_total", METRIC_COUNTER,
               "On a secondary: differences from the primary's state that were repaired.",
               value_of(&c->repairs));
}

void metrics_dr_counts(struct metric_out *out, const struct dr_counts *counts, bool secondary)
{
    if (secondary)
        put_followed(out, counts);
    else
        put_served(out, counts);
}

struct alias {
    const char *name, *help;
    uint64_t value;
};

static void put_aliases(struct metric_out *out, const struct alias *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        metric_one(out, rows[i].name, METRIC_GAUGE, rows[i].help, rows[i].value);
}

/* The ring counts no records, only versions: each record makes one. */
static void put_primary_aliases(struct metric_out *out, const struct rlog_wal_stats *ring,
                                const struct dr_counts *c)
{
    const struct alias rows[] = {
        {"vault_replication_wal_last_wal", "As holdfast_store_version, on a DR primary.",
         ring->last},
        {"vault_replication_wal_last_dr_wal", "As holdfast_store_version, on a DR primary.",
         ring->last},
        {"vault_logshipper_buffer_length", "Versions whose records are in memory.",
         ring->last - MIN(ring->base, ring->last)},
        {"vault_logshipper_buffer_size", "As holdfast_dr_ring_bytes.", ring->bytes},
        {"vault_logshipper_buffer_max_size", "As holdfast_dr_ring_size_bytes.", ring->bytes_max},
        {"vault_logshipper_streamWALs_guard_found",
         "Streams that found their first record in memory.", value_of(&c->found)},
        {"vault_logshipper_streamWALs_missing_guard",
         "Streams that had to sync: their first record was not in memory.", value_of(&c->missing)},
    };
    put_aliases(out, rows, ARRAY_LEN(rows));
}

void metrics_dr_aliases(struct metric_out *out, const struct node_status *status,
                        const struct dr_facts *facts, const struct rlog_wal_stats *ring,
                        const struct dr_counts *counts)
{
    bool secondary = dr_is_secondary(&status->dr);
    ASSERT(status->dr.mode != DR_MODE_DISABLED);
    const struct alias all[] = {
        {"vault_core_replication_dr_primary", "1 on a DR primary.", !secondary},
        {"vault_core_replication_dr_secondary", "1 on a DR secondary.", secondary},
        {"vault_core_replication_reindex_stage",
         "2 (upstream's stage building) while a reindex runs on this node; 0: none runs.",
         facts->check.reindexes ? REINDEX_BUILDING : 0},
        {"vault_core_replication_build_progress", "Keys that the reindex has done; 0: none runs.",
         facts->check.reindexes ? facts->check.done : 0},
    };
    put_aliases(out, all, ARRAY_LEN(all));
    if (!secondary) {
        put_primary_aliases(out, ring, counts);
        return;
    }
    const struct alias rows[] = {
        {"vault_replication_fsm_last_remote_wal",
         "Version of the primary that a secondary has; 0 while it syncs.",
         status->dr.phase == DR_PHASE_SYNCING ? 0 : status->version},
        {"vault_replication_merkleDiff", "As holdfast_dr_syncs_total of kind difference.",
         value_of(&counts->syncs_different)},
        {"vault_replication_merkleSync", "As holdfast_dr_syncs_total of kind first.",
         value_of(&counts->syncs_whole)},
    };
    put_aliases(out, rows, ARRAY_LEN(rows));
}
