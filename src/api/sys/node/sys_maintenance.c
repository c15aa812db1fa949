/* Maintenance of one node: it turns its clients away until it is told to serve again, or started
 * anew without the setting. It goes on to vote, and what other nodes send it is served. */
#include "api/sys/sys.h"
#include "base/trace.h"

struct sys_maintenance {
    bool enabled;
};

static const struct field maintenance_fields[] = {
    FIELD(struct sys_maintenance, enabled, BOOL, .required = true,
          .help = "Whether this node turns its clients away."),
};
static const struct schema sys_maintenance_schema =
    SCHEMA(struct sys_maintenance, maintenance_fields);

static enum status sys_maintenance_read(struct req *req)
{
    return req_reply(req, &(struct sys_maintenance){.enabled = req->host->maintenance});
}

static enum status sys_maintenance_outside(struct req *req)
{
    const struct sys_maintenance *in = req_body(req);
    req->host->maintenance = in->enabled;
    trace(TRACE_INFO, "sys", "maintenance %s by an operator", in->enabled ? "begun" : "ended");
    return ST_OK;
}

static const struct route maintenance_routes[] = {
    {.method = METHOD_GET,
     .path = "maintenance",
     .handler = sys_maintenance_read,
     .flags = ROUTE_NODE,
     .reply = &sys_maintenance_schema,
     .help = "Whether this node is in maintenance."},
    {.method = METHOD_POST,
     .path = "maintenance",
     .handler = sys_nothing_staged,
     .outside = sys_maintenance_outside,
     .flags = ROUTE_NODE | ROUTE_SUDO,
     .body = &sys_maintenance_schema,
     .help = "Begin or end maintenance of this node: 503 to its clients, but for health and what "
             "operators need. Hand leadership on first if it is active."},
};

const struct route_table sys_maintenance_table = {maintenance_routes,
                                                  ARRAY_LEN(maintenance_routes)};
