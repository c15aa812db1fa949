#include "api/sys/sys.h"
#include "base/metric.h"
#include "text/encode.h"
#include "text/time.h"

struct node_status *sys_node(struct req *req)
{
    struct node_status *node = arena_alloc(req->arena, sizeof *node);
    if (node != NULL)
        req->host->status(req->host, node);
    return node;
}

/* A status code the query names in place of the usual one. */
static enum status read_code(struct req *req, const char *name, int *code)
{
    const struct text_value *v = text_get(req->query, name);
    int64_t n;
    if (v == NULL)
        return ST_OK;
    if (v->kind != TEXT_STRING || text_int_parse(v->text, &n) != ST_OK || n < 200 || n > 599)
        return req_fail(req, ST_INVALID, "%s: a status of 200 to 599 is expected", name);
    *code = (int)n;
    return ST_OK;
}

static enum status read_flag(struct req *req, const char *name, bool *flag)
{
    const struct text_value *v = text_get(req->query, name);
    if (v == NULL)
        return ST_OK;
    if (v->kind != TEXT_STRING || text_to_bool(v, flag) != ST_OK)
        return req_fail(req, ST_INVALID, "%s: true or false is expected", name);
    return ST_OK;
}

/* No query changes it: who asks to be told of standbys in other words still wants no node that
 * ends. */
enum { HEALTH_LEAVING = 503 };

struct health_codes {
    int active, standby, perf_standby, dr_secondary, sealed, uninit, removed;
    bool standby_ok, perf_standby_ok;
};

static enum status read_codes(struct req *req, struct health_codes *ret)
{
    *ret = (struct health_codes){.active = 200,
                                 .standby = 429,
                                 .perf_standby = 473,
                                 .dr_secondary = 472,
                                 .sealed = 503,
                                 .uninit = 501,
                                 .removed = 530};
    TRY(read_code(req, "activecode", &ret->active));
    TRY(read_code(req, "standbycode", &ret->standby));
    TRY(read_code(req, "performancestandbycode", &ret->perf_standby));
    TRY(read_code(req, "drsecondarycode", &ret->dr_secondary));
    TRY(read_code(req, "sealedcode", &ret->sealed));
    TRY(read_code(req, "uninitcode", &ret->uninit));
    TRY(read_code(req, "removedcode", &ret->removed));
    TRY(read_flag(req, "standbyok", &ret->standby_ok));
    return read_flag(req, "perfstandbyok", &ret->perf_standby_ok);
}

static int health_code(const struct node_status *node, const struct health_codes *codes)
{
    if (node->removed)
        return codes->removed;
    if (!node->initialized)
        return codes->uninit;
    if (node->sealed)
        return codes->sealed;
    if (node->active)
        return codes->active;
    if (node->perf_standby)
        return codes->perf_standby_ok ? codes->active : codes->perf_standby;
    return codes->standby_ok ? codes->active : codes->standby;
}

enum status sys_health(struct req *req)
{
    struct health_codes codes;
    struct node_status *node = sys_node(req);
    if (node == NULL)
        return ST_NOMEM;
    TRY(read_codes(req, &codes));
    req->reply.http = req->host->leaving ? HEALTH_LEAVING : health_code(node, &codes);

    struct text_writer w = req_reply_begin(req);
    bool open = node->initialized && !node->sealed;
    text_open_object(&w);
    text_member_bool(&w, "initialized", node->initialized);
    text_member_bool(&w, "sealed", !open);
    text_member_bool(&w, "standby", !node->active);
    text_member_bool(&w, "performance_standby", open && !node->active && node->perf_standby);
    text_member_str(&w, "replication_performance_mode", "disabled");
    text_member_str(&w, "replication_dr_mode", "disabled");
    if (node->removed)
        text_member_bool(&w, "removed_from_cluster", true);
    text_member_int(&w, "server_time_utc", env_wall_ms(req->env) / 1000);
    text_member_str(&w, "version", req->host->version);
    if (open) {
        text_member_str(&w, "cluster_name", node->cluster_name);
        text_member_str(&w, "cluster_id", node->cluster_id);
    }
    text_close(&w);
    return req_reply_end(req);
}

enum status sys_leader(struct req *req)
{
    CLEANUP(buf_done) struct buf since = {0};
    struct node_status *node = sys_node(req);
    if (node == NULL)
        return ST_NOMEM;
    if (node->active_since_ms > 0)
        text_time_put(&since, node->active_since_ms);
    else
        buf_add_str(&since, "0001-01-01T00:00:00Z");
    TRY(buf_status(&since));

    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_bool(&w, "ha_enabled", true);
    text_member_bool(&w, "is_self", node->active);
    text_key(&w, "active_time");
    text_put_bytes(&w, buf_bytes(&since));
    text_member_str(&w, "leader_address", node->leader_address);
    text_member_str(&w, "leader_cluster_address", node->leader_cluster);
    text_member_bool(&w, "performance_standby", !node->active && node->perf_standby);
    text_member_int(&w, "performance_standby_last_remote_wal", 0);
    text_key(&w, "raft_committed_index");
    text_put_uint(&w, node->committed_index);
    text_key(&w, "raft_applied_index");
    text_put_uint(&w, node->applied_index);
    text_close(&w);
    return req_reply_end(req);
}

enum status sys_metrics(struct req *req)
{
    CLEANUP(buf_done) struct buf text = {0};
    metrics_write(req->host->metrics, &text);
    TRY(buf_status(&text));
    return req_reply_raw(req, "text/plain; version=0.0.4; charset=utf-8", buf_bytes(&text));
}

enum status sys_state(struct req *req)
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
    text_member_int(&w, "cluster_time_ms", req->host->time_ms(req->host));
    text_close(&w);
    return req_reply_end(req);
}
