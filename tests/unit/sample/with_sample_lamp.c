/* An engine that lends lamps. A lamp burns while its lease lives: the key of a burning lamp is what
 * the lease keeps, so the end of the lease needs no mount. */
#include "auth/token_ttl.h"
#include "router/req_lease.h"
#include "router/req_login.h"
#include "sample/sample.h"

struct take {
    int64_t ttl;
};
static const struct field take_fields[] = {
    FIELD(struct take, ttl, DURATION, .preset = "1h", .help = "How long the lamp burns."),
};
static const struct schema take_schema = SCHEMA(struct take, take_fields);

struct lamp {
    const char *name;
};
static const struct field lamp_fields[] = {
    FIELD(struct lamp, name, STRING, .help = "Name of the lamp."),
};
static const struct schema lamp_schema = SCHEMA(struct lamp, lamp_fields);

static const struct field line_fields[] = {
    FIELD(struct sample_line, line, STRING, .help = "As it came back from outside."),
};
static const struct schema line_schema = SCHEMA(struct sample_line, line_fields);

static enum status lamp_key(struct req *req, const char *name, struct bytes *ret_key)
{
    const char *path = arena_format(req->arena, "burning/%s", name);
    return path != NULL ? req_key(req, path, ret_key) : ST_NOMEM;
}

static enum status lamp_take(struct req *req)
{
    const struct take *in = req_body(req);
    struct lamp out = {.name = req_param(req, "name")};
    struct lease *lease = arena_zalloc(req->arena, sizeof *lease);
    struct bytes key;

    if (lease == NULL)
        return ST_NOMEM;
    if (in->ttl == 0)
        return req_fail(req, ST_INVALID, "ttl: more than 0 is expected");
    TRY(lamp_key(req, out.name, &key));
    TRY(state_put(req->txn, key, BYTES("on")));
    int64_t ttl_s = MIN(in->ttl, req_limits_of(req->mount).max_s);
    *lease = (struct lease){.kind = &sample_lamp_kind,
                            .expire_ms = req->now_ms + ttl_s * 1000,
                            .renewable = true,
                            .data = key};
    TRY(req_lease_create(req, lease));
    TRY(req_reply(req, &out));
    req_reply_lease(req, lease);
    return ST_OK;
}

static enum status lamp_read(struct req *req)
{
    struct lamp out = {.name = req_param(req, "name")};
    struct bytes key;
    TRY(lamp_key(req, out.name, &key));
    TRY(state_exists(req->txn, key));
    return req_reply(req, &out);
}

static enum status lamp_renew(const struct lease_scope *s, struct lease *lease, int64_t wanted_s,
                              struct reason *why)
{
    int64_t end_ms = s->now_ms + (wanted_s != 0 ? wanted_s : 3600) * 1000;
    if (end_ms > lease->issued_ms + AUTH_MAX_TTL_S * 1000) {
        reason_set(why, "the lamp would burn too long");
        return ST_INVALID;
    }
    lease->expire_ms = end_ms;
    return ST_OK;
}

static enum status lamp_end(const struct lease_scope *s, const struct lease *lease)
{
    return state_delete(s->txn, lease->data);
}

const struct lease_kind sample_lamp_kind = {.name = "lamp", .renew = lamp_renew, .end = lamp_end};

static const struct route lamp_routes[] = {
    {.method = METHOD_POST,
     .path = "take/:name",
     .handler = lamp_take,
     .flags = ROUTE_ACTIVE,
     .body = &take_schema,
     .reply = &lamp_schema,
     .help = "Borrow a lamp."},
    {.method = METHOD_GET,
     .path = "take/:name",
     .handler = lamp_read,
     .reply = &lamp_schema,
     .help = "A lamp that burns."},
    {.method = METHOD_GET,
     .path = "said",
     .handler = sample_said,
     .reply = &line_schema,
     .help = "The line that the service stored last."},
};

const struct route_api sample_lamp_api = {
    .type = "lamp", .routes = lamp_routes, .n = ARRAY_LEN(lamp_routes)};
