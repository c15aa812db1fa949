/* Figures of all parts, gathered when somebody asks. */
#include "http/client.h"
#include "main.h"

#include <stdio.h>

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
        sum.parsed_bytes += c.parsed_bytes;
    }
    metric_one(out, "holdfast_router_forwards_total", METRIC_COUNTER,
               "Requests sent on to the active node.", sum.forwards);
    metric_one(out, "holdfast_router_reruns_total", METRIC_COUNTER, "Handlers run again.",
               sum.reruns);
    metric_one(out, "holdfast_router_refused_total", METRIC_COUNTER, "Requests above the limit.",
               sum.refused);
    metric_one(out, "holdfast_router_parsed_bytes_total", METRIC_COUNTER,
               "Bytes of request bodies that were parsed.", sum.parsed_bytes);
}

static void mesh_figures(struct metric_out *out, struct mesh *mesh)
{
    struct mesh_stats s;
    mesh_stats(mesh, &s);
    const struct {
        const char *name;
        enum metric_kind kind;
        const char *help;
        uint64_t value;
    } rows[] = {
        {"holdfast_mesh_links_out", METRIC_GAUGE, "Links we made that are ready.", s.links_out},
        {"holdfast_mesh_links_in", METRIC_GAUGE, "Links others made that are ready.", s.links_in},
        {"holdfast_mesh_connects_total", METRIC_COUNTER, "Connections begun.", s.connects},
        {"holdfast_mesh_connects_failed_total", METRIC_COUNTER, "Rounds of calls in vain.",
         s.connects_failed},
        {"holdfast_mesh_accepts_total", METRIC_COUNTER, "Connections accepted.", s.accepts},
        {"holdfast_mesh_accepts_refused_total", METRIC_COUNTER, "Of these, refused.",
         s.accepts_refused},
        {"holdfast_mesh_http_accepted_total", METRIC_COUNTER,
         "Of these, for requests that other nodes send on.", s.http_accepted},
        {"holdfast_mesh_peers_gone_total", METRIC_COUNTER, "Peers whose process was found ended.",
         s.peers_gone},
        {"holdfast_mesh_dropped_full_total", METRIC_COUNTER,
         "Frames dropped because a queue was full.", s.frames_dropped_full},
        {"holdfast_mesh_dropped_unconnected_total", METRIC_COUNTER,
         "Frames dropped because there was no link.", s.frames_dropped_unconnected},
        {"holdfast_mesh_certificate_expiry_time_seconds", METRIC_GAUGE,
         "End of our certificate, since 1970.", (uint64_t)MAX(s.cert_not_after_s, (int64_t)0)},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        metric_one(out, rows[i].name, rows[i].kind, rows[i].help, rows[i].value);
}

/* Names are those of certificates (mesh_name_valid), which need no escape. */
static void peer_figures(struct metric_out *out, struct mesh *mesh)
{
#define COLUMN(field) offsetof(struct mesh_peer_stats, field)
    static const struct {
        const char *name;
        enum metric_kind kind;
        const char *help;
        size_t at;
    } columns[] = {
        {"holdfast_mesh_peer_links", METRIC_GAUGE,
         "Ready links with the peer: four when all is well, none when it cannot be reached.",
         COLUMN(links)},
        {"holdfast_mesh_peer_reconnects_total", METRIC_COUNTER,
         "Links to the peer that replaced a lost one.", COLUMN(reconnects)},
        {"holdfast_mesh_peer_connects_failed_total", METRIC_COUNTER,
         "Rounds of calls to the peer in vain.", COLUMN(connects_failed)},
        {"holdfast_mesh_peer_frames_sent_total", METRIC_COUNTER, "Frames queued for the peer.",
         COLUMN(frames_sent)},
        {"holdfast_mesh_peer_frames_received_total", METRIC_COUNTER, "Frames from the peer.",
         COLUMN(frames_received)},
        {"holdfast_mesh_peer_frames_dropped_total", METRIC_COUNTER,
         "Frames to the peer that were dropped.", COLUMN(frames_dropped)},
        {"holdfast_mesh_peer_sent_bytes_total", METRIC_COUNTER, "Payload queued for the peer.",
         COLUMN(bytes_sent)},
        {"holdfast_mesh_peer_received_bytes_total", METRIC_COUNTER, "Payload from the peer.",
         COLUMN(bytes_received)},
    };
#undef COLUMN
    struct mesh_peer_stats peers[MESH_PEERS_COUNTED_MAX];
    unsigned n = mesh_stats_peers(mesh, peers, ARRAY_LEN(peers));
    for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
        metric_start(out, columns[c].name, columns[c].kind, columns[c].help);
        for (unsigned i = 0; i < n; i++) {
            char label[MESH_NAME_MAX + 8];
            uint64_t value;
            (void)snprintf(label, sizeof label, "peer=\"%.*s\"", MESH_NAME_MAX - 1,
                           peers[i].name); /* fits */
            memcpy(&value, (const char *)&peers[i] + columns[c].at, sizeof value);
            metric_value(out, label, value);
        }
    }
}

static void forward_figures(struct metric_out *out, const struct server *s)
{
    struct http_client_counters sum = {0}, c;
    for (unsigned i = 0; i < s->n_workers; i++) {
        http_client_counters(s->workers[i].client, &c);
        sum.calls += c.calls;
        sum.failed += c.failed;
        sum.unknown += c.unknown;
        sum.repeated += c.repeated;
        sum.connects += c.connects;
        sum.connects_failed += c.connects_failed;
    }
    metric_one(out, "holdfast_forward_calls_total", METRIC_COUNTER,
               "Tries to send a request on to the active node.", sum.calls);
    metric_one(out, "holdfast_forward_failed_total", METRIC_COUNTER,
               "Tries of which nothing was sent.", sum.failed);
    metric_one(out, "holdfast_forward_unknown_total", METRIC_COUNTER,
               "Tries that may have arrived, without an answer.", sum.unknown);
    metric_one(out, "holdfast_forward_repeated_total", METRIC_COUNTER,
               "Requests sent again because a kept connection had ended.", sum.repeated);
    metric_one(out, "holdfast_forward_connects_total", METRIC_COUNTER,
               "Connections made to the active node.", sum.connects);
    metric_one(out, "holdfast_forward_connects_failed_total", METRIC_COUNTER,
               "Connections to the active node that failed.", sum.connects_failed);
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
    forward_figures(out, s);
    mesh_figures(out, node_mesh(s->node));
    peer_figures(out, node_mesh(s->node));
}

void metrics_start(struct server *server)
{
    metrics_init(&server->metrics);
    server->metric_source.collect = collect;
    metrics_add(&server->metrics, &server->metric_source);
}
