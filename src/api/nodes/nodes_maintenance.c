/* Maintenance of one node. The node refuses its clients until a request ends the maintenance, or
 * the node is restarted without the setting. The node still votes and serves other nodes. */
#include "api/nodes/nodes.h"
#include "base/trace.h"

struct nodes_maintenance {
    bool enabled;
};

static const struct field maintenance_fields[] = {
    FIELD(struct nodes_maintenance, enabled, BOOL, .required = true,
          .help = "Whether this node refuses its clients."),
};
static const struct schema nodes_maintenance_schema =
    SCHEMA(struct nodes_maintenance, maintenance_fields);

static enum status nodes_maintenance_read(struct req *req)
{
    return req_reply(req, &(struct nodes_maintenance){.enabled = req->host->maintenance});
}

static enum status nodes_maintenance_outside(struct req *req)
{
    const struct nodes_maintenance *in = req_body(req);
    ASSERT(!req_in_txn(req));
    req->host->maintenance = in->enabled;
    trace(TRACE_INFO, "sys", "maintenance %s by an operator", in->enabled ? "begun" : "ended");
    return ST_OK;
}

static const struct route maintenance_routes[] = {
    {.method = METHOD_GET,
     .path = "maintenance",
     .handler = nodes_maintenance_read,
     .place = PLACE_NODE,
     .reply = &nodes_maintenance_schema,
     .help = "Whether this node is in maintenance."},
    {.method = METHOD_POST,
     .path = "maintenance",
     .handler = req_nothing_staged,
     .outside = nodes_maintenance_outside,
     .place = PLACE_NODE,
     .flags = ROUTE_SUDO,
     .body = &nodes_maintenance_schema,
     .help =
         "Begin or end maintenance of this node. In maintenance its clients get 503, except for "
         "health and for requests of operators. Transfer leadership first if the node is "
         "active."},
};

const struct route_table nodes_maintenance_table = {maintenance_routes,
                                                    ARRAY_LEN(maintenance_routes)};
