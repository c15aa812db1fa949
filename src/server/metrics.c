/* Metrics of all parts of a node, gathered for each scrape. */
#include "audit/audit_table.h"
#include "http/client.h"
#include "http/counters.h"
#include "server/metrics_dr.h"
#include "server/server.h"

#include <stdio.h>

struct row {
    const char *name;
    enum metric_kind kind;
    const char *help;
    uint64_t value;
};

static void put_rows(struct metric_out *out, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        metric_one(out, rows[i].name, rows[i].kind, rows[i].help, rows[i].value);
}

static void node_figures(struct metric_out *out, const struct node_status *s)
{
    ASSERT(!s->active || !s->sealed);
    const struct row rows[] = {
        {"holdfast_active", METRIC_GAUGE, "1 on the active node, 0 on a standby.", s->active},
        {"holdfast_sealed", METRIC_GAUGE, "1 while this node is sealed.", s->sealed},
        {"holdfast_quorum", METRIC_GAUGE,
         "0 while this node reaches too few voters for a leader, for longer than an election "
         "takes; "
         "else 1.",
         !s->no_quorum},
        {"holdfast_initialized", METRIC_GAUGE, "1 once the cluster is initialised.",
         s->initialized},
    };
    put_rows(out, rows, ARRAY_LEN(rows));
}

static void raft_figures(struct metric_out *out, const struct node_status *s)
{
    const struct rlog_status *r = &s->raft;
    const struct row rows[] = {
        {"holdfast_raft_term", METRIC_GAUGE, "Current Raft term.", s->term},
        {"holdfast_raft_leader", METRIC_GAUGE, "1 on the Raft leader, 0 on a follower.",
         r->is_leader},
        {"holdfast_raft_last_index", METRIC_GAUGE, "Index of the last entry of the Raft log.",
         r->last_index},
        {"holdfast_raft_commit_index", METRIC_GAUGE, "Index of the last committed Raft entry.",
         r->commit_index},
        {"holdfast_raft_applied_index", METRIC_GAUGE,
         "Index of the last Raft entry applied to the state.", s->applied_index},
        {"holdfast_raft_stored_index", METRIC_GAUGE,
         "Index of the last Raft entry that is durable on this node.", r->stored_index},
        {"holdfast_raft_snapshot_index", METRIC_GAUGE,
         "Index of the last Raft entry in the newest snapshot.", r->snapshot_index},
        {"holdfast_raft_members", METRIC_GAUGE, "Members of the cluster, voters and learners.",
         r->n_members},
        {"holdfast_feature_level", METRIC_GAUGE,
         "Feature level of the cluster: which formats may be written.", r->feature},
        {"holdfast_raft_elections_total", METRIC_COUNTER, "Elections that this node won.",
         r->elections},
        {"holdfast_raft_snapshots_taken_total", METRIC_COUNTER,
         "Snapshots that this node made of its own state.", r->snapshots_created},
        {"holdfast_raft_snapshots_installed_total", METRIC_COUNTER,
         "Snapshots that this node received from a leader and installed.", r->snapshots_installed},
        {"holdfast_raft_entries_applied_total", METRIC_COUNTER,
         "Raft entries applied to the state.", r->entries_applied},
        {"holdfast_raft_transactions_applied_total", METRIC_COUNTER,
         "Transactions applied to the state; an entry holds several.", r->txns_applied},
        {"holdfast_raft_conflicts_total", METRIC_COUNTER,
         "Transactions that conflicted with an earlier one and were run again.", r->conflicts},
        {"holdfast_raft_reads_confirmed_total", METRIC_COUNTER,
         "Linearizable reads that the leader confirmed.", r->reads_confirmed},
        {"holdfast_raft_read_rounds_total", METRIC_COUNTER,
         "Rounds of messages that confirmed linearizable reads; a round confirms many.",
         r->read_rounds},
    };
    put_rows(out, rows, ARRAY_LEN(rows));
}

/* The names of members come from certificates (mesh_name_valid), so they contain no character that
 * a label must escape. */
static void follower_figures(struct metric_out *out, const struct rlog_status *r)
{
    if (!r->is_leader)
        return;
    ASSERT(r->n_members <= ARRAY_LEN(r->members));
    metric_start(out, "holdfast_raft_follower_lag_entries", METRIC_GAUGE,
                 "On the leader: Raft entries that the member is not known to have yet.");
    for (unsigned i = 0; i < r->n_members; i++) {
        char label[sizeof r->members[i].name + 8];
        if (r->members[i].id == r->id)
            continue;
        (void)snprintf(label, sizeof label, "peer=\"%s\"", r->members[i].name); /* the text fits */
        metric_value(out, label, r->last_index - MIN(r->match[i], r->last_index));
    }
}

/* The age of a snapshot: the time since the cluster time that its content has, even if another node
 * created the snapshot. */
static void snapshot_figures(struct metric_out *out, struct env *env, const struct rlog_status *r)
{
    int64_t age_ms = env_wall_ms(env) - r->snapshot_time_ms;
    if (r->snapshot_index == 0 || r->snapshot_time_ms == 0)
        return;
    metric_start(out, "holdfast_raft_snapshot_age_seconds", METRIC_GAUGE,
                 "Time since the state of the newest snapshot; absent without a snapshot.");
    metric_nanos(out, NULL, (uint64_t)MAX(age_ms, (int64_t)0) * 1000000);
}

static void store_figures(struct metric_out *out, struct store *store, uint64_t version)
{
    struct store_stats s;
    store_stats(store, &s);
    const struct row rows[] = {
        {"holdfast_store_version", METRIC_GAUGE,
         "Version of the state: grows with every change of it.", version},
        {"holdfast_store_keys", METRIC_GAUGE, "Keys in the state.", s.keys},
        {"holdfast_store_bytes", METRIC_GAUGE,
         "Memory of the newest version of the state, in bytes.", s.bytes},
        {"holdfast_store_retained_bytes", METRIC_GAUGE,
         "Memory of older versions of the state that was not released yet, in bytes.",
         s.retained_bytes},
        {"holdfast_store_pins", METRIC_GAUGE,
         "Versions of the state that readers hold at this moment.", s.pins},
    };
    put_rows(out, rows, ARRAY_LEN(rows));
    metric_start(out, "holdfast_store_oldest_pin_age_seconds", METRIC_GAUGE,
                 "Age of the oldest version of the state that a reader holds; 0 without readers.");
    metric_nanos(out, NULL, s.oldest_pin_age_ms * 1000000);
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
            for (unsigned k = 0; k < ARRAY_LEN(c.replies); k++)
                sum->replies[k] += c.replies[k];
        }
}

static void http_figures(struct metric_out *out, const struct server *s)
{
    static const char *const classes[] = {
        NULL, NULL, "class=\"2xx\"", "class=\"3xx\"", "class=\"4xx\"", "class=\"5xx\""};
    struct http_counters c;
    sum_http(s, &c);
    const struct row rows[] = {
        {"holdfast_http_open_connections", METRIC_GAUGE,
         "Open connections of clients and of nodes.", c.connections_open},
        {"holdfast_http_connections_total", METRIC_COUNTER, "Connections accepted.",
         c.connections_accepted},
        {"holdfast_http_handshakes_failed_total", METRIC_COUNTER,
         "Connections whose TLS handshake failed.", c.handshakes_failed},
        {"holdfast_http_evicted_total", METRIC_COUNTER,
         "Idle connections closed to make room for new ones.", c.connections_evicted},
        {"holdfast_http_timeouts_total", METRIC_COUNTER,
         "Connections closed because the peer was too slow.", c.timeouts},
        {"holdfast_http_rejected_total", METRIC_COUNTER,
         "Requests refused by the HTTP server, before they reached a handler.", c.rejected},
        {"holdfast_http_requests_total", METRIC_COUNTER, "Requests received.", c.requests},
        {"holdfast_http_received_bytes_total", METRIC_COUNTER,
         "Bytes received from clients and from nodes.", c.bytes_in},
        {"holdfast_http_sent_bytes_total", METRIC_COUNTER, "Bytes sent to clients and to nodes.",
         c.bytes_out},
    };
    put_rows(out, rows, ARRAY_LEN(rows));
    metric_start(out, "holdfast_http_responses_total", METRIC_COUNTER,
                 "Replies by class of their status.");
    for (unsigned k = 2; k < ARRAY_LEN(classes); k++)
        metric_value(out, classes[k], c.replies[k]);
}

/* Replies that wait until their readers take them. */
static void unread_figures(struct metric_out *out, const struct server *s)
{
    uint64_t clients = 0, nodes = 0, closed[UNWRITTEN_BOUNDS] = {0};
    for (unsigned i = 0; i < s->n_workers; i++) {
        const struct worker *w = &s->workers[i];
        clients += tally_get(&w->for_clients.used);
        nodes += tally_get(&w->for_nodes.used);
        for (unsigned k = 0; k < UNWRITTEN_BOUNDS; k++)
            closed[k] += tally_get(&w->for_clients.closed[k]) + tally_get(&w->for_nodes.closed[k]);
    }
    metric_start(out, "holdfast_http_unread_bytes", METRIC_GAUGE,
                 "Memory of replies that were made and not read yet, in bytes.");
    metric_value(out, "from=\"clients\"", clients);
    metric_value(out, "from=\"nodes\"", nodes);
    metric_start(out, "holdfast_http_slow_readers_closed_total", METRIC_COUNTER,
                 "Connections closed because their unread replies took too much memory, by the "
                 "bound: address (of one client address), token (of one token), anonymous (of all "
                 "clients without a token), all.");
    for (unsigned k = UNWRITTEN_FITS + 1; k < UNWRITTEN_BOUNDS; k++) {
        char label[32];
        (void)snprintf(label, sizeof label, "bound=\"%s\"",
                       unwritten_bound_name(k)); /* the text fits */
        metric_value(out, label, closed[k]);
    }
}

static void latency_figures(struct metric_out *out, const struct router_counters *sum)
{
    metric_start(out, "holdfast_request_duration_seconds", METRIC_HISTOGRAM,
                 "Time from the request to the reply on this node, by class of request: read, "
                 "list, write, node (about this node), forwarded (to the active node), long "
                 "(snapshots).");
    for (unsigned k = 0; k < ROUTER_CLASSES; k++) {
        char label[32];
        (void)snprintf(label, sizeof label, "class=\"%s\"",
                       router_class_name(k)); /* the text fits */
        metric_histogram(out, label, &sum->latency[k]);
    }
}

static void add_latency(struct histogram_sum *sum, const struct histogram_sum *more)
{
    for (size_t i = 0; i < ARRAY_LEN(sum->counts); i++)
        sum->counts[i] += more->counts[i];
    sum->sum_ns += more->sum_ns;
}

static void add_parked(struct router_parked_counters *sum,
                       const struct router_parked_counters *more)
{
    sum->now += more->now;
    sum->parked += more->parked;
    sum->refused += more->refused;
    sum->changed += more->changed;
    sum->timeouts += more->timeouts;
    sum->gone += more->gone;
    sum->ended += more->ended;
    sum->again += more->again;
    sum->walks += more->walks;
    sum->visited += more->visited;
}

/* Blocking requests, which wait for a change. */
static void parked_figures(struct metric_out *out, const struct router_parked_counters *sum)
{
    const struct row rows[] = {
        {"holdfast_blocking_waiting", METRIC_GAUGE, "Requests that wait for a change now.",
         sum->now},
        {"holdfast_blocking_waits_total", METRIC_COUNTER,
         "Times that a request began to wait for a change.", sum->parked},
        {"holdfast_blocking_again_total", METRIC_COUNTER,
         "Times that a request was woken, found nothing newer and waited again.", sum->again},
        {"holdfast_blocking_refused_total", METRIC_COUNTER,
         "Requests refused because too many waited.", sum->refused},
        {"holdfast_blocking_watch_walks_total", METRIC_COUNTER,
         "Publications that were compared with the watched keys.", sum->walks},
        {"holdfast_blocking_watch_visits_total", METRIC_COUNTER,
         "Nodes of watched keys that these comparisons visited.", sum->visited},
    };
    put_rows(out, rows, ARRAY_LEN(rows));
    metric_start(out, "holdfast_blocking_ends_total", METRIC_COUNTER,
                 "Requests that waited and ended: by a change, at the end of their time, because "
                 "the client had gone, or for another reason (token, role or end of the node).");
    metric_value(out, "why=\"change\"", sum->changed);
    metric_value(out, "why=\"time\"", sum->timeouts);
    metric_value(out, "why=\"client\"", sum->gone);
    metric_value(out, "why=\"other\"", sum->ended);
}

static void router_figures(struct metric_out *out, const struct server *s)
{
    struct router_counters sum = {0}, c;
    for (unsigned i = 0; i < s->n_workers; i++) {
        router_worker_counters(s->workers[i].router, &c);
        sum.forwards += c.forwards;
        sum.reruns += c.reruns;
        sum.refused += c.refused;
        sum.parsed_bytes += c.parsed_bytes;
        add_parked(&sum.parked, &c.parked);
        for (unsigned k = 0; k < ROUTER_CLASSES; k++)
            add_latency(&sum.latency[k], &c.latency[k]);
    }
    const struct row rows[] = {
        {"holdfast_router_forwards_total", METRIC_COUNTER, "Requests sent on to the active node.",
         sum.forwards},
        {"holdfast_router_reruns_total", METRIC_COUNTER,
         "Handlers run again because another transaction came first.", sum.reruns},
        {"holdfast_router_refused_total", METRIC_COUNTER,
         "Requests refused because too many were under way.", sum.refused},
        {"holdfast_router_parsed_bytes_total", METRIC_COUNTER,
         "Bytes of request bodies that were parsed.", sum.parsed_bytes},
    };
    put_rows(out, rows, ARRAY_LEN(rows));
    parked_figures(out, &sum.parked);
    latency_figures(out, &sum);
}

static void mesh_figures(struct metric_out *out, struct mesh *mesh)
{
    struct mesh_stats s;
    mesh_stats(mesh, &s);
    const struct row rows[] = {
        {"holdfast_mesh_links_out", METRIC_GAUGE,
         "Ready links to other nodes that this node opened.", s.links_out},
        {"holdfast_mesh_links_in", METRIC_GAUGE,
         "Ready links from other nodes that this node accepted.", s.links_in},
        {"holdfast_mesh_connects_total", METRIC_COUNTER,
         "Connections to other nodes that this node began.", s.connects},
        {"holdfast_mesh_connects_failed_total", METRIC_COUNTER,
         "Attempts to connect to another node that failed at each of its addresses.",
         s.connects_failed},
        {"holdfast_mesh_accepts_total", METRIC_COUNTER,
         "Connections that the cluster port accepted.", s.accepts},
        {"holdfast_mesh_accepts_refused_total", METRIC_COUNTER,
         "Connections to the cluster port refused because of an invalid certificate or greeting.",
         s.accepts_refused},
        {"holdfast_mesh_http_accepted_total", METRIC_COUNTER,
         "Connections to the cluster port that carry requests of other nodes.", s.http_accepted},
        {"holdfast_mesh_peers_gone_total", METRIC_COUNTER,
         "Times that the process of another node was found to have ended.", s.peers_gone},
        {"holdfast_mesh_dropped_full_total", METRIC_COUNTER,
         "Frames dropped because the queue of a link was full.", s.frames_dropped_full},
        {"holdfast_mesh_dropped_unconnected_total", METRIC_COUNTER,
         "Frames dropped because there was no link to the node.", s.frames_dropped_unconnected},
        {"holdfast_mesh_certificate_expiry_time_seconds", METRIC_GAUGE,
         "End of this node's certificate for the cluster port, in seconds since 1970.",
         (uint64_t)MAX(s.cert_not_after_s, (int64_t)0)},
    };
    put_rows(out, rows, ARRAY_LEN(rows));
}

/* The names come from certificates (mesh_name_valid), so they contain no character that a label
 * must escape. */
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
         "Attempts to connect to the peer that failed at each of its addresses.",
         COLUMN(connects_failed)},
        {"holdfast_mesh_peer_frames_sent_total", METRIC_COUNTER, "Frames queued for the peer.",
         COLUMN(frames_sent)},
        {"holdfast_mesh_peer_frames_received_total", METRIC_COUNTER,
         "Frames received from the peer.", COLUMN(frames_received)},
        {"holdfast_mesh_peer_frames_dropped_total", METRIC_COUNTER,
         "Frames to the peer that were dropped.", COLUMN(frames_dropped)},
        {"holdfast_mesh_peer_sent_bytes_total", METRIC_COUNTER,
         "Bytes of payload queued for the peer.", COLUMN(bytes_sent)},
        {"holdfast_mesh_peer_received_bytes_total", METRIC_COUNTER,
         "Bytes of payload received from the peer.", COLUMN(bytes_received)},
    };
#undef COLUMN
    struct mesh_peer_stats peers[MESH_PEERS_COUNTED_MAX];
    unsigned n = mesh_stats_peers(mesh, peers, ARRAY_LEN(peers));
    ASSERT(n <= ARRAY_LEN(peers));
    for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
        metric_start(out, columns[c].name, columns[c].kind, columns[c].help);
        for (unsigned i = 0; i < n; i++) {
            char label[MESH_NAME_MAX + 8];
            uint64_t value;
            (void)snprintf(label, sizeof label, "peer=\"%.*s\"", MESH_NAME_MAX - 1,
                           peers[i].name); /* the text fits */
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
        sum.requests += c.requests;
        sum.failed += c.failed;
        sum.unknown += c.unknown;
        sum.repeated += c.repeated;
        sum.connects += c.connects;
        sum.connects_failed += c.connects_failed;
    }
    metric_one(out, "holdfast_forward_calls_total", METRIC_COUNTER,
               "Attempts to send a request on to the active node.", sum.requests);
    metric_one(out, "holdfast_forward_failed_total", METRIC_COUNTER,
               "Attempts to send a request on to the active node of which nothing was sent.",
               sum.failed);
    metric_one(out, "holdfast_forward_unknown_total", METRIC_COUNTER,
               "Requests sent on to the active node without a reply: their outcome is unknown.",
               sum.unknown);
    metric_one(out, "holdfast_forward_repeated_total", METRIC_COUNTER,
               "Requests sent on to the active node twice because a kept connection had ended.",
               sum.repeated);
    metric_one(out, "holdfast_forward_connects_total", METRIC_COUNTER,
               "Connections made to the active node.", sum.connects);
    metric_one(out, "holdfast_forward_connects_failed_total", METRIC_COUNTER,
               "Connections to the active node that failed.", sum.connects_failed);
}

static void figures_collect(struct metric_source *source, struct metric_out *out)
{
    struct server *s = CONTAINER_OF(source, struct server, metric_source);
    struct node_status status;
    node_status_get(s->node, &status);
    process_figures(out, s);
    node_figures(out, &status);
    http_figures(out, s);
    unread_figures(out, s);
    router_figures(out, s);
    forward_figures(out, s);
    modules_metrics(out);
    audit_table_metrics(s->host.audit, out);
    if (!s->ready) /* before the node joins, it has no replica and no mesh */
        return;
    raft_figures(out, &status);
    follower_figures(out, &status.raft);
    snapshot_figures(out, s->env, &status.raft);
    store_figures(out, rlog_store(node_rlog(s->node)), status.version);
    lease_figures(out, s);
    metrics_dr(out, s, &status);
    mesh_figures(out, node_mesh(s->node));
    peer_figures(out, node_mesh(s->node));
}

void metrics_start(struct server *server)
{
    metrics_init(&server->metrics);
    server->metric_source.collect = figures_collect;
    metrics_add(&server->metrics, &server->metric_source);
}
