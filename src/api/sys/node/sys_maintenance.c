/* Maintenance of one node. The node refuses its clients until a request ends the maintenance, or
 * the node is restarted without the setting. The node still votes and serves other nodes. */
#include "api/sys/sys.h"
#include "base/trace.h"

struct sys_maintenance {
    bool enabled;
};

static const struct field maintenance_fields[] = {
    FIELD(struct sys_maintenance, enabled, BOOL, .required = true,
          .help = "Whether this node refuses its clients."),
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
    ASSERT(!req_in_txn(req));
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
     .help =
         "Begin or end maintenance of this node. In maintenance its clients get 503, except for "
         "health and for requests of operators. Transfer leadership first if the node is "
         "active."},
};

const struct route_table sys_maintenance_table = {maintenance_routes,
                                                  ARRAY_LEN(maintenance_routes)};
