/* Health of this node, the active node, the nodes of the cluster. */
#include "api/nodes/nodes.h"
#include "router/req_dr_health.h"
#include "text/encode.h"
#include "text/time.h"

struct nodes_health {
    int64_t activecode, standbycode, performancestandbycode, drsecondarycode, haunhealthycode;
    int64_t removedcode, sealedcode, uninitcode, maintenancecode;
    bool standbyok, perfstandbyok;
};

/* The HTTP status of a node that is stopping. No query parameter changes this status: even a client
 * that accepts standbys must not use a node that is about to end. */
enum { HEALTH_LEAVING = 503 };

#define CODE(name, code, says)                                           \
    FIELD(struct nodes_health, name, INT, .preset = code, .exact = true, \
          .help = "The status of a node that " says)
static const struct field health_fields[] = {
    CODE(activecode, "200", "is active."),
    CODE(standbycode, "429",
         "is a standby that forwards every request. It does not change the status of a standby "
         "that answers reads: see performancestandbycode."),
    CODE(performancestandbycode, "473", "is a standby that answers reads."),
    CODE(drsecondarycode, "472", "belongs to a secondary of disaster recovery."),
    CODE(haunhealthycode, "474", "is a standby that hears of no active node."),
    CODE(removedcode, "530", "was removed from the cluster."),
    CODE(sealedcode, "503", "is sealed."),
    CODE(uninitcode, "501", "belongs to a cluster that was not initialised."),
    CODE(maintenancecode, "503", "is in maintenance."),
    FIELD(struct nodes_health, standbyok, BOOL, .preset = "false",
          .help = "A standby of either kind has the status of an active node."),
    FIELD(struct nodes_health, perfstandbyok, BOOL, .preset = "false",
          .help = "A standby that answers reads has the status of an active node."),
};
static const struct schema nodes_health_schema = SCHEMA(struct nodes_health, health_fields);

static enum status check_codes(struct req *req, const struct nodes_health *in)
{
    const struct schema *schema = &nodes_health_schema;
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        if (f->kind != FIELD_INT)
            continue;
        int64_t code = *(const int64_t *)(const void *)((const char *)in + f->offset);
        if (code < 200 || code > 599)
            return req_fail(req, ST_INVALID, "%s: a status of 200 to 599 is expected", f->name);
    }
    return ST_OK;
}

static int64_t health_code(const struct req *req, const struct node_status *node)
{
    const struct nodes_health *in = req_body(req);
    if (node->removed)
        return in->removedcode;
    if (!node->initialized)
        return in->uninitcode;
    if (node->sealed)
        return in->sealedcode;
    if (req->host->maintenance)
        return in->maintenancecode;
    if (node->dr.mode == DR_MODE_SECONDARY)
        return in->drsecondarycode;
    if (node->active)
        return in->activecode;
    if (!node->has_leader)
        return in->haunhealthycode;
    if (node->perf_standby)
        return in->perfstandbyok || in->standbyok ? in->activecode : in->performancestandbycode;
    return in->standbyok ? in->activecode : in->standbycode;
}

struct health_out {
    bool initialized, sealed, standby, performance_standby, maintenance, removed_from_cluster;
    const char *replication_performance_mode, *replication_dr_mode;
    int64_t server_time_utc;
    struct req_dr_health dr;
    const char *version, *cluster_name, *cluster_id;
    bool ha_connection_healthy, follows, open; /* follows: a standby of an open cluster */
    struct field_strings errors;
};
static const struct field health_out_fields[] = {
    FIELD(struct health_out, initialized, BOOL),
    FIELD(struct health_out, sealed, BOOL),
    FIELD(struct health_out, standby, BOOL),
    FIELD(struct health_out, performance_standby, BOOL),
    FIELD(struct health_out, replication_performance_mode, STRING),
    FIELD(struct health_out, replication_dr_mode, STRING),
    FIELD(struct health_out, server_time_utc, INT),
    FIELD_NAMED("last_wal", struct health_out, dr.last_wal, UINT, .omit = true,
                .has = offsetof(struct health_out, dr.takes_part)),
    FIELD_NAMED("replication_primary_canary_age_ms", struct health_out, dr.canary_age_ms, INT),
    FIELD_NAMED("clock_skew_ms", struct health_out, dr.clock_skew_ms, INT),
    FIELD_NAMED("echo_duration_ms", struct health_out, dr.echo_duration_ms, INT),
    FIELD(struct health_out, version, STRING),
    FIELD(struct health_out, maintenance, BOOL, .omit = true),
    FIELD(struct health_out, removed_from_cluster, BOOL, .omit = true),
    FIELD(struct health_out, ha_connection_healthy, BOOL, .omit = true,
          .has = offsetof(struct health_out, follows)),
    FIELD(struct health_out, cluster_name, STRING, .omit = true,
          .has = offsetof(struct health_out, open)),
    FIELD(struct health_out, cluster_id, STRING, .omit = true,
          .has = offsetof(struct health_out, open)),
    FIELD(struct health_out, errors, STRINGS, .omit = true,
          .has = offsetof(struct health_out, errors.given)),
};
static const struct schema nodes_health_reply = SCHEMA(struct health_out, health_out_fields);

static enum status nodes_health(struct req *req)
{
    struct node_status status, *node = &status; /* on the stack: wiping an arena takes time */
    req->host->node_ops->status(req->host->node, node);
    struct reason why;
    ASSERT(!req_in_txn(req));
    TRY(check_codes(req, req_body(req)));
    req->reply.http = req->host->leaving ? HEALTH_LEAVING : (int)health_code(req, node);
    ASSERT(req->reply.http >= 200 && req->reply.http <= 599);

    bool open = node->initialized && !node->sealed;
    bool told = node->initialized ? req->host->node_ops->no_quorum(req->host->node, &why)
                                  : req->host->awaits_members(req->host, &why);
    const struct health_out out = {
        .initialized = node->initialized,
        .sealed = !open,
        .standby = !node->active,
        .performance_standby = open && !node->active && node->perf_standby,
        .replication_performance_mode = "disabled",
        .replication_dr_mode = dr_mode_text(node->dr.mode),
        .server_time_utc = env_wall_ms(req->env) / 1000,
        .dr = req_dr_health(req, node),
        .version = req->host->version,
        .maintenance = req->host->maintenance,
        .removed_from_cluster = node->removed,
        .ha_connection_healthy = node->has_leader,
        .follows = open && !node->active,
        .open = open,
        .cluster_name = node->cluster_name,
        .cluster_id = node->cluster_id,
        .errors = {(const char *const[]){why.text}, told, told || req->reply.http >= 400},
    };
    return req_reply(req, &out);
}

/* The address of a cluster port as a URL, as upstream's clients expect it; "" while the address is
 * not known. NULL without memory. */
static const char *cluster_url(struct req *req, const char *address)
{
    return address[0] != '\0' ? arena_format(req->arena, "https://%s", address) : "";
}

struct leader_out {
    bool ha_enabled, is_self, performance_standby, quorum;
    int64_t active_time, performance_standby_last_remote_wal;
    const char *leader_address, *leader_cluster_address;
    uint64_t raft_committed_index, raft_applied_index;
};
static const struct field leader_fields[] = {
    FIELD(struct leader_out, ha_enabled, BOOL),
    FIELD(struct leader_out, is_self, BOOL),
    FIELD(struct leader_out, active_time, TIME),
    FIELD(struct leader_out, leader_address, STRING),
    FIELD(struct leader_out, leader_cluster_address, STRING),
    FIELD(struct leader_out, performance_standby, BOOL),
    FIELD(struct leader_out, performance_standby_last_remote_wal, INT),
    FIELD(struct leader_out, raft_committed_index, UINT),
    FIELD(struct leader_out, raft_applied_index, UINT),
    FIELD(struct leader_out, quorum, BOOL,
          .help = "Whether this node reaches enough voters for a leader."),
};
static const struct schema nodes_leader_reply = SCHEMA(struct leader_out, leader_fields);

static enum status nodes_leader(struct req *req)
{
    struct node_status *node = req_node(req);
    const char *cluster = node != NULL ? cluster_url(req, node->leader_cluster) : NULL;
    ASSERT(!req_in_txn(req)); /* a sealed node replies too */
    if (cluster == NULL)
        return ST_NOMEM;
    const struct leader_out out = {
        .ha_enabled = true,
        .is_self = node->active,
        .active_time = node->active_since_ms > 0 ? node->active_since_ms : TEXT_TIME_FIRST,
        .leader_address = node->leader_address,
        .leader_cluster_address = cluster,
        .performance_standby = !node->active && node->perf_standby,
        .raft_committed_index = node->committed_index,
        .raft_applied_index = node->applied_index,
        .quorum = !node->no_quorum,
    };
    return req_reply(req, &out);
}

struct peer_out {
    const char *hostname, *api_address, *cluster_address, *version;
    bool active_node, reachable, serving;
    int64_t last_echo;
};
static const struct field peer_fields[] = {
    FIELD(struct peer_out, hostname, STRING),
    FIELD(struct peer_out, api_address, STRING),
    FIELD(struct peer_out, cluster_address, STRING),
    FIELD(struct peer_out, active_node, BOOL),
    FIELD(struct peer_out, last_echo, TIME, .null = true),
    FIELD(struct peer_out, version, STRING),
    FIELD(struct peer_out, reachable, BOOL),
    FIELD(struct peer_out, serving, BOOL,
          .help = "Whether the node is unsealed and, where audit devices are enabled, one of them "
                  "takes its records."),
};
static const struct schema peer_schema = SCHEMA(struct peer_out, peer_fields);
struct ha_status_out {
    struct field_list nodes;
};
static const struct field ha_status_fields[] = {
    FIELD(struct ha_status_out, nodes, LIST, .sub = &peer_schema),
};
static const struct schema nodes_ha_status_reply = SCHEMA(struct ha_status_out, ha_status_fields);

static enum status nodes_ha_status(struct req *req)
{
    struct node_peer *peers = arena_alloc(req->arena, RLOG_MEMBERS_MAX * sizeof *peers);
    struct peer_out *out = arena_alloc(req->arena, RLOG_MEMBERS_MAX * sizeof *out);
    if (peers == NULL || out == NULL)
        return ST_NOMEM;
    unsigned n = req->host->node_ops->peers(req->host->node, peers);
    ASSERT(n <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < n; i++) {
        out[i] = (struct peer_out){
            .hostname = peers[i].name,
            .api_address = peers[i].api_address,
            .cluster_address = cluster_url(req, peers[i].cluster_address),
            .active_node = peers[i].active,
            .last_echo = peers[i].heard_ms,
            .version = peers[i].version,
            .reachable = peers[i].reached,
            .serving = peers[i].reached && peers[i].serves,
        };
        if (out[i].cluster_address == NULL)
            return ST_NOMEM;
    }
    req_warn_no_quorum(req);
    return req_reply(req, &(struct ha_status_out){.nodes = {out, n}});
}

struct state_out {
    const char *name, *merkle_root;
    uint64_t version, root_version, term, committed_index, applied_index;
    int64_t cluster_time_ms;
};
static const struct field state_fields[] = {
    FIELD(struct state_out, name, STRING),        FIELD(struct state_out, version, UINT),
    FIELD(struct state_out, root_version, UINT),  FIELD(struct state_out, merkle_root, STRING),
    FIELD(struct state_out, term, UINT),          FIELD(struct state_out, committed_index, UINT),
    FIELD(struct state_out, applied_index, UINT), FIELD(struct state_out, cluster_time_ms, INT),
};
static const struct schema nodes_state_reply = SCHEMA(struct state_out, state_fields);

static enum status nodes_state(struct req *req)
{
    char root[TEXT_HEX_LEN(sizeof((struct node_status *)0)->root) + 1];
    struct node_status *node = req_node(req);
    if (node == NULL)
        return ST_NOMEM;
    text_hex_put(bytes_of(node->root, sizeof node->root), root);
    ASSERT(strlen(root) == sizeof root - 1);
    const struct state_out out = {
        .name = node->name,
        .version = node->version,
        .root_version = node->root_version,
        .merkle_root = root,
        .term = node->term,
        .committed_index = node->committed_index,
        .applied_index = node->applied_index,
        .cluster_time_ms = req->host->node_ops->time_ms(req->host->node),
    };
    return req_reply(req, &out);
}

static const struct route health_routes[] = {
    {.method = METHOD_GET,
     .path = "health",
     .handler = nodes_health,
     .body = &nodes_health_schema,
     .who = WHO_ANYONE,
     .place = PLACE_NODE,
     .when = WHEN_UNINITIALIZED,
     .form = FORM_BARE,
     .flags = ROUTE_UNRECORDED | ROUTE_HEAD,
     .reply = &nodes_health_reply,
     .statuses = "200 429 472 473 474 501 503 530 any",
     .help = "The status of the reply says what this node can do: 200 active, 473 answers reads, "
             "429 standby, 472 belongs to a DR secondary, 474 hears of no active node, 503 sealed "
             "or in maintenance, 501 not "
             "initialised, 530 removed. The query may name other codes."},
    {.method = METHOD_GET,
     .path = "leader",
     .handler = nodes_leader,
     .who = WHO_ANYONE,
     .place = PLACE_NODE,
     .when = WHEN_UNINITIALIZED,
     .form = FORM_BARE,
     .flags = ROUTE_UNRECORDED,
     .reply = &nodes_leader_reply,
     .help = "Which node is active."},
    {.method = METHOD_GET,
     .path = "internal/state",
     .handler = nodes_state,
     .place = PLACE_NODE,
     .reply = &nodes_state_reply,
     .help = "Version, Merkle root and log indexes of this node."},
    {.method = METHOD_GET,
     .path = "ha-status",
     .handler = nodes_ha_status,
     .place = PLACE_ACTIVE_OR_LOCAL,
     .when = WHEN_MAINTENANCE,
     .form = FORM_TOP_LEVEL,
     .reply = &nodes_ha_status_reply,
     .help = "The nodes of the cluster as the active node knows them, and when each was heard "
             "last. Without a quorum: as this node knows them."},
};

const struct route_table nodes_health_table = {health_routes, ARRAY_LEN(health_routes)};
