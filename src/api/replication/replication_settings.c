/* Settings of a primary for its secondaries: sync mode and bandwidth (cluster/dr/settings.h). */
#include "api/replication/replication_internal.h"
#include "cluster/dr/settings.h"

#include <inttypes.h>

struct settings_in {
    bool sync, has_sync, has_timeout, has_bandwidth;
    int64_t sync_timeout_ms, bandwidth;
};
static const struct field settings_in_fields[] = {
    FIELD(struct settings_in, sync, BOOL, .has = offsetof(struct settings_in, has_sync),
          .help = "Whether the reply to a write waits until a secondary has stored the write."),
    FIELD(struct settings_in, sync_timeout_ms, INT,
          .has = offsetof(struct settings_in, has_timeout),
          .help = "The longest such wait, 200 to 5000 milliseconds. After it, writes are "
                  "acknowledged without the secondary until the secondary has caught up."),
    FIELD_NAMED("bandwidth_bytes_per_second", struct settings_in, bandwidth, INT,
                .has = offsetof(struct settings_in, has_bandwidth),
                .help = "The most that this cluster ships to one secondary in a second, at least "
                        "16384; 0: no bound."),
};
static const struct schema replication_settings_schema =
    SCHEMA(struct settings_in, settings_in_fields);

struct settings_out {
    bool sync;
    uint64_t sync_timeout_ms, bandwidth;
};
static const struct field settings_out_fields[] = {
    FIELD(struct settings_out, sync, BOOL),
    FIELD(struct settings_out, sync_timeout_ms, UINT),
    FIELD_NAMED("bandwidth_bytes_per_second", struct settings_out, bandwidth, UINT),
};
static const struct schema replication_settings_reply =
    SCHEMA(struct settings_out, settings_out_fields);

static enum status read_settings(struct req *req, struct dr_settings *ret)
{
    struct dr_role role;
    TRY(replication_need_primary(req, &role));
    return dr_settings_read(req->txn, ret);
}

static enum status replication_settings_read(struct req *req)
{
    struct dr_settings s;
    TRY(read_settings(req, &s));
    const struct settings_out out = {s.sync, s.sync_timeout_ms, s.bandwidth};
    return req_reply(req, &out);
}

/* Members that are missing keep their value. */
static enum status replication_settings_write(struct req *req)
{
    const struct settings_in *in = req_body(req);
    struct dr_settings s;
    TRY(read_settings(req, &s));
    if (in->has_sync)
        s.sync = in->sync;
    if (in->has_timeout && (in->sync_timeout_ms < DR_SYNC_TIMEOUT_MIN_MS ||
                            in->sync_timeout_ms > DR_SYNC_TIMEOUT_MAX_MS))
        return req_fail(req, ST_INVALID, "sync_timeout_ms: %d to %d is expected",
                        DR_SYNC_TIMEOUT_MIN_MS, DR_SYNC_TIMEOUT_MAX_MS);
    if (in->has_timeout)
        s.sync_timeout_ms = (uint32_t)in->sync_timeout_ms;
    if (in->has_bandwidth && in->bandwidth != 0 &&
        (in->bandwidth < DR_BANDWIDTH_MIN || in->bandwidth > DR_BANDWIDTH_MAX))
        return req_fail(req, ST_INVALID,
                        "bandwidth_bytes_per_second: 0 or %d to %" PRId64 " is expected",
                        DR_BANDWIDTH_MIN, DR_BANDWIDTH_MAX);
    if (in->has_bandwidth)
        s.bandwidth = (uint64_t)in->bandwidth;
    TRY(dr_settings_put(req->txn, &s));
    return ST_OK;
}

static const struct route settings_routes[] = {
    {.method = METHOD_GET,
     .path = "replication/dr/primary/settings",
     .handler = replication_settings_read,
     .feature = SYS_DR_FEATURE,
     .reply = &replication_settings_reply,
     .help = "How this primary serves its secondaries."},
    {.method = METHOD_POST,
     .path = "replication/dr/primary/settings",
     .handler = replication_settings_write,
     .flags = ROUTE_SUDO,
     .feature = SYS_DR_FEATURE,
     .body = &replication_settings_schema,
     .help = "Set how this primary serves its secondaries. What is not named keeps its value. All "
             "nodes follow at once; a new role of this cluster begins with the defaults."},
};

const struct route_table replication_settings_table = {settings_routes, ARRAY_LEN(settings_routes)};
