/* sys/config/reload/:subsystem: let this node read a part of its configuration again, as SIGHUP
 * does. */
#include "api/nodes/nodes.h"
#include "base/trace.h"
#include "router/req_dr.h"

static const struct {
    const char *name;
    enum router_reload part;
} parts[] = {
    {"audit", RELOAD_AUDIT},
    {"cluster", RELOAD_CLUSTER},
    {"listener", RELOAD_LISTENER},
    {"log_level", RELOAD_LOG_LEVEL},
};
#define PARTS "audit, cluster, listener, log_level"

/* Upstream's only subsystem. There is no licence key that could be read again. */
static bool is_license(const struct req *req)
{
    return strcmp(req_param(req, "subsystem"), "license") == 0;
}

static enum status find_part(struct req *req, enum router_reload *ret_part)
{
    const char *name = req_param(req, "subsystem");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (strcmp(name, parts[i].name) != 0)
            continue;
        *ret_part = parts[i].part;
        return ST_OK;
    }
    return req_fail(req, ST_INVALID,
                    "unknown subsystem \"%.40s\": " PARTS " or license is expected", name);
}

static enum status nodes_reload_check(struct req *req)
{
    enum router_reload part;
    return is_license(req) ? ST_OK : find_part(req, &part);
}

static enum status nodes_reload_outside(struct req *req)
{
    enum router_reload part;
    struct reason why = {{0}};
    ASSERT(!req_in_txn(req));
    if (is_license(req))
        return ST_OK;
    TRY(find_part(req, &part));
    trace(TRACE_INFO, "sys", "an operator reloads %s", req_param(req, "subsystem"));
    enum status st = req->host->reload(req->host, part, &why);
    if (st == ST_OK || st == ST_NOMEM)
        return st;
    return req_fail(req, ST_INVALID, "%s", why.text);
}

static const struct route reload_routes[] = {
    {.method = METHOD_POST,
     .path = "config/reload/+subsystem",
     .handler = nodes_reload_check,
     .outside = nodes_reload_outside,
     .place = PLACE_NODE,
     .flags = ROUTE_SUDO,
     .help =
         "Let this node read a part of its configuration again, as SIGHUP does: log_level, "
         "listener (certificates), cluster (certificate of the cluster port), or audit (open "
         "sinks again). The log tells what became of cluster and audit. license has no effect."},
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/config/reload/+subsystem",
     .handler = nodes_reload_check,
     .outside = nodes_reload_outside,
     .place = PLACE_NODE,
     .who = WHO_DR_TOKEN,
     .flags = ROUTE_SUDO,
     .body = &req_dr_authority_schema,
     .help = "The same as config/reload, on a DR secondary with the DR operation token."},
};

const struct route_table nodes_reload_table = {reload_routes, ARRAY_LEN(reload_routes)};
