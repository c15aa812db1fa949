#include "api/sys/sys.h"
#include "text/encode.h"
#include "text/time.h"

struct sys_health {
    int64_t activecode, standbycode, performancestandbycode, drsecondarycode, haunhealthycode;
    int64_t removedcode, sealedcode, uninitcode, maintenancecode;
    bool standbyok, perfstandbyok;
};

struct node_status *sys_node(struct req *req)
{
    struct node_status *node = arena_alloc(req->arena, sizeof *node);
    if (node != NULL)
        req->host->node_ops->status(req->host->node, node);
    return node;
}

/* No query changes it: who asks to be told of standbys in other words still wants no node that
 * ends. */
enum { HEALTH_LEAVING = 503 };

#define CODE(name, code, says) \
    FIELD(struct sys_health, name, INT, .preset = code, .help = "The status of a node that " says)
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
    FIELD(struct sys_health, standbyok, BOOL, .preset = "false",
          .help = "A standby of either kind has the status of an active node."),
    FIELD(struct sys_health, perfstandbyok, BOOL, .preset = "false",
          .help = "A standby that answers reads has the status of an active node."),
};
static const struct schema sys_health_schema = SCHEMA(struct sys_health, health_fields);

static enum status check_codes(struct req *req, const struct sys_health *in)
{
    const struct schema *schema = &sys_health_schema;
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
    const struct sys_health *in = req_body(req);
    if (node->removed)
        return in->removedcode;
    if (!node->initialized)
        return in->uninitcode;
    if (node->sealed)
        return in->sealedcode;
    if (req->host->maintenance)
        return in->maintenancecode;
    if (node->active)
        return in->activecode;
    if (!node->has_leader)
        return in->haunhealthycode;
    if (node->perf_standby)
        return in->perfstandbyok || in->standbyok ? in->activecode : in->performancestandbycode;
    return in->standbyok ? in->activecode : in->standbycode;
}

static enum status sys_health(struct req *req)
{
    struct node_status status, *node = &status; /* not in the arena, which would be wiped of it */
    req->host->node_ops->status(req->host->node, node);
    struct reason why;
    TRY(check_codes(req, req_body(req)));
    req->reply.http = req->host->leaving ? HEALTH_LEAVING : (int)health_code(req, node);

    struct text_writer w = req_reply_begin(req);
    bool open = node->initialized && !node->sealed;
    text_open_object(&w);
    text_member_bool(&w, "initialized", node->initialized);
    text_member_bool(&w, "sealed", !open);
    text_member_bool(&w, "standby", !node->active);
    text_member_bool(&w, "performance_standby", open && !node->active && node->perf_standby);
    text_member_str(&w, "replication_performance_mode", "disabled");
    text_member_str(&w, "replication_dr_mode", "disabled");
    text_member_int(&w, "server_time_utc", env_wall_ms(req->env) / 1000);
    text_member_str(&w, "version", req->host->version);
    if (req->host->maintenance)
        text_member_bool(&w, "maintenance", true);
    if (node->removed)
        text_member_bool(&w, "removed_from_cluster", true);
    if (open && !node->active)
        text_member_bool(&w, "ha_connection_healthy", node->has_leader);
    if (open) {
        text_member_str(&w, "cluster_name", node->cluster_name);
        text_member_str(&w, "cluster_id", node->cluster_id);
    }
    if (!node->initialized && req->host->awaits_members(req->host, &why)) {
        text_key(&w, "errors");
        text_open_list(&w);
        text_put_str(&w, why.text);
        text_close(&w);
    } else if (req->reply.http >= 400) {
        req_put_no_errors(&w);
    }
    text_close(&w);
    return req_reply_end(req);
}

/* A cluster port as a URL, as upstream's clients expect it; "" while it is not known. */
static enum status put_cluster_url(struct req *req, struct text_writer *w, const char *name,
                                   const char *address)
{
    const char *url = address[0] != '\0' ? arena_format(req->arena, "https://%s", address) : "";
    if (url == NULL)
        return ST_NOMEM;
    text_member_str(w, name, url);
    return ST_OK;
}

static enum status sys_leader(struct req *req)
{
    struct node_status *node = sys_node(req);
    if (node == NULL)
        return ST_NOMEM;

    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_bool(&w, "ha_enabled", true);
    text_member_bool(&w, "is_self", node->active);
    text_member_time(&w, "active_time",
                     node->active_since_ms > 0 ? node->active_since_ms : TEXT_TIME_FIRST);
    text_member_str(&w, "leader_address", node->leader_address);
    TRY(put_cluster_url(req, &w, "leader_cluster_address", node->leader_cluster));
    text_member_bool(&w, "performance_standby", !node->active && node->perf_standby);
    text_member_int(&w, "performance_standby_last_remote_wal", 0);
    text_key(&w, "raft_committed_index");
    text_put_uint(&w, node->committed_index);
    text_key(&w, "raft_applied_index");
    text_put_uint(&w, node->applied_index);
    text_close(&w);
    return req_reply_end(req);
}

static enum status sys_replication_status(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_str(&w, "mode", "disabled");
    text_close(&w);
    return req_reply_end(req);
}

static enum status put_peer(struct req *req, struct text_writer *w, const struct node_peer *peer)
{
    text_open_object(w);
    text_member_str(w, "hostname", peer->name);
    text_member_str(w, "api_address", peer->api_address);
    TRY(put_cluster_url(req, w, "cluster_address", peer->cluster_address));
    text_member_bool(w, "active_node", peer->active);
    if (peer->heard_ms != 0)
        text_member_time(w, "last_echo", peer->heard_ms);
    else
        text_member_null(w, "last_echo");
    text_member_str(w, "version", peer->version);
    text_member_bool(w, "reachable", peer->reached);
    text_close(w);
    return ST_OK;
}

static enum status sys_ha_status(struct req *req)
{
    struct node_peer *peers = arena_alloc(req->arena, RLOG_MEMBERS_MAX * sizeof *peers);
    if (peers == NULL)
        return ST_NOMEM;
    unsigned n = req->host->node_ops->peers(req->host->node, peers);
    sys_warn_no_quorum(req);
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "nodes");
    text_open_list(&w);
    for (unsigned i = 0; i < n; i++)
        TRY(put_peer(req, &w, &peers[i]));
    text_close(&w);
    text_close(&w);
    return req_reply_end(req);
}

static enum status sys_state(struct req *req)
{
    char root[TEXT_HEX_LEN(sizeof((struct node_status *)0)->root) + 1];
    struct node_status *node = sys_node(req);
    if (node == NULL)
        return ST_NOMEM;
    text_hex_put(bytes_of(node->root, sizeof node->root), root);

    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_str(&w, "name", node->name);
    text_key(&w, "version");
    text_put_uint(&w, node->version);
    text_key(&w, "root_version");
    text_put_uint(&w, node->root_version);
    text_member_str(&w, "merkle_root", root);
    text_key(&w, "term");
    text_put_uint(&w, node->term);
    text_key(&w, "committed_index");
    text_put_uint(&w, node->committed_index);
    text_key(&w, "applied_index");
    text_put_uint(&w, node->applied_index);
    text_member_int(&w, "cluster_time_ms", req->host->node_ops->time_ms(req->host->node));
    text_close(&w);
    return req_reply_end(req);
}

#define HEALTH_SHAPE                                                                            \
    "{initialized:bool sealed:bool standby:bool performance_standby:bool "                      \
    "replication_performance_mode:str replication_dr_mode:str server_time_utc:int version:str " \
    "maintenance?:bool removed_from_cluster?:bool ha_connection_healthy?:bool "                 \
    "cluster_name?:str cluster_id?:str errors?:[str]}"
#define LEADER_SHAPE                                                    \
    "{ha_enabled:bool is_self:bool active_time:str leader_address:str " \
    "leader_cluster_address:str performance_standby:bool "              \
    "performance_standby_last_remote_wal:int raft_committed_index:int raft_applied_index:int}"

static const struct route health_routes[] = {
    {.method = METHOD_GET,
     .path = "health",
     .handler = sys_health,
     .body = &sys_health_schema,
     .auth = AUTH_NONE,
     .flags = ROUTE_NODE | ROUTE_BARE | ROUTE_HEAD | ROUTE_UNFOUNDED,
     .shape = HEALTH_SHAPE,
     .statuses = "200 429 472 473 474 501 503 530 any",
     .help = "What this node can do, told by the status: 200 active, 473 answers reads, 429 "
             "standby, 474 no active node is heard of, 503 sealed or in maintenance, 501 not "
             "initialised, 530 removed. The query may name other codes."},
    {.method = METHOD_GET,
     .path = "leader",
     .handler = sys_leader,
     .auth = AUTH_NONE,
     .flags = ROUTE_NODE | ROUTE_BARE,
     .shape = LEADER_SHAPE,
     .help = "Which node is active."},
    {.method = METHOD_GET,
     .path = "replication/status",
     .handler = sys_replication_status,
     .auth = AUTH_NONE,
     .flags = ROUTE_NODE,
     .shape = "{mode:str}",
     .help = "That this cluster replicates to no other, and none to it."},
    {.method = METHOD_GET,
     .path = "replication/dr/status",
     .handler = sys_replication_status,
     .auth = AUTH_NONE,
     .flags = ROUTE_NODE,
     .shape = "{mode:str}",
     .help = "The same of disaster recovery."},
    {.method = METHOD_GET,
     .path = "replication/performance/status",
     .handler = sys_replication_status,
     .auth = AUTH_NONE,
     .flags = ROUTE_NODE,
     .shape = "{mode:str}",
     .help = "The same of performance replication."},
    {.method = METHOD_GET,
     .path = "internal/state",
     .handler = sys_state,
     .flags = ROUTE_NODE,
     .shape = "{name:str version:int root_version:int merkle_root:str term:int committed_index:int "
              "applied_index:int cluster_time_ms:int}",
     .help = "Version, Merkle root and log indexes of this node."},
    {.method = METHOD_GET,
     .path = "ha-status",
     .handler = sys_ha_status,
     .flags = ROUTE_ACTIVE | ROUTE_LOCAL | ROUTE_TOP_LEVEL | ROUTE_OPERATOR,
     .shape = "{nodes:[{hostname:str api_address:str cluster_address:str active_node:bool "
              "last_echo:str~ version:str reachable:bool}]}",
     .help = "The nodes of the cluster as the active one knows them, and when each last spoke. "
             "Without a quorum: as the node that is asked knows them."},
};

const struct route_table sys_health_table = {health_routes, ARRAY_LEN(health_routes)};
