/* Maintenance of one node: it turns its clients away until it is told to serve again, or started
 * anew without the setting. It goes on to vote, and what other nodes send it is served. */
#include "api/sys/sys.h"
#include "base/trace.h"

static const struct field maintenance_fields[] = {
    FIELD(struct sys_maintenance, enabled, BOOL, .required = true,
          .help = "Whether this node turns its clients away."),
};
const struct schema sys_maintenance_schema = SCHEMA(struct sys_maintenance, maintenance_fields);

enum status sys_maintenance_read(struct req *req)
{
    return req_reply(req, &(struct sys_maintenance){.enabled = req->host->maintenance});
}

enum status sys_maintenance_outside(struct req *req)
{
    const struct sys_maintenance *in = req_body(req);
    req->host->maintenance = in->enabled;
    trace(TRACE_INFO, "sys", "maintenance %s by an operator", in->enabled ? "begun" : "ended");
    return ST_OK;
}
