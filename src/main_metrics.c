/* Figures of all parts, gathered when somebody asks. */
#include "main.h"

static void raft_figures(struct metric_out *out, const struct node_status *s)
{
    const struct rlog_status *r = &s->raft;
    const struct {
        const char *name;
        enum metric_kind kind;
        const char *help;
        uint64_t value;
    } rows[] = {
        {"holdfast_raft_term", METRIC_GAUGE, "Current term.", s->term},
        {"holdfast_raft_leader", METRIC_GAUGE, "1 on the leader.", r->is_leader},
        {"holdfast_raft_active", METRIC_GAUGE, "1 on the active node.", s->active},
        {"holdfast_raft_sealed", METRIC_GAUGE, "1 while sealed.", s->sealed},
        {"holdfast_raft_last_index", METRIC_GAUGE, "Last entry of the log.", r->last_index},
        {"holdfast_raft_commit_index", METRIC_GAUGE, "Highest committed entry.", r->commit_index},
        {"holdfast_raft_applied_index", METRIC_GAUGE, "Highest applied entry.", s->applied_index},
        {"holdfast_raft_stored_index", METRIC_GAUGE, "Highest durable entry.", r->stored_index},
        {"holdfast_raft_snapshot_index", METRIC_GAUGE, "Entry of the newest snapshot.",
         r->snapshot_index},
        {"holdfast_raft_members", METRIC_GAUGE, "Servers in the configuration.", r->n_members},
        {"holdfast_raft_elections_total", METRIC_COUNTER, "Elections won.", r->elections},
        {"holdfast_raft_snapshots_taken_total", METRIC_COUNTER, "Snapshots taken.",
         r->snapshots_taken},
        {"holdfast_raft_snapshots_installed_total", METRIC_COUNTER, "Snapshots installed.",
         r->snapshots_installed},
        {"holdfast_raft_entries_applied_total", METRIC_COUNTER, "Entries applied.",
         r->entries_applied},
        {"holdfast_raft_transactions_applied_total", METRIC_COUNTER, "Transactions applied.",
         r->txns_applied},
        {"holdfast_raft_conflicts_total", METRIC_COUNTER, "Transactions that had to be run again.",
         r->conflicts},
        {"holdfast_raft_reads_confirmed_total", METRIC_COUNTER, "Linearizable reads confirmed.",
         r->reads_confirmed},
        {"holdfast_raft_read_rounds_total", METRIC_COUNTER, "Rounds that confirmed them.",
         r->read_rounds},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        metric_one(out, rows[i].name, rows[i].kind, rows[i].help, rows[i].value);
}

static void store_figures(struct metric_out *out, struct store *store, uint64_t version)
{
    struct store_stats s;
    store_stats(store, &s);
    metric_one(out, "holdfast_store_version", METRIC_GAUGE, "Version of the state.", version);
    metric_one(out, "holdfast_store_keys", METRIC_GAUGE, "Keys in the state.", s.keys);
    metric_one(out, "holdfast_store_bytes", METRIC_GAUGE, "Memory of the newest version.", s.bytes);
    metric_one(out, "holdfast_store_retained_bytes", METRIC_GAUGE,
               "Memory of older versions not yet released.", s.retained_bytes);
    metric_one(out, "holdfast_store_pins", METRIC_GAUGE, "Pinned versions.", s.pins);
    metric_one(out, "holdfast_store_oldest_pin_age_ms", METRIC_GAUGE, "Age of the oldest pin.",
               s.oldest_pin_age_ms);
}

static void sum_http(const struct server *s, struct http_counters *sum)
{
    *sum = (struct http_counters){0};
    for (unsigned i = 0; i < s->n_workers; i++)
        for (unsigned l = 0; l < ARRAY_LEN(s->workers[i].listeners); l++) {
            struct http_counters c;
            if (s->workers[i].listeners[l].http == NULL)
                continue;
            http_server_counters(s->workers[i].listeners[l].http, &c);
            sum->connections_accepted += c.connections_accepted;
            sum->connections_open += c.connections_open;
            sum->connections_evicted += c.connections_evicted;
            sum->handshakes_failed += c.handshakes_failed;
            sum->timeouts += c.timeouts;
            sum->rejected += c.rejected;
            sum->requests += c.requests;
            sum->bytes_in += c.bytes_in;
            sum->bytes_out += c.bytes_out;
            for (unsigned k = 0; k < ARRAY_LEN(c.responses); k++)
                sum->responses[k] += c.responses[k];
        }
}

static void http_figures(struct metric_out *out, const struct server *s)
{
    static const char *const codes[] = {NULL,           NULL,           "code=\"2xx\"",
                                        "code=\"3xx\"", "code=\"4xx\"", "code=\"5xx\""};
    struct http_counters c;
    sum_http(s, &c);
    metric_one(out, "holdfast_http_connections", METRIC_GAUGE, "Open connections.",
               c.connections_open);
    metric_one(out, "holdfast_http_connections_total", METRIC_COUNTER, "Connections accepted.",
               c.connections_accepted);
    metric_one(out, "holdfast_http_handshakes_failed_total", METRIC_COUNTER,
               "TLS handshakes that failed.", c.handshakes_failed);
    metric_one(out, "holdfast_http_timeouts_total", METRIC_COUNTER, "Peers that were too slow.",
               c.timeouts);
    metric_one(out, "holdfast_http_rejected_total", METRIC_COUNTER,
               "Requests refused before a handler saw them.", c.rejected);
    metric_one(out, "holdfast_http_requests_total", METRIC_COUNTER, "Requests.", c.requests);
    metric_one(out, "holdfast_http_received_bytes_total", METRIC_COUNTER, "Bytes received.",
               c.bytes_in);
    metric_one(out, "holdfast_http_sent_bytes_total", METRIC_COUNTER, "Bytes sent.", c.bytes_out);
    metric_start(out, "holdfast_http_responses_total", METRIC_COUNTER, "Responses by class.");
    for (unsigned k = 2; k < ARRAY_LEN(codes); k++)
        metric_value(out, codes[k], c.responses[k]);
}

static void router_figures(struct metric_out *out, const struct server *s)
{
    struct router_counters sum = {0}, c;
    for (unsigned i = 0; i < s->n_workers; i++) {
        router_worker_counters(s->workers[i].router, &c);
        sum.calls += c.calls;
        sum.forwards += c.forwards;
        sum.reruns += c.reruns;
        sum.refused += c.refused;
    }
    metric_one(out, "holdfast_router_forwards_total", METRIC_COUNTER,
               "Requests sent on to the active node.", sum.forwards);
    metric_one(out, "holdfast_router_reruns_total", METRIC_COUNTER, "Handlers run again.",
               sum.reruns);
    metric_one(out, "holdfast_router_refused_total", METRIC_COUNTER, "Requests above the limit.",
               sum.refused);
}

static void collect(struct metric_source *source, struct metric_out *out)
{
    struct server *s = CONTAINER_OF(source, struct server, metric_source);
    struct node_status status;
    node_status_get(s->node, &status);
    raft_figures(out, &status);
    store_figures(out, rlog_store(node_rlog(s->node)), status.version);
    http_figures(out, s);
    router_figures(out, s);
}

void metrics_start(struct server *server)
{
    metrics_init(&server->metrics);
    server->metric_source.collect = collect;
    metrics_add(&server->metrics, &server->metric_source);
}
